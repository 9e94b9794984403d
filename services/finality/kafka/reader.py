"""Reads fixed partitions of one topic and keeps its own position.

Partitions are assigned by hand, never by a group, and a position that does not exist is an error, never a jump. The
position is ours: the last record handed out, plus one. So whatever goes wrong between librdkafka and the caller (an
exception passing through `consume` frees a fetched batch though the client's position has moved), the reader assigns
its partitions again at its own positions, and nothing is lost or handed out twice.

In a *dense* topic (no transactions, no compaction: `input`, `log`) offsets have no holes; one is a lost record.
A fault is final: every later `poll` raises it again.

What can vanish below a position, and how it shows, is told by `kafka.watch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from finality.core.errors import Disposition, FinalityError, IntegrityFault
from finality.core.ports import Clock, End
from finality.core.records import Record
from finality.kafka.connection import KafkaSettings, open_consumer
from finality.kafka.errors import translate
from finality.kafka.watch import GONE, TopicWatch

__all__ = ["CONSUMER", "Isolation", "KafkaReader", "Start", "record_of"]

Isolation = Literal["read_uncommitted", "read_committed"]
Start = int | Literal["beginning"]

CONSUMER: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 100,
    "fetch.wait.max.ms": 100,
    "socket.timeout.ms": 10_000,
}
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
_DIAGNOSE_S = 5.0


def record_of(message: Message, partition: int, offset: int) -> Record:
    """Our record of a message without error."""
    kind, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    return Record(
        partition,
        offset,
        message.key(),
        message.value(),
        message.headers() or (),  # type: ignore[arg-type]  # librdkafka gives pairs of str and bytes or None
        timestamp if kind else -1,
        -1 if epoch is None else epoch,
    )


class KafkaReader:
    """A `RecordReader`. starts: first offset to hand out of each partition.

    ignored: records below the position that were dropped (0 unless the client repeats itself). topic_id: Kafka's id of
    the topic, 22 characters. events: what the client reported beside its records.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        starts: Mapping[int, Start],
        clock: Clock,
        isolation: Isolation = "read_uncommitted",
        *,
        dense: bool = False,
        timeout_s: float = 15.0,
    ) -> None:
        """Waits at most about `timeout_s` for the cluster. Raises `UsageError` if the topic is not there,
        `DependencyError` if no broker answers."""
        self._where = f"topic {topic} at {settings.servers}"
        self._topic = topic
        self._dense = dense
        self.ignored = 0
        self._watch = TopicWatch(settings, topic, starts, clock, isolation)
        self._watch.open(timeout_s)
        self._positions: dict[int, int] = self._resolve(starts, timeout_s)
        self._epochs: dict[int, int] = dict.fromkeys(starts, -1)
        self._error: KafkaError | None = None  # reported by the client, not yet acted upon
        self._error_at = -1
        self._fault: FinalityError | None = None
        self._stale = True  # the client's position is not ours; assign again before reading on
        self._closed = False
        config = {**CONSUMER, "isolation.level": isolation}
        self._consumer, self.events = open_consumer(settings, f"{topic}.reader", config)

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic, 22 characters."""
        return self._watch.topic_id

    def poll(self, limit: int, timeout_s: float) -> list[Record]:
        """Up to `limit` records; an empty list when none came within `timeout_s`.

        Raises `IntegrityFault` (LOG_SHRUNK, RETENTION_OVERTOOK, TOPIC_RECREATED), the same again at every later call;
        `DependencyError` when the cluster is out of reach, after which the next call goes on at the same position.
        """
        if self._fault is None:
            self._fault = self._watch.tick(self._positions)
        if self._fault is not None:
            raise self._fault
        if self._error is not None:
            self._act_on_error()
        return self._accept(self._consume(limit, timeout_s))

    def position(self, partition: int) -> int:
        """The next offset that `poll` would hand out."""
        return self._positions[partition]

    def end(self, partition: int) -> End | None:
        """The newest end offset known, None before the first answer. The time is that of the question."""
        return self._watch.ends.get(partition)

    def seek(self, partition: int, offset: int) -> None:
        """Go on from `offset`; what was fetched and not handed out is dropped. Never waits."""
        self._positions[partition] = offset
        self._epochs[partition] = -1
        self._error = None
        self._stale = True

    def close(self) -> None:
        """Free the connection. Never raises."""
        if self._closed:
            return
        self._closed = True
        try:
            self._consumer.close()
        except (KafkaException, RuntimeError) as error:
            self.events.last = str(error)

    def _resolve(self, starts: Mapping[int, Start], timeout_s: float) -> dict[int, int]:
        if all(isinstance(start, int) for start in starts.values()):
            return {partition: int(start) for partition, start in starts.items()}
        first = self._watch.offsets("start", timeout_s)
        return {p: first[p] if start == "beginning" else int(start) for p, start in starts.items()}

    def _consume(self, limit: int, timeout_s: float) -> list[Message]:
        """What is there at once, else what comes first within the time.

        `consume` with a time waits until the whole batch is full, which would cost that time for every record.
        """
        try:
            if self._stale:
                self._assign()
            messages = self._consumer.consume(limit, 0)
            if not messages and timeout_s > 0:
                messages = self._consumer.consume(1, timeout_s)
                if messages and limit > 1:
                    messages += self._consumer.consume(limit - 1, 0)
        except KafkaException as error:
            self._stale = True
            raise translate(error, self._where) from None
        except BaseException:
            self._stale = True  # the batch is gone, our positions are not
            raise
        return messages

    def _assign(self) -> None:
        self._consumer.assign(
            [
                TopicPartition(self._topic, partition, offset, leader_epoch=self._epochs[partition])
                for partition, offset in self._positions.items()
            ]
        )
        self._stale = False

    def _accept(self, messages: list[Message]) -> list[Record]:
        records: list[Record] = []
        positions = self._positions
        for message in messages:
            error = message.error()
            partition = message.partition()
            offset = message.offset()
            if error is not None or partition is None or offset is None:
                self._error, self._error_at = error, -1 if partition is None else partition
                continue
            expected = positions[partition]
            if offset != expected:
                if offset < expected:
                    self.ignored += 1
                    continue
                if self._dense:
                    self._fault = self._hole(partition, expected, offset)
                    break
            record = record_of(message, partition, offset)
            if record.leader_epoch != self._epochs[partition]:
                if record.leader_epoch < self._epochs[partition]:
                    self._fault = self._backwards(partition, offset, record.leader_epoch)
                    break
                self._epochs[partition] = record.leader_epoch
            positions[partition] = offset + 1
            records.append(record)
        if not records:
            if self._fault is not None:
                raise self._fault
            if self._error is not None:
                self._act_on_error()
        return records

    def _act_on_error(self) -> None:
        error, self._error = self._error, None
        assert error is not None
        self._stale = True  # librdkafka has stopped fetching the partition
        if error.code() in _OUT_OF_RANGE:
            partition = self._error_at if self._error_at in self._positions else min(self._positions)
            self._fault = self._watch.diagnose(partition, self._positions[partition], _DIAGNOSE_S)
            if self._fault is None and error.code() == KafkaError._LOG_TRUNCATION:
                self._fault = translate(error, self._where)
            if self._fault is not None:
                raise self._fault
            return  # the position does exist: a replica that had just become leader did not know it yet
        if error.code() in GONE:
            return  # the watch asks twice before it says so
        found = translate(error, self._where)
        if found.disposition is not Disposition.RETRY:
            self._fault = found
        raise found

    def _hole(self, partition: int, expected: int, offset: int) -> IntegrityFault:
        return IntegrityFault(
            "LOG_SHRUNK",
            f"{self._where}, partition {partition}: record {expected} is missing, the next one is {offset}; this topic "
            "has no holes by itself: compare with the other site",
        )

    def _backwards(self, partition: int, offset: int, epoch: int) -> IntegrityFault:
        return IntegrityFault(
            "LOG_SHRUNK",
            f"{self._where}, partition {partition}: record {offset} has leader epoch {epoch}, an earlier one has "
            f"{self._epochs[partition]}; this is not the log that was read before: compare with the other site",
        )
