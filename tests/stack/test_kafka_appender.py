"""The appender on a real broker: reports, limits, and how it is thrown away."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from finality.core.errors import DependencyError, Rejected, Retry
from finality.core.ports import Delivery
from finality.kafka.appender import KafkaAppender, record_bytes
from finality.kafka.connection import KafkaSettings
from finality.kafka.tail import end_offsets, last_records, read_to_end
from stack.kafka_case import PATIENCE_S, KafkaCase, until


@pytest.fixture(autouse=True)
def _lean(kafka: KafkaCase) -> Iterator[None]:
    """No case leaves its topics to the next one."""
    yield
    kafka.clean()


def reports(appender: KafkaAppender, count: int) -> list[Delivery]:
    """The next `count` reports."""
    found: list[Delivery] = []

    def all_in() -> bool:
        found.extend(appender.poll())
        return len(found) >= count

    until(all_in, f"{count} reports")
    return found


def test_each_append_is_reported_once_with_its_place(kafka: KafkaCase) -> None:
    topic = kafka.topic(partitions=3)
    appender = kafka.appender(topic)
    tickets = {appender.append(n % 3, b"k", b"%d" % n, [("h", b"x")]): n for n in range(300)}
    found = reports(appender, 300)
    assert len({report.ticket for report in found}) == 300
    assert {report.error for report in found} == {""}
    for report in found:
        number = tickets[report.ticket]
        assert (report.partition, report.offset) == (number % 3, number // 3)
    for partition in range(3):
        values = [record.value for record in read_to_end(kafka.settings, topic, partition)]
        assert values == [b"%d" % n for n in range(partition, 300, 3)]
    assert appender.poll() == []
    appender.close()


def test_the_original_s_time_can_be_kept(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    appender = kafka.appender(topic)
    appender.append(0, None, b"x", [], timestamp=1_000_000_000_000)
    assert appender.flush(PATIENCE_S) == 0
    assert [record.timestamp for record in read_to_end(kafka.settings, topic, 0)] == [1_000_000_000_000]
    appender.close()


def test_the_largest_record_that_is_let_through_is_taken_by_the_broker(kafka: KafkaCase) -> None:
    limit = 20_000
    topic = kafka.topic(max_message_bytes=str(limit))
    appender = kafka.appender(topic, max_bytes=limit)
    headers = [(f"header-{n}", os.urandom(50)) for n in range(20)]
    key = os.urandom(100)
    value = os.urandom(limit - record_bytes(key, None, headers))
    appender.append(0, key, value, headers)
    with pytest.raises(Rejected) as refused:
        appender.append(0, key, value + b"x", headers)
    assert refused.value.code == "TOO_LARGE"
    assert [report.error for report in reports(appender, 1)] == [""]
    assert end_offsets(kafka.settings, topic) == {0: 1}
    appender.close()


def test_a_refusal_by_the_broker_is_a_report(kafka: KafkaCase) -> None:
    topic = kafka.topic(max_message_bytes="5000")
    appender = kafka.appender(topic)
    appender.append(0, None, os.urandom(9_000), [])
    assert [report.error for report in reports(appender, 1)] == ["MSG_SIZE_TOO_LARGE"]
    appender.close()


def test_a_full_queue_says_again_later() -> None:
    appender = KafkaAppender(KafkaSettings.of({"bootstrap.servers": "127.0.0.1:1"}), "t", message_timeout_s=600)

    def fill() -> None:
        for _ in range(200_000):
            appender.append(0, None, b"x", [])

    with pytest.raises(Retry):
        fill()
    appender.close()


def test_a_broker_that_stands_still_gives_delivery_errors_and_a_fresh_producer_goes_on(
    kafka: KafkaCase, broker_pid: int
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"first"])
    appender = kafka.appender(topic, message_timeout_s=2)

    def appended(value: bytes) -> bool:
        appender.reset()
        appender.append(0, None, value, [])
        return [report.error for report in reports(appender, 1)] == [""]

    until(lambda: appended(b"second"), "an append")
    with kafka.standing_still(broker_pid):
        for number in range(50):
            appender.append(0, None, b"%d" % number, [])
        found = reports(appender, 50)
    assert len(found) == 50
    assert found[-1].error == "_MSG_TIMED_OUT"
    assert {report.error for report in found} <= {"", "_MSG_TIMED_OUT"}
    until(lambda: appended(b"last"), "an append by a fresh producer")
    assert [record.value for record in last_records(kafka.settings, topic, 0, 1)] == [b"last"]
    appender.close()


def test_reset_drops_what_is_in_flight_without_waiting(kafka: KafkaCase, broker_pid: int) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"first"])
    appender = kafka.appender(topic)
    appender.append(0, None, b"second", [])
    assert [report.error for report in reports(appender, 1)] == [""]
    with kafka.standing_still(broker_pid):
        old = [appender.append(0, None, b"old %d" % n * 100, []) for n in range(2_000)]
        assert appender.flush(0.2) > 0
        began = time.monotonic()
        appender.reset()
        assert time.monotonic() - began < 5  # the appends have a minute, and the broker says nothing
        new = appender.append(0, None, b"new", [])
        assert appender.flush(0) > 0
    found = reports(appender, 1)
    assert [(report.ticket, report.error) for report in found] == [(new, "")]
    assert new not in old
    assert appender.poll() == []
    values = [record.value for record in read_to_end(kafka.settings, topic, 0)]
    assert values.count(b"new") == 1
    appender.close()
    appender.close()


def test_gapless_waits_for_a_broker_that_comes_back_and_skips_nothing(kafka: KafkaCase, broker_pid: int) -> None:
    topic = kafka.topic()
    kafka.fill(topic, [b"first"])
    appender = kafka.appender(topic, gapless=True, message_timeout_s=1, linger_ms=5)
    with kafka.standing_still(broker_pid):
        for number in range(1_000):
            appender.append(0, None, b"%d" % number, [])
        assert appender.flush(2) > 0
    assert {report.error for report in reports(appender, 1_000)} == {""}
    values = [record.value for record in read_to_end(kafka.settings, topic, 0)]
    assert values == [b"first", *(b"%d" % number for number in range(1_000))]
    appender.close()


def test_no_broker_is_a_report_and_not_an_exception() -> None:
    appender = KafkaAppender(KafkaSettings.of({"bootstrap.servers": "127.0.0.1:1"}), "t", message_timeout_s=1)
    appender.append(0, None, b"x", [])
    assert [report.error for report in reports(appender, 1)] == ["_MSG_TIMED_OUT"]
    appender.close()


class Dead:
    """A producer that met a fatal error, as the client shows it."""

    def produce(self, *_: object, **__: object) -> None:
        """Refuses."""
        raise KafkaException(KafkaError(KafkaError._FATAL, "gap", True))

    def poll(self, _: float) -> int:
        """Nothing comes."""
        return 0

    def purge(self, **_: object) -> None:
        """Nothing is there."""


def test_a_dead_producer_answers_with_reports_until_it_is_reset(kafka: KafkaCase) -> None:
    topic = kafka.topic()
    appender = kafka.appender(topic)
    appender._producer = Dead()  # type: ignore[assignment]
    first = appender.append(0, None, b"x", [])
    second = appender.append(0, None, b"x", [])
    assert appender.poll() == [Delivery(first, 0, -1, "_FATAL"), Delivery(second, 0, -1, "_FATAL")]
    appender.reset()
    third = appender.append(0, None, b"x", [])
    assert reports(appender, 1) == [Delivery(third, 0, 0, "")]
    appender.close()


def test_an_absent_broker_costs_the_tail_reader_its_time_and_no_more() -> None:
    began = time.monotonic()
    with pytest.raises(DependencyError):
        end_offsets(KafkaSettings.of({"bootstrap.servers": "127.0.0.1:1"}), "t", (0,), timeout_s=1)
    assert time.monotonic() - began < 30
