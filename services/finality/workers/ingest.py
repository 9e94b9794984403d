"""Ingest: foreign records of the source topics become accepted input, at least once and without a hole.

No transaction. A gapless idempotent producer writes in order; after a flush that left nothing unacknowledged the group
offsets are committed, as a hint. Each record carries its source coordinates and, within a *session* of a source
partition, the coordinate of the record sent before it to the same input partition, so that the fold drops repeats and
refuses what came after a hole. Any delivery error ends the process before offsets are committed; the next session
sends it all again.

What cannot be mapped goes in as kind `rejected`: its raw bytes are the value, the cause is a code in a header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from finality.core.errors import DependencyError, Disposition, Rejected, Retry
from finality.core.event import MAX_EVENT_BYTES, Event, check_event, encode_event
from finality.core.jobkey import partition_of
from finality.core.ports import Appender, Clock, Delivery, GroupReader, Place, Probe, RawRecord
from finality.core.records import (
    CAUSE,
    EVENT,
    KIND,
    REJECTED,
    SOURCE,
    TRACE,
    Coordinate,
    Headers,
    SourceMark,
    encode_source,
)
from finality.sources.base import Source

__all__ = ["Ingest", "IngestOptions", "PartitionKey", "by_job", "by_root"]

PartitionKey = Callable[[Event], str]


def by_job(event: Event) -> str:
    """Partition key: the job itself."""
    return event.job


def by_root(event: Event) -> str:
    """Partition key: the root job, so that a family lies in one partition (needed for cascades)."""
    return event.root or event.parent or event.job


class IngestOptions(NamedTuple):
    """batch: records of one poll. flush_s: bound of the wait for acknowledgements of one batch."""

    batch: int = 2_000
    poll_s: float = 0.05
    flush_s: float = 30.0


class _Session:
    """One source partition since it came to this process."""

    __slots__ = ("base", "before", "next_offset")

    def __init__(self, base: int) -> None:
        self.base = base
        self.next_offset = base
        self.before: dict[int, Coordinate] = {}  # input partition -> last coordinate sent there


class Ingest:
    """See the module's head.

    sources: by topic; the function that picks the source of a record (None: nobody knows its shape). counts: records,
    events, rejected, unknown words, by name.
    """

    def __init__(
        self,
        reader: GroupReader,
        appender: Appender,
        partitions: int,
        choose: Callable[[str, bytes, Headers], Source | None],
        clock: Clock,
        probe: Probe,
        keys: Mapping[str, PartitionKey] | None = None,
        options: IngestOptions | None = None,
    ) -> None:
        self._reader = reader
        self._appender = appender
        self._partitions = partitions
        self._choose = choose
        self._clock = clock
        self._probe = probe
        self._keys = dict(keys or {})
        self._options = options if options is not None else IngestOptions()
        self._sessions: dict[Place, _Session] = {}
        self.counts: Counter[str] = Counter()

    def step(self) -> int:
        """Read, map, append, wait for the acknowledgements, commit. The number of records read.

        Raises `DependencyError` after a delivery error: the process must end, and the next session repeats the batch.
        """
        options = self._options
        batch = self._reader.poll(options.batch, options.poll_s)
        self._follow_group()
        for raw in batch:
            self._take(raw)
        if batch:
            self._probe.at("ingest.flush", -1)
            self._acknowledge()
            self._probe.at("ingest.commit", -1)
            self._commit({raw.place for raw in batch})
            self._probe.at("ingest.committed", -1)
        return len(batch)

    def close(self) -> None:
        """Leave the group; what was not acknowledged is sent again by the next session."""
        self._reader.close()
        self._appender.close()

    def _follow_group(self) -> None:
        for place in self._reader.closed():
            self._sessions.pop(place, None)
        for place, base in self._reader.opened():
            self._sessions[place] = _Session(base)

    def _take(self, raw: RawRecord) -> None:
        session = self._sessions.get(raw.place)
        if session is None or raw.record.offset < session.next_offset:
            return  # of a partition that went away, or handed out before
        record = raw.record
        session.next_offset = record.offset + 1
        self.counts["records"] += 1
        try:
            events = self._map(raw)
        except Rejected as refusal:
            self.counts["rejected"] += 1
            self._append_rejected(raw, session, refusal.code)
            return
        for ordinal, (event, value) in enumerate(events):
            key = self._keys.get(raw.place.topic, by_job)(event)
            self._append(raw, session, ordinal, key.encode(), value, EVENT)
        self.counts["events"] += len(events)

    def _map(self, raw: RawRecord) -> list[tuple[Event, bytes]]:
        """All events of a record, each checked, or `Rejected` for the whole record: never a part of one."""
        record = raw.record
        value = record.value if record.value is not None else b""
        source = self._choose(raw.place.topic, value, record.headers)
        if source is None:
            raise Rejected("UNKNOWN_FORMAT")
        mapped = source.map(value, record.headers)
        self.counts["unknown"] += len(mapped.unknown)
        events = []
        for event in mapped.events:
            check_event(event)
            encoded = encode_event(event)
            if len(encoded) > MAX_EVENT_BYTES:
                raise Rejected("EVENT_TOO_LARGE")
            events.append((event, encoded))
        return events

    def _append_rejected(self, raw: RawRecord, session: _Session, code: str) -> None:
        key = f"{raw.place.topic}/{raw.place.partition}".encode()
        self._append(raw, session, 0, key, raw.record.value, REJECTED, ((CAUSE, code.encode()),))

    def _append(
        self,
        raw: RawRecord,
        session: _Session,
        ordinal: int,
        key: bytes,
        value: bytes | None,
        kind: bytes,
        more: Headers = (),
    ) -> None:
        place, record = raw.place, raw.record
        target = partition_of(key, self._partitions)
        at = Coordinate(record.offset, ordinal)
        mark = SourceMark(
            place.topic_id, place.partition, record.leader_epoch, at, session.before.get(target), session.base
        )
        headers: list[tuple[str, bytes | None]] = [(KIND, kind), (SOURCE, encode_source(mark)), *more]
        headers += [pair for pair in record.headers if pair[0] == TRACE]
        self._probe.at("ingest.append", target)
        while True:
            try:
                self._appender.append(target, key, value, headers)
                break
            except Retry:
                self._check(self._appender.poll())
                self._appender.flush(0.05)
        session.before[target] = at

    def _acknowledge(self) -> None:
        """Wait until the broker has acknowledged everything; any error, or silence, ends the process."""
        deadline = self._clock.monotonic_ns() + int(self._options.flush_s * 1e9)
        while self._appender.flush(0.5):
            self._check(self._appender.poll())
            if self._clock.monotonic_ns() > deadline:
                raise _must_end(f"no acknowledgement within {self._options.flush_s:.0f} s")
        self._check(self._appender.poll())

    def _check(self, reports: Sequence[Delivery]) -> None:
        for report in reports:
            if report.error:
                raise _must_end(f"the broker refused a record ({report.error})")

    def _commit(self, places: set[Place]) -> None:
        offsets = [(place, self._sessions[place].next_offset) for place in sorted(places) if place in self._sessions]
        try:
            self._reader.commit(offsets)
        except Retry:
            self.counts["commit_retry"] += 1  # a hint only: the next session begins lower and is dropped as repeats


def _must_end(what: str) -> DependencyError:
    """An error after which this process may not go on: what it sent is in doubt, and only a new session repeats it."""
    error = DependencyError(f"ingest: {what}; nothing was committed, start it again when the brokers answer")
    error.disposition = Disposition.HALT
    return error
