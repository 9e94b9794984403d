"""The reader on a real broker: each record once and in order, and by name what vanished."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from finality.core.errors import IntegrityFault, UsageError
from finality.kafka.reader import KafkaReader, Start
from finality.kafka.tail import end_offsets
from stack.kafka_case import PATIENCE_S, KafkaCase, drain, until


@pytest.fixture(autouse=True)
def _lean(kafka: KafkaCase) -> Iterator[None]:
    """No case leaves its topics to the next one."""
    yield
    kafka.clean()


def open_reader(
    kafka: KafkaCase, topic: str, starts: dict[int, Start] | None = None, dense: bool = True
) -> KafkaReader:
    """A reader of partition 0, or of what is asked for."""
    return KafkaReader(
        kafka.settings, topic, starts or {0: "beginning"}, kafka.clock, dense=dense, timeout_s=PATIENCE_S
    )


def fault_of(reader: KafkaReader) -> IntegrityFault:
    """The fault that comes within the time."""

    def poll() -> IntegrityFault | None:
        try:
            reader.poll(100, 0.1)
        except IntegrityFault as fault:
            return fault
        return None

    fault = until(poll, "a fault")
    assert fault is not None
    return fault


def test_every_record_of_every_partition_comes_once_and_in_order(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=4)
    appender = kafka.appender(topic)
    for number in range(20_000):
        key = None if number % 7 == 0 else b"k%d" % number
        value = None if number % 11 == 0 else b"v%d" % number
        appender.append(number % 4, key, value, [("h", b"%d" % number), ("h", None)] if number % 3 else [])
    assert appender.flush(PATIENCE_S) == 0
    reader = open_reader(kafka, topic, {0: "beginning", 1: 0, 2: 17, 3: "beginning"})
    assert [reader.position(partition) for partition in range(4)] == [0, 0, 17, 0]
    records = drain(reader, 20_000 - 17)
    for partition in range(4):
        mine = [record for record in records if record.partition == partition]
        first = 17 if partition == 2 else 0
        assert [record.offset for record in mine] == list(range(first, 5_000))
        for record in mine:
            number = record.offset * 4 + partition
            assert record.key == (None if number % 7 == 0 else b"k%d" % number)
            assert record.value == (None if number % 11 == 0 else b"v%d" % number)
            assert list(record.headers) == ([("h", b"%d" % number), ("h", None)] if number % 3 else [])
            assert abs(record.timestamp - time.time() * 1000) < 600_000
        assert reader.position(partition) == 5_000
    assert reader.poll(10, 0) == []
    assert reader.ignored == 0
    assert len(reader.topic_id) == 22
    reader.close()
    reader.close()


def test_the_end_is_refreshed_and_dated_before_the_question(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a", b"b"])
    reader = open_reader(kafka, topic)
    assert reader.end(0) is None
    drain(reader, 2)
    until(lambda: reader.poll(1, 0.05) or reader.end(0), "a first end")
    asked = kafka.clock.monotonic_ns()
    kafka.fill(topic, [b"c"])

    def newest() -> bool:
        reader.poll(1, 0.05)
        end = reader.end(0)
        assert end is not None
        assert end.offset == 3 or end.fetched_at <= kafka.clock.monotonic_ns()
        return end.fetched_at > asked and end.offset == 3

    until(newest, "the new end")
    reader.close()


def test_a_record_is_handed_out_at_once_whatever_the_time_limit(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a"])
    reader = open_reader(kafka, topic)
    drain(reader, 1)
    kafka.fill(topic, [b"b"])
    began = time.monotonic()
    assert [record.value for record in reader.poll(1000, 50)] == [b"b"]
    assert time.monotonic() - began < 40
    reader.close()


def test_seek_goes_back_and_forth_and_drops_what_was_fetched(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=2)
    kafka.fill(topic, [b"%d" % n for n in range(3_000)], 0)
    kafka.fill(topic, [b"%d" % n for n in range(3_000)], 1)
    reader = open_reader(kafka, topic, {0: 0, 1: 0})
    drain(reader, 500, limit=50)
    for target in (2_500, 10, 2_999, 0):
        other = reader.position(1)
        reader.seek(0, target)
        assert reader.position(0) == target
        records = drain(reader, 300, limit=100)
        mine = [record.offset for record in records if record.partition == 0]
        assert mine == list(range(target, target + len(mine)))
        theirs = [record.offset for record in records if record.partition == 1]
        assert theirs == list(range(other, other + len(theirs)))
        if other == 3_000:
            reader.seek(1, 0)
    reader.close()


class Interrupted:
    """A consumer whose `consume` is interrupted after it has taken records, as by a signal's handler."""

    def __init__(self, consumer: Consumer, every: int) -> None:
        self._consumer = consumer
        self._every = every
        self._taken = 0
        self.dropped = 0

    def consume(self, count: int, timeout: float) -> Any:
        """Every so often the batch is lost on the way."""
        messages = self._consumer.consume(count, timeout)
        self._taken += bool(messages)
        if messages and self._taken % self._every == 0:
            self.dropped += len(messages)
            raise KeyboardInterrupt
        return messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_an_exception_that_passes_through_consume_loses_nothing(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=2)
    for partition in range(2):
        kafka.fill(topic, [b"%d" % n for n in range(2_000)], partition)
    reader = open_reader(kafka, topic, {0: 0, 1: 0})
    consumer = Interrupted(reader._consumer, every=3)
    reader._consumer = consumer  # type: ignore[assignment]
    offsets: dict[int, list[int]] = {0: [], 1: []}

    def read() -> bool:
        try:
            for record in reader.poll(100, 0.1):
                offsets[record.partition].append(record.offset)
        except KeyboardInterrupt:
            pass
        return min(len(found) for found in offsets.values()) >= 2_000

    until(read, "all records")
    assert consumer.dropped > 0
    assert offsets == {0: list(range(2_000)), 1: list(range(2_000))}
    reader.close()


def test_a_hole_is_a_fault_in_a_dense_topic_only(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a"])
    producer = Producer({**kafka.settings.options, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"b", partition=0)
    producer.commit_transaction(PATIENCE_S)
    until(lambda: end_offsets(kafka.settings, topic) == {0: 3}, "its mark, which is written a little later")
    kafka.fill(topic, [b"c"])
    loose = open_reader(kafka, topic, dense=False)
    assert [record.offset for record in drain(loose, 3)] == [0, 1, 3]
    dense = open_reader(kafka, topic)
    assert [record.offset for record in drain(dense, 2)] == [0, 1]
    fault = fault_of(dense)
    assert fault.name == "LOG_SHRUNK"
    assert "record 2 is missing, the next one is 3" in str(fault)
    loose.close()
    dense.close()


def test_a_log_cut_above_the_position_is_retention_overtook_for_good(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"%d" % n for n in range(30)])
    reader = open_reader(kafka, topic, {0: 5})
    kafka.cut(topic, 0, 20)
    fault = fault_of(reader)
    assert fault.name == "RETENTION_OVERTOOK"
    assert "the next record to read is 5, the log now begins at 20" in str(fault)
    assert reader.position(0) == 5
    with pytest.raises(IntegrityFault, match="RETENTION_OVERTOOK"):
        reader.poll(1, 0)
    reader.close()


def test_a_log_cut_below_the_position_goes_on(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"%d" % n for n in range(30)])
    reader = open_reader(kafka, topic)
    drain(reader, 30)
    kafka.cut(topic, 0, 30)
    kafka.fill(topic, [b"new"])
    assert [record.offset for record in drain(reader, 1)] == [30]
    reader.close()


def test_a_position_above_the_end_is_a_shrunk_log(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a"])
    reader = open_reader(kafka, topic, {0: 7})
    fault = fault_of(reader)
    assert fault.name == "LOG_SHRUNK"
    assert "read up to 7, the log now ends at 1" in str(fault)
    reader.close()


@pytest.mark.parametrize("count", [3, 40], ids=["shorter", "longer"])
def test_a_topic_deleted_and_made_again_is_named(kafka: KafkaCase, count: int) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"%d" % n for n in range(10)])
    reader = open_reader(kafka, topic)
    drain(reader, 10)
    kafka.delete(topic)
    kafka.create(topic, 1, {})
    kafka.fill(topic, [b"other %d" % n for n in range(count)])
    assert fault_of(reader).name == "TOPIC_RECREATED"
    reader.close()


def test_a_topic_that_was_deleted_is_a_shrunk_log(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"a"])
    reader = open_reader(kafka, topic)
    drain(reader, 1)
    kafka.delete(topic)
    fault = fault_of(reader)
    assert fault.name == "LOG_SHRUNK"
    assert "no longer exists" in str(fault)
    reader.close()


def test_what_is_not_there_is_wrong_usage(kafka: KafkaCase) -> None:
    with pytest.raises(UsageError, match="setup apply"):
        open_reader(kafka, "no.such.topic")
    topic = kafka.topic(partitions=2)
    with pytest.raises(UsageError, match="has 2 partitions, none numbered 2"):
        open_reader(kafka, topic, {1: 0, 2: 0})


def test_a_broker_that_stands_still_is_silence_and_then_goes_on(kafka: KafkaCase, broker_pid: int) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"%d" % n for n in range(5)])
    reader = open_reader(kafka, topic)
    drain(reader, 5)
    with kafka.standing_still(broker_pid):
        stopped = time.monotonic()
        while time.monotonic() - stopped < 2:
            assert reader.poll(10, 0.1) == []
    kafka.fill(topic, [b"on"])
    assert [record.value for record in drain(reader, 1)] == [b"on"]
    reader.close()
