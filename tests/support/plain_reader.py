"""A foreign consumer of the plain topics: `read_committed`, and no code of ours.

It knows only what a person who subscribes would know: topic names, and that a header gives the index.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

__all__ = ["PlainRecord", "read_plain"]


class PlainRecord(NamedTuple):
    """One record as a foreign consumer sees it."""

    index: int
    type: str
    key: bytes | None
    value: bytes | None
    entry: bytes


def read_plain(servers: str, topic: str, partition: int) -> list[PlainRecord]:
    """Every committed record of a partition, up to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "foreign",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = []
        while True:
            message = consumer.poll(30)
            assert message is not None, f"nothing came of {topic} for 30 s"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            headers = dict(message.headers() or [])
            found.append(
                PlainRecord(
                    int(headers["fn-index"]),
                    headers["ce_type"].decode(),
                    message.key(),
                    message.value(),
                    headers.get("fn-entry", b""),
                )
            )
    finally:
        consumer.close()
