"""The projector: the attested log as plain topics, exactly once for readers that know nothing of us.

Each certified entry goes to one plain topic, with its index and epoch in headers, in one transaction per batch and
target partition. Each target's own tail says where to go on; nothing is inferred from one target about another, and no
offsets are stored. Digest entries go to every plain topic as `mark` records, so that a quiet topic keeps a tail.

| entry | topic |
| --- | --- |
| delta | deltas |
| command | commands |
| outcome, amendment | outcomes |
| rejected, beyond-memory | dead-letters (value: the raw bytes of the input record; the entry in a header) |
| digest | mark in all four |
| control | none |

Invariants held here: I11 all marks meet after faults stop · I13 a dead letter keeps its bytes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from finality.core.errors import IntegrityFault
from finality.core.logview import Attested, LogView
from finality.core.names import PLAIN_TOPICS
from finality.core.ports import Clock, Out, Probe, RecordReader, TransactionSink
from finality.core.projection import project
from finality.core.records import Record

__all__ = ["Projector", "ProjectorOptions"]


class ProjectorOptions(NamedTuple):
    """batch: records of one transaction. window: records waiting for a target before the log is read no further."""

    batch: int = 2_000
    window: int = 20_000
    poll_s: float = 0.05


class _Target:
    """One plain topic's partition. tail: greatest index it holds, -1 before it was read."""

    __slots__ = ("opened_at", "sink", "tail", "under_way", "waiting")

    def __init__(self, sink: TransactionSink) -> None:
        self.sink = sink
        self.tail = -1
        self.waiting: deque[Out] = deque()
        self.under_way: list[Out] = []
        self.opened_at = -1


class Projector:
    """See the module's head. raw: the input record at a position of a partition, found by its hash.

    open_sink: the sink of a (topic, partition). marks: greatest index written, by partition and topic.
    """

    def __init__(
        self,
        views: Mapping[int, LogView],
        log: RecordReader,
        open_sink: Callable[[str, int], TransactionSink],
        raw: Callable[[int, int, str], Record],
        clock: Clock,
        probe: Probe,
        options: ProjectorOptions | None = None,
        publish: Callable[[int, list[Attested]], None] | None = None,
    ) -> None:
        self._views = dict(views)
        self._log = log
        self._raw = raw
        self._clock = clock
        self._probe = probe
        self._options = options if options is not None else ProjectorOptions()
        self._publish = publish
        self._targets = {
            partition: {topic: _Target(open_sink(topic, partition)) for topic in PLAIN_TOPICS} for partition in views
        }
        self.counts: Counter[str] = Counter()

    def step(self) -> int:
        """Read the log, hand batches to idle sinks, take their reports. The number of log records read."""
        read = self._read_log() if self._has_room() else 0
        for partition, targets in self._targets.items():
            for topic, target in targets.items():
                self._serve(partition, topic, target)
        return read

    @property
    def marks(self) -> dict[int, dict[str, int]]:
        """Greatest index in each target, -1 unknown."""
        return {
            partition: {topic: target.tail for topic, target in targets.items()}
            for partition, targets in self._targets.items()
        }

    def drained(self) -> bool:
        """Nothing waits for any target."""
        return not any(
            target.waiting or target.under_way or target.tail < 0
            for targets in self._targets.values()
            for target in targets.values()
        )

    def close(self) -> None:
        """Stop; what was not committed is written by the next one."""
        for targets in self._targets.values():
            for target in targets.values():
                target.sink.close()

    def _has_room(self) -> bool:
        window = self._options.window
        return all(len(target.waiting) < window for targets in self._targets.values() for target in targets.values())

    def _read_log(self) -> int:
        records = self._log.poll(500, self._options.poll_s)
        for record in records:
            entries = self._views[record.partition].read(record)
            for attested in entries:
                self._route(record.partition, attested)
            if entries and self._publish is not None:
                self._publish(record.partition, entries)
        return len(records)

    def _route(self, partition: int, attested: Attested) -> None:
        stream = self._views[partition].tip.stream
        for topic, make in project(attested):
            target = self._targets[partition][topic]
            if attested.number <= target.tail:
                continue
            raw = self._raw(partition, make.position, make.sha256) if make.sha256 else None
            target.waiting.append(make.out(partition, stream, raw))

    def _serve(self, partition: int, topic: str, target: _Target) -> None:
        for report in target.sink.poll():
            if report.what == "opened":
                assert isinstance(report.tail, int)
                self._opened(target, report.tail)
            else:
                target.tail = target.under_way[-1].place
                self.counts["written." + topic] += len(target.under_way)
                target.under_way = []
                self._probe.at("plain.committed", partition)
        if target.tail >= 0:
            self._check_ahead(partition, topic, target)
        if target.sink.idle and target.waiting:
            size = min(len(target.waiting), self._options.batch)
            target.under_way = [target.waiting.popleft() for _ in range(size)]
            self._probe.at("plain.submit", partition)
            target.sink.submit(target.under_way)

    def _opened(self, target: _Target, tail: int) -> None:
        """The target's own tail decides: what it holds is dropped here, what it lacks is written (again)."""
        target.waiting.extendleft(reversed(target.under_way))
        target.under_way = []
        target.tail = tail
        target.opened_at = self._clock.monotonic_ns()
        while target.waiting and target.waiting[0].place <= tail:
            target.waiting.popleft()

    def _check_ahead(self, partition: int, topic: str, target: _Target) -> None:
        """A target that holds more than the log, read to an end fetched later, was written from a log that is gone."""
        if target.opened_at < 0:
            return
        end = self._log.end(partition)
        if end is None or end.fetched_at <= target.opened_at or self._log.position(partition) < end.offset:
            return
        if self._views[partition].tip.index < target.tail:
            raise IntegrityFault(
                "LOG_SHRUNK",
                f"{topic} partition {partition} holds index {target.tail}, the attested log ends at "
                f"{self._views[partition].tip.index}: the log lost what was certified; compare with the other site",
            )
        target.opened_at = -1
