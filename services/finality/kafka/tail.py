"""Reads a partition once, up to where it ended when it was asked: for verification, listings, checkers, recovery.

The end is taken first, then read up to. It is reached when the next offset to come is at or above it, which either a
record shows or, where the last offsets hold transaction marks or aborted records, an end-of-partition event does.
librdkafka sends that event once for each end, so the consumer that looks for it must be a fresh one.

`read_committed` readers take the last stable offset as the end: what an open transaction still holds back is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from finality.core.errors import DependencyError
from finality.core.records import Record
from finality.kafka.connection import KafkaSettings, open_admin, open_consumer
from finality.kafka.errors import translate
from finality.kafka.reader import CONSUMER, Isolation, Start, record_of
from finality.kafka.watch import Edge, ask_offsets, describe_patiently

__all__ = ["describe", "end_offsets", "first_record", "last_records", "read_to_end", "start_offsets"]

_BATCH = 5_000
_TIMEOUT_S = 15.0


def describe(settings: KafkaSettings, topic: str, timeout_s: float = _TIMEOUT_S) -> tuple[str, int]:
    """Kafka's id of a topic (22 characters) and its number of partitions. Raises `UsageError` when it is absent."""
    return _describe(open_admin(settings, f"{topic}.tail"), topic, timeout_s)


def end_offsets(
    settings: KafkaSettings,
    topic: str,
    partitions: Iterable[int] | None = None,
    isolation: Isolation = "read_uncommitted",
    timeout_s: float = _TIMEOUT_S,
) -> dict[int, int]:
    """First unwritten offset (`read_committed`: last stable offset) of the partitions, of all when none are named."""
    return _offsets(settings, topic, partitions, "end", isolation, timeout_s)


def start_offsets(
    settings: KafkaSettings, topic: str, partitions: Iterable[int] | None = None, timeout_s: float = _TIMEOUT_S
) -> dict[int, int]:
    """First offset that is still there, of the partitions, of all when none are named."""
    return _offsets(settings, topic, partitions, "start", "read_uncommitted", timeout_s)


def read_to_end(
    settings: KafkaSettings,
    topic: str,
    partition: int,
    start: Start = "beginning",
    isolation: Isolation = "read_uncommitted",
    *,
    upto: int | None = None,
    silence_s: float = 30.0,
) -> Iterator[Record]:
    """The records from `start` to the end as it was at the first step, in order. upto: an end that the caller took.

    Raises `DependencyError` when nothing comes for `silence_s`, `UsageError` when topic or partition are absent,
    `IntegrityFault` when the log does not reach to `start`.
    """
    end = end_offsets(settings, topic, (partition,), isolation)[partition] if upto is None else upto
    first = start_offsets(settings, topic, (partition,))[partition] if start == "beginning" else int(start)
    if first >= end:
        return
    config = {**CONSUMER, "isolation.level": isolation, "enable.partition.eof": True}
    consumer, _ = open_consumer(settings, f"{topic}.tail", config)
    try:
        consumer.assign([TopicPartition(topic, partition, first)])
        yield from _until(consumer, f"topic {topic} at {settings.servers}, partition {partition}", end, silence_s)
    finally:
        consumer.close()


def first_record(settings: KafkaSettings, topic: str, partition: int) -> Record | None:
    """The first record that is still there (offset 0 unless retention took it), None for an empty partition."""
    first = start_offsets(settings, topic, (partition,))[partition]
    end = end_offsets(settings, topic, (partition,))[partition]
    if first >= end:
        return None
    return next(iter(read_to_end(settings, topic, partition, first, upto=end)), None)


def last_records(
    settings: KafkaSettings,
    topic: str,
    partition: int,
    count: int,
    isolation: Isolation = "read_uncommitted",
) -> list[Record]:
    """The last `count` records, fewer if there are fewer. Steps further back where offsets hold no record."""
    end = end_offsets(settings, topic, (partition,), isolation)[partition]
    first = start_offsets(settings, topic, (partition,))[partition]
    reach = count
    while count > 0:
        begin = max(first, end - reach)
        found = list(read_to_end(settings, topic, partition, begin, isolation, upto=end))
        if len(found) >= count or begin == first:
            return found[-count:]
        reach *= 4
    return []


def _until(consumer: Consumer, where: str, end: int, silence_s: float) -> Iterator[Record]:
    heard = monotonic()
    while True:
        try:
            messages = consumer.consume(1, 0.5)
            messages += consumer.consume(_BATCH, 0) if messages else []
        except KafkaException as error:
            raise translate(error, where) from None
        for message in messages:
            trouble = message.error()
            offset = message.offset()
            if trouble is not None and trouble.code() != KafkaError._PARTITION_EOF:
                raise translate(trouble, where)
            if offset is None:
                continue
            if trouble is None:
                if offset >= end:
                    return
                yield record_of(message, message.partition() or 0, offset)
                offset += 1
            if offset >= end:
                return
        if messages:
            heard = monotonic()
        elif monotonic() - heard > silence_s:
            raise DependencyError(f"{where}: nothing came for {silence_s:g} s before offset {end}; check the brokers")


def _describe(admin: AdminClient, topic: str, timeout_s: float) -> tuple[str, int]:
    return describe_patiently(admin, topic, f"topic {topic}", timeout_s)


def _offsets(
    settings: KafkaSettings,
    topic: str,
    partitions: Iterable[int] | None,
    edge: Edge,
    isolation: Isolation,
    timeout_s: float,
) -> dict[int, int]:
    admin = open_admin(settings, f"{topic}.tail")
    if partitions is None:
        partitions = range(_describe(admin, topic, timeout_s)[1])
    where = f"topic {topic} at {settings.servers}"
    return ask_offsets(admin, topic, partitions, edge, isolation, where, timeout_s)
