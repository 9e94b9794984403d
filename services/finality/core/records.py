"""Records as they lie in Kafka: kinds, headers, source coordinates.

A record's *kind* stands in a header, so that raw bytes which nobody could decode can be carried unchanged. A record's
*source coordinates* say where its writer read it, and what the writer sent to this partition just before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from finality.core.errors import Rejected

__all__ = [
    "BLOCK",
    "CAUSE",
    "COMMAND",
    "COPY",
    "EVENT",
    "GENESIS",
    "KIND",
    "LEADER",
    "REJECTED",
    "SOURCE",
    "TICK",
    "TRACE",
    "Coordinate",
    "CopyMark",
    "Headers",
    "Record",
    "SourceMark",
    "decode_copy",
    "decode_place",
    "decode_source",
    "encode_copy",
    "encode_source",
]

KIND = "fn-kind"
SOURCE = "fn-src"
COPY = "fn-copy"
CAUSE = "fn-cause"
TRACE = "traceparent"

GENESIS = b"genesis"
EVENT = b"event"
REJECTED = b"rejected"
TICK = b"tick"
COMMAND = b"command"
LEADER = b"leader"
BLOCK = b"block"

# Numbers of bounded length: they are hashed, and every reader must take the same ones.
_SOURCE = re.compile(
    r"([!-~]{1,249}) ([0-9]{1,9}) (-?[0-9]{1,9}) ([0-9]{1,18})\.([0-9]{1,9})"
    r" (?:<([0-9]{1,18})\.([0-9]{1,9})|\^(-?[0-9]{1,18}))"
)
_COPY = re.compile(rb"([0-9]{1,18}) (-?[0-9]{1,18})")

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record read from Kafka. timestamp: wall time of the append in ms, -1 unknown. leader_epoch: -1 unknown."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int = -1
    leader_epoch: int = -1


class Coordinate(NamedTuple):
    """A place in a source partition, ordered by (offset, ordinal).

    offset: Kafka offset in the source partition. ordinal: which of the events that one source record gave.
    """

    offset: int
    ordinal: int


class SourceMark(NamedTuple):
    """Content of the source header.

    topic: Kafka topic id (22 characters) or name of a file replay. before: coordinate of the previous record that this
    writer sent to this input partition from this source partition; None in a session's first one, then `base` is the
    offset below which everything was acknowledged.
    """

    topic: str
    partition: int
    leader_epoch: int
    at: Coordinate
    before: Coordinate | None
    base: int


def encode_source(mark: SourceMark) -> bytes:
    """Header text: `topic partition epoch offset.ordinal <offset.ordinal` or `… ^base`."""
    if mark.before is None:
        tail = f"^{mark.base}"
    else:
        tail = f"<{mark.before.offset}.{mark.before.ordinal}"
    at = mark.at
    text = f"{mark.topic} {mark.partition} {mark.leader_epoch} {at.offset}.{at.ordinal} {tail}"
    return text.encode("ascii")


def decode_source(header: bytes) -> SourceMark:
    """The mark in a header. Raises `Rejected` (BAD_COORDINATES)."""
    topic, partition, epoch, offset, ordinal, first, second, base = _source_fields(header)
    return SourceMark(
        topic,
        int(partition),
        int(epoch),
        Coordinate(int(offset), int(ordinal)),
        None if first is None else Coordinate(int(first), int(second)),
        -1 if base is None else int(base),
    )


def decode_place(header: bytes) -> tuple[tuple[str, int], Coordinate, tuple[int, int] | None]:
    """What the fold needs of a source header: (topic, partition), the coordinate, the one before it. Raises as
    `decode_source` does."""
    topic, partition, _, offset, ordinal, first, second, _ = _source_fields(header)
    before = None if first is None else (int(first), int(second))
    return (topic, int(partition)), Coordinate(int(offset), int(ordinal)), before


def _source_fields(header: bytes) -> tuple[Any, ...]:
    match = _SOURCE.fullmatch(header.decode("latin-1"))
    if match is None:
        raise Rejected("BAD_COORDINATES", repr(header[:80]))
    return match.groups()


class CopyMark(NamedTuple):
    """Content of the copy header: position at every site, and the offset at the immediate source."""

    position: int
    offset: int


def encode_copy(mark: CopyMark) -> bytes:
    """Header text `position offset`. In a log copy the position counts accepted log records."""
    return b"%d %d" % mark


def decode_copy(header: bytes | None) -> CopyMark | None:
    """The mark in a copy header; None when it is malformed (such a record is not accepted)."""
    match = _COPY.fullmatch(header or b"")
    return CopyMark(int(match[1]), int(match[2])) if match else None
