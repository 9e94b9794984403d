"""What a derived topic holds, and the input record behind a dead letter.

The tail of a plain topic is its last committed record: its index says where the projector goes on. A partition that
lost all its records to retention has no tail any more, and starting again from nothing would publish everything twice;
so that is a named fault. (It does not happen by itself: digest marks reach every partition at least hourly.)
"""

from __future__ import annotations

from hashlib import sha256

from finality.core.errors import IntegrityFault
from finality.core.projection import index_of
from finality.core.records import Record
from finality.kafka.connection import KafkaSettings
from finality.kafka.tail import last_records, read_to_end, start_offsets

__all__ = ["find_input", "plain_tail"]

_SCAN = 100_000


def plain_tail(settings: KafkaSettings, topic: str, partition: int) -> int:
    """The greatest index that a plain topic's partition holds, 0 when nothing was ever written.

    Raises `IntegrityFault` (TAIL_GONE, FOREIGN_RECORD).
    """
    found = last_records(settings, topic, partition, 1, "read_committed")
    if not found:
        if start_offsets(settings, topic, (partition,))[partition] == 0:
            return 0
        raise IntegrityFault(
            "TAIL_GONE",
            f"topic {topic} at {settings.servers}, partition {partition} is empty but was not always: retention took "
            "its tail; lengthen retention and project into a new generation",
        )
    index = index_of(found[-1].headers)
    if index is None:
        raise IntegrityFault(
            "FOREIGN_RECORD",
            f"topic {topic} at {settings.servers}, partition {partition}, offset {found[-1].offset} was not written by "
            "a projector; take write access away from whoever did, and project into a new generation",
        )
    return index


def find_input(settings: KafkaSettings, topic: str, partition: int, position: int, digest: str) -> Record:
    """The accepted input record at a position, found by the hash of its value.

    Every accepted record takes an offset, so it lies at offset position - 1 or behind it, as far as ignored records
    push it. Raises `IntegrityFault` (INPUT_GONE).
    """
    first = max(position - 1, start_offsets(settings, topic, (partition,))[partition])
    for seen, record in enumerate(read_to_end(settings, topic, partition, first)):
        if sha256(record.value or b"").hexdigest() == digest:
            return record
        if seen > _SCAN:
            break
    raise IntegrityFault(
        "INPUT_GONE",
        f"topic {topic} at {settings.servers}, partition {partition} no longer holds the record at position {position} "
        "whose bytes a dead letter must carry; its retention is shorter than the projector was away",
    )
