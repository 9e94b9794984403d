"""Reads source topics as a member of a consumer group, for ingest.

A partition that is assigned opens a *session* at its committed offset, or at the first record where nothing was ever
committed. An offset that is committed but no longer there is a named fault: a silent reset would be a silent loss.

Rebalance callbacks run inside `poll` and must not raise (the fetched batch would vanish while the position moved on):
they take notes, and `poll` acts on them before it hands out a record. Commits are synchronous; one that the group
refuses because it moved on is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from finality.core.errors import Disposition, FinalityError, IntegrityFault, Retry
from finality.core.ports import Place, RawRecord
from finality.kafka.connection import KafkaSettings, open_consumer
from finality.kafka.errors import translate
from finality.kafka.reader import CONSUMER, record_of
from finality.kafka.tail import describe

__all__ = ["KafkaGroupReader"]

_GROUP: dict[str, object] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "topic.metadata.refresh.interval.ms": 5_000,
    "session.timeout.ms": 10_000,
    "isolation.level": "read_committed",
}
_CALL_S = 10.0
_MOVED_ON = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._NO_OFFSET,
    KafkaError._STATE,
)
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
_WHERE = "ingest's source topics"


class KafkaGroupReader:
    """A `GroupReader` over the topics given, or over all whose names begin with `prefix`."""

    def __init__(self, settings: KafkaSettings, group: str, prefix: str, topics: Sequence[str]) -> None:
        """Raises `UsageError` for a topic that does not exist."""
        self._settings = settings
        self._ids: dict[str, str] = {}
        for topic in topics:
            self._id_of(topic)
        self._opened: list[tuple[Place, int]] = []
        self._closed: list[Place] = []
        self._held: dict[tuple[str, int], Place] = {}
        self._fault: FinalityError | None = None
        config = {**CONSUMER, **_GROUP, "group.id": group}
        self._consumer, self.events = open_consumer(settings, group, config)
        self._wanted = list(topics) or ["^" + prefix.replace(".", "[.]") + ".+"]
        self._subscribe()

    def poll(self, limit: int, timeout_s: float) -> list[RawRecord]:
        """Up to `limit` records of partitions held now.

        Raises `IntegrityFault` (RETENTION_OVERTOOK) for a resume offset that is gone, `DependencyError` when the
        cluster is out of reach.
        """
        try:
            messages = self._consumer.consume(limit, timeout_s)
        except KafkaException as error:
            raise translate(error.args[0], _WHERE) from None
        if self._fault is not None:
            raise self._give_up()
        records: list[RawRecord] = []
        for message in messages:
            problem = message.error()
            if problem is not None:
                self._act_on(problem)
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if topic is None or partition is None or offset is None:
                continue
            place = self._held.get((topic, partition))
            if place is not None:
                records.append(RawRecord(place, record_of(message, partition, offset)))
        return records

    def opened(self) -> list[tuple[Place, int]]:
        """Sessions opened since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def closed(self) -> list[Place]:
        """Partitions that went away since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def commit(self, offsets: Sequence[tuple[Place, int]]) -> None:
        """Store resume offsets. Raises `Retry` when the group moved on or does not answer."""
        if not offsets:
            return
        places = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            problem = error.args[0]
            if problem.code() in _MOVED_ON or problem.retriable():
                raise Retry(f"offsets were not committed ({problem.str()})") from None
            raise translate(problem, _WHERE) from None

    def close(self) -> None:
        """Leave the group."""
        try:
            self._consumer.close()
        except (KafkaException, RuntimeError) as error:
            self.events.last = str(error)

    def _subscribe(self) -> None:
        self._consumer.subscribe(self._wanted, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _give_up(self) -> FinalityError:
        """The fault of an assignment. One that may pass is forgotten, and the group is joined anew: what was assigned
        without its resume offset must not stay."""
        fault = self._fault
        assert fault is not None
        if fault.disposition is Disposition.RETRY:
            self._fault = None
            self._closed += self._held.values()
            self._held.clear()
            self._opened.clear()
            self._consumer.unsubscribe()
            self._subscribe()
        return fault

    def _id_of(self, topic: str) -> str:
        known = self._ids.get(topic)
        if known is None:
            known = self._ids[topic] = describe(self._settings, topic)[0]
        return known

    def _act_on(self, problem: KafkaError) -> None:
        code = problem.code()
        if code in _OUT_OF_RANGE:
            raise _overtaken(f"a source partition no longer holds ingest's offset ({problem.str()})")
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return  # a topic of the pattern was deleted
        if problem.fatal():
            raise translate(problem, _WHERE)

    # -- called from inside poll ----------------------------------------------------------------

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            consumer.incremental_assign(self._starts(consumer, partitions))
        except KafkaException as error:
            self._fault = translate(error.args[0], _WHERE)
        except FinalityError as error:
            self._fault = error

    def _starts(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        if not partitions:
            return []
        starts = []
        for row in consumer.committed(partitions, timeout=_CALL_S):
            first, _ = consumer.get_watermark_offsets(row, timeout=_CALL_S)
            resume = row.offset if row.offset >= 0 else first
            if resume < first:
                raise _overtaken(f"{row.topic} partition {row.partition} begins at {first}, ingest stood at {resume}")
            place = Place(row.topic, self._id_of(row.topic), row.partition)
            self._held[row.topic, row.partition] = place
            self._opened.append((place, resume))
            starts.append(TopicPartition(row.topic, row.partition, resume if resume else OFFSET_BEGINNING))
        return starts

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for row in partitions:
            place = self._held.pop((row.topic, row.partition), None)
            if place is not None:
                self._closed.append(place)


def _overtaken(what: str) -> IntegrityFault:
    return IntegrityFault(
        "RETENTION_OVERTOOK",
        f"{what}; what lay between was never read: find it elsewhere, then close the gap by a command",
    )
