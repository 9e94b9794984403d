"""What the loops need from outside, in our words. Drivers in `kafka/` and `ledger/`, models in `lab/`.

Calls that may wait take a bound in seconds; nothing here blocks longer. Errors are those of `core.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from finality.core.records import Headers, Record

__all__ = [
    "Appender",
    "Clock",
    "Delivery",
    "End",
    "GroupReader",
    "NoProbe",
    "Out",
    "Place",
    "Probe",
    "RawRecord",
    "RecordReader",
    "SinkReport",
    "TransactionSink",
]


class End(NamedTuple):
    """The first unwritten offset of a partition, and when it was fetched (monotonic ns)."""

    offset: int
    fetched_at: int


class RecordReader(Protocol):
    """Reads fixed partitions of one topic, each offset once, in order, from where it was told to begin.

    A record that vanished below the position is `IntegrityFault` (LOG_SHRUNK, RETENTION_OVERTOOK, TOPIC_RECREATED).
    """

    def poll(self, limit: int, timeout_s: float) -> list[Record]:
        """Up to `limit` records; an empty list when none came within `timeout_s`."""

    def position(self, partition: int) -> int:
        """The next offset that `poll` would hand out."""

    def end(self, partition: int) -> End | None:
        """The newest end offset known, None before the first answer. Refreshed beside `poll`, never blocking."""

    def seek(self, partition: int, offset: int) -> None:
        """Go on from `offset`; what was fetched and not handed out is dropped."""

    def close(self) -> None:
        """Free the connection. Never raises."""


class Place(NamedTuple):
    """A partition of a source topic. topic_id: Kafka's id, 22 characters."""

    topic: str
    topic_id: str
    partition: int


class RawRecord(NamedTuple):
    """A record of a source topic, with where it lay."""

    place: Place
    record: Record


class GroupReader(Protocol):
    """Reads source topics as a member of a consumer group, so that several ingest processes share them.

    Partitions come and go; a partition that comes opens a *session* at its resume offset (the committed one, or the
    first). No rebalance callback runs while a batch is being worked on, and `commit` is only a hint for later sessions.
    """

    def poll(self, limit: int, timeout_s: float) -> list[RawRecord]:
        """Up to `limit` records, only of partitions that this process holds now."""

    def opened(self) -> list[tuple[Place, int]]:
        """Sessions opened since the last call: partition and resume offset, below which all was acknowledged."""

    def closed(self) -> list[Place]:
        """Partitions that went away since the last call."""

    def commit(self, offsets: Sequence[tuple[Place, int]]) -> None:
        """Store resume offsets (next offset to read). Raises `Retry` when the group moved on: nothing is lost."""

    def close(self) -> None:
        """Leave the group. Never raises."""


class Delivery(NamedTuple):
    """The report on one append. error: "" when the broker acknowledged it, which proves nothing by itself."""

    ticket: int
    partition: int
    offset: int
    error: str


class Appender(Protocol):
    """An idempotent producer to one topic (`acks=all`), asynchronous: `append` never waits."""

    def append(self, partition: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Hand one record over; the ticket comes back in a `Delivery`. Raises `Retry` when the queue is full."""

    def poll(self) -> list[Delivery]:
        """Reports that arrived since the last call."""

    def flush(self, timeout_s: float) -> int:
        """Wait for reports, at most `timeout_s`; the number of appends still without one."""

    def reset(self) -> None:
        """Purge and drop the producer; the next append uses a fresh one. Reports of the old one never come."""

    def close(self) -> None:
        """Free the connection without waiting for appends in flight. Never raises."""


class Out(NamedTuple):
    """A record to be written to a derived topic. place: its position in the source, rising."""

    place: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class SinkReport(NamedTuple):
    """What a transaction sink has to say. what: opened (tail: what the target itself says it holds), done (ticket)."""

    what: str
    ticket: int
    tail: object


class TransactionSink(Protocol):
    """Writes batches to one partition of a derived topic, each in one transaction, for plain `read_committed` readers.

    It opens by itself: fences whoever wrote before, then reads the target's tail. After any doubt it begins again, and
    says `opened` again with the tail that it found; what was under way is resent only if the tail lacks it.
    """

    def poll(self) -> list[SinkReport]:
        """What happened since the last call. Raises the named fault that stopped the sink."""

    def submit(self, records: Sequence[Out]) -> int:
        """Write a batch; the ticket comes back in a report. Only while `idle`."""

    @property
    def idle(self) -> bool:
        """Open, and nothing under way."""

    def close(self) -> None:
        """Stop without waiting. Never raises."""


class Clock(Protocol):
    """Time, from outside."""

    def wall_ns(self) -> int:
        """Wall clock, ns since the epoch, UTC."""

    def monotonic_ns(self) -> int:
        """A clock that never goes back, in ns."""


class Probe(Protocol):
    """Named steps of a loop, for tests that kill or pause it there. The product passes `NoProbe`.

    | step | the loop stands |
    | --- | --- |
    | `leader.append`, `block.append` | before the record is handed to the log's producer |
    | `leader.appended`, `block.appended` | after that; it may or may not be on its way |
    | `leader.acknowledged`, `block.acknowledged` | the broker has it, it was not read back |
    | `leader.landed`, `block.landed` | it was read back and accepted, nothing followed from it yet |
    | `ballots.exchange`, `ballots.exchanged` | before and after a round trip to the ledger (partition -1) |
    | `tick.append`, `command.append` | before a tick or command is handed to the input's producer |
    | `ingest.append` | before an event is handed to the input's producer |
    | `ingest.flush` | a batch was handed over, not all of it is acknowledged (partition -1) |
    | `ingest.commit`, `ingest.committed` | all of it is; before and after the offsets are stored (partition -1) |
    """

    def at(self, step: str, partition: int) -> None:
        """The loop stands at `step` of `partition`, -1 where no single partition is meant."""


class NoProbe:
    """A probe that does nothing."""

    def at(self, step: str, partition: int) -> None:
        """Nothing."""
