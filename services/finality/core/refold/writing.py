"""Canonical bytes and hashes, written down a second time from their description.

Canonical JSON: keys in order, no spaces, nothing escaped that need not be. Hashes: SHA-256 over a tag, fixed-width
big-endian fields, one variable part at the end. The digest over the state adds up SHAKE-128 of every item.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256, shake_128
from typing import Any

__all__ = ["ZERO", "canonical", "chain_start", "digest_of", "extend_chain", "extend_input", "stream_of"]

ZERO = b"\0" * 32


def canonical(value: Any) -> bytes:
    """Canonical JSON of a plain value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _number(value: int, width: int) -> bytes:
    return value.to_bytes(width, "big", signed=False)


def stream_of(genesis: bytes, partition: int) -> bytes:
    """Identity of a partition's history."""
    return sha256(b"finality/stream/1" + _number(partition, 4) + genesis).digest()


def chain_start(stream: bytes) -> bytes:
    """Chain value at index 0."""
    return sha256(b"finality/chain/1" + stream).digest()


def extend_chain(
    stream: bytes, index: int, before: bytes, position: int, ordinal: int, version: int, entry: bytes
) -> bytes:
    """Chain value at `index`."""
    place = _number(index, 8) + before + _number(position, 8) + _number(ordinal, 4) + _number(version, 4)
    return sha256(b"finality/chain/1" + stream + place + sha256(b"finality/entry/1" + entry).digest()).digest()


def extend_input(
    before: bytes, position: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """Input chain after a record. headers: without the copy header."""
    packed = b"".join(
        [_number(len(name.encode()), 4) + _size(body) + name.encode() + (body or b"") for name, body in headers]
    )
    sizes = _number(len(headers), 4) + _size(key) + _size(value) + _number(len(packed), 4)
    body = packed + (key or b"") + (value or b"")
    return sha256(b"finality/input/1" + before + _number(position, 8) + sizes + body).digest()


def _size(part: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if part is None else _number(len(part), 4)


def digest_of(items: Iterable[bytes]) -> tuple[str, int]:
    """Digest over all items of a state, and their number. Every item is hashed, whether it changed or not."""
    total = 0
    count = 0
    for item in items:
        total += int.from_bytes(shake_128(b"finality/item/1" + item).digest(256), "big")
        count += 1
    return sha256((total % 2**2048).to_bytes(256, "big")).hexdigest(), count
