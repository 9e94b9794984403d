"""The group reader on a real broker: sessions, resume offsets, and an assignment whose offsets could not be had."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from finality.core.errors import Disposition, FinalityError, IntegrityFault
from finality.core.ports import Place, RawRecord
from finality.kafka.group import KafkaGroupReader
from stack.kafka_case import KafkaCase, until


class _Reader:
    """A reader and everything that it has handed out."""

    def __init__(self, kafka: KafkaCase, topic: str) -> None:
        self.reader = KafkaGroupReader(kafka.settings, f"{topic}.group", "", [topic])
        self.records: list[RawRecord] = []
        self.opened: list[tuple[Place, int]] = []
        self.errors: list[FinalityError] = []

    def poll(self) -> None:
        try:
            self.records += self.reader.poll(100, 0.1)
        except FinalityError as error:
            if error.disposition is not Disposition.RETRY:
                raise
            self.errors.append(error)
        closed = self.reader.closed()
        self.opened = [row for row in self.opened if row[0] not in closed] + self.reader.opened()

    def take(self, count: int) -> list[bytes | None]:
        def came() -> bool:
            self.poll()
            return len(self.records) >= count

        until(came, f"{count} records")
        return [raw.record.value for raw in self.records]


def test_a_session_opens_where_the_last_one_committed(kafka: KafkaCase) -> None:
    topic = kafka.topic(1)
    kafka.fill(topic, [b"a", b"b", b"c"])
    first = _Reader(kafka, topic)
    assert first.take(3) == [b"a", b"b", b"c"]
    assert [base for _, base in first.opened] == [0]
    first.reader.commit([(first.opened[0][0], 2)])
    first.reader.close()
    second = _Reader(kafka, topic)
    assert second.take(1) == [b"c"]
    assert [base for _, base in second.opened] == [2]
    second.reader.close()


def test_an_assignment_without_its_offsets_is_tried_again(kafka: KafkaCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that is away for a moment must not leave the reader waiting for ever, nor reading from nowhere."""
    topic = kafka.topic(1)
    kafka.fill(topic, [b"a", b"b", b"c"])
    first = _Reader(kafka, topic)
    assert first.take(3) == [b"a", b"b", b"c"]
    first.reader.commit([(first.opened[0][0], 1)])
    first.reader.close()
    honest = KafkaGroupReader._starts
    calls: list[Any] = []

    def fails_twice(
        reader: KafkaGroupReader, consumer: Consumer, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        if partitions:
            calls.append(partitions)
            if len(calls) <= 2:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return honest(reader, consumer, partitions)

    monkeypatch.setattr(KafkaGroupReader, "_starts", fails_twice)
    second = _Reader(kafka, topic)
    assert second.take(2) == [b"b", b"c"]
    assert [base for _, base in second.opened] == [1]
    assert len(second.errors) == 2
    second.reader.close()


def test_a_resume_offset_that_is_gone_is_a_named_fault(kafka: KafkaCase) -> None:
    topic = kafka.topic(1)
    kafka.fill(topic, [b"a", b"b", b"c"])
    first = _Reader(kafka, topic)
    first.take(3)
    first.reader.commit([(first.opened[0][0], 1)])
    first.reader.close()
    kafka.cut(topic, 0, 2)
    second = _Reader(kafka, topic)
    with pytest.raises(IntegrityFault, match="RETENTION_OVERTOOK"):
        second.take(1)
    with pytest.raises(IntegrityFault, match="RETENTION_OVERTOOK"):
        second.reader.poll(1, 0)
    second.reader.close()
