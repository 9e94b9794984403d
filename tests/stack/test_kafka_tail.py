"""Reading once to the end on a real broker: what counts as the end, whoever wrote there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from finality.core.errors import UsageError
from finality.kafka.tail import (
    describe,
    end_offsets,
    first_record,
    last_records,
    read_to_end,
    start_offsets,
)
from stack.kafka_case import PATIENCE_S, KafkaCase, until


@pytest.fixture(autouse=True)
def _lean(kafka: KafkaCase) -> Iterator[None]:
    """No case leaves its topics to the next one."""
    yield
    kafka.clean()


def transactional(kafka: KafkaCase, name: str) -> Producer:
    """A transactional producer that is ready to begin."""
    producer = Producer({**kafka.settings.options, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    return producer


def test_all_records_up_to_the_end_as_it_was(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=2)
    kafka.fill(topic, [b"%d" % n for n in range(12_000)], 1)
    assert list(read_to_end(kafka.settings, topic, 0)) == []
    records = read_to_end(kafka.settings, topic, 1)
    first = next(records)
    kafka.fill(topic, [b"later"], 1)
    assert [first.offset, *(record.offset for record in records)] == list(range(12_000))
    assert [record.value for record in read_to_end(kafka.settings, topic, 1, 11_999)] == [b"11999", b"later"]
    assert [record.offset for record in read_to_end(kafka.settings, topic, 1, 5, upto=8)] == [5, 6, 7]
    assert list(read_to_end(kafka.settings, topic, 1, 12_001)) == []


def test_ends_that_hold_no_record_are_reached(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    producer = transactional(kafka, topic)
    producer.begin_transaction()
    producer.produce(topic, b"kept", partition=0)
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"dropped", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    producer.abort_transaction(PATIENCE_S)
    until(lambda: end_offsets(kafka.settings, topic) == {0: 4}, "both marks, which are written a little later")
    committed = read_to_end(kafka.settings, topic, 0, isolation="read_committed")
    assert [record.value for record in committed] == [b"kept"]
    assert [record.value for record in read_to_end(kafka.settings, topic, 0)] == [b"kept", b"dropped"]
    assert [record.value for record in last_records(kafka.settings, topic, 0, 1)] == [b"dropped"]
    last = last_records(kafka.settings, topic, 0, 1, "read_committed")
    assert [record.value for record in last] == [b"kept"]


def test_what_an_open_transaction_holds_back_is_not_there_for_committed_readers(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"before"])
    producer = transactional(kafka, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert end_offsets(kafka.settings, topic, isolation="read_committed") == {0: 1}
    assert end_offsets(kafka.settings, topic) == {0: 2}
    committed = read_to_end(kafka.settings, topic, 0, isolation="read_committed")
    assert [record.value for record in committed] == [b"before"]
    assert [record.value for record in read_to_end(kafka.settings, topic, 0)] == [b"before", b"open"]
    producer.abort_transaction(PATIENCE_S)


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [9]), (3, [7, 8, 9]), (50, [4, 5, 6, 7, 8, 9])])
def test_the_last_records(kafka: KafkaCase, count: int, expected: list[int]) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"%d" % n for n in range(10)])
    kafka.cut(topic, 0, 4)
    assert start_offsets(kafka.settings, topic) == {0: 4}
    assert [record.offset for record in last_records(kafka.settings, topic, 0, count)] == expected


def test_the_first_record(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    assert first_record(kafka.settings, topic, 0) is None
    kafka.fill(topic, [b"a", b"b"])
    first = first_record(kafka.settings, topic, 0)
    assert first is not None
    assert first.value == b"a"
    kafka.cut(topic, 0, 2)
    assert first_record(kafka.settings, topic, 0) is None


def test_identity_and_absence(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=3)
    identity, count = describe(kafka.settings, topic)
    assert (len(identity), count) == (22, 3)
    for ask in (describe, end_offsets, start_offsets):
        with pytest.raises(UsageError):
            ask(kafka.settings, "no.such.topic")
    with pytest.raises(UsageError):
        list(read_to_end(kafka.settings, topic, 3))
