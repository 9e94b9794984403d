"""Canonical bytes and hashes.

Hashed documents are JSON of a restricted domain: ASCII keys, strings without lone surrogates, booleans, null, integers
within ±(2^53-1), lists and objects. Fractions and 64-bit numbers are strings. In that domain msgspec's sorted encoder
equals RFC 8785 byte for byte (tested against an independent encoder), and it is a hundred times faster.

Every hash is SHA-256 over a tag, fixed-width fields, and at most one variable part at the end, so that no two kinds of
thing can share an input.

Source: RFC 8785 (JSON Canonicalization Scheme); FIPS 180-4; FIPS 202.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256, shake_128
from typing import Any

import msgspec

__all__ = [
    "DIGEST_BITS",
    "MAX_INT",
    "ZERO_HASH",
    "chain_next",
    "chain_zero",
    "check_domain",
    "content_hash",
    "encode",
    "entry_hash",
    "input_next",
    "item_sum",
    "stream_id",
]

MAX_INT = 2**53 - 1
ZERO_HASH = bytes(32)
DIGEST_BITS = 2048  # width of the sum over state items
_DIGEST_BYTES = DIGEST_BITS // 8

_encoder = msgspec.json.Encoder(order="sorted")
encode = _encoder.encode

_ENTRY_TAG = b"finality/entry/1"
_CHAIN_TAG = b"finality/chain/1"
_INPUT_TAG = b"finality/input/1"
_STREAM_TAG = b"finality/stream/1"
_CONTENT_TAG = b"finality/content/1"
_ITEM_TAG = b"finality/item/1"

_CHAIN = struct.Struct(">16s32sQ32sQII32s")
_INPUT = struct.Struct(">16s32sQIiiI")
_HEADER = struct.Struct(">Ii")


def check_domain(value: Any, path: str = "$") -> None:
    """Raise ValueError naming the place where `value` leaves the canonical domain (tests and hostile input only)."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -MAX_INT <= value <= MAX_INT:
            raise ValueError(f"{path}: integer outside ±(2^53-1)")
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            check_domain(item, f"{path}[{place}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not (isinstance(key, str) and key.isascii()):
                raise ValueError(f"{path}: key {key!r} is not ASCII")
            check_domain(item, f"{path}.{key}")
    else:
        raise ValueError(f"{path}: {type(value).__name__} has no canonical form")


def entry_hash(entry: bytes) -> bytes:
    """Hash of one entry's canonical bytes."""
    return sha256(_ENTRY_TAG + entry).digest()


def stream_id(genesis: bytes, partition: int) -> bytes:
    """Identity of one partition's history: hash of the genesis record's value and the partition number."""
    return sha256(_STREAM_TAG + struct.pack(">I", partition) + genesis).digest()


def chain_zero(stream: bytes) -> bytes:
    """Chain value before the first entry."""
    return sha256(_CHAIN_TAG + stream).digest()


def chain_next(
    stream: bytes,
    index: int,
    previous: bytes,
    position: int,
    ordinal: int,
    fold_version: int,
    entry: bytes,
) -> bytes:
    """Chain value at `index`: binds the stream, the place, what came before, and the entry's bytes."""
    leaf = sha256(_ENTRY_TAG + entry).digest()
    return sha256(_CHAIN.pack(_CHAIN_TAG, stream, index, previous, position, ordinal, fold_version, leaf)).digest()


def input_next(
    previous: bytes,
    position: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    """Rolling hash over accepted input records. `headers` are the carried ones (without the copy header), in order.

    A missing key or value has length -1, so that it differs from an empty one.
    """
    packed = b""
    for name, content in headers:
        raw = name.encode()
        if content is None:
            packed += _HEADER.pack(len(raw), -1) + raw
        else:
            packed += _HEADER.pack(len(raw), len(content)) + raw + content
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    head = _INPUT.pack(_INPUT_TAG, previous, position, len(headers), key_size, value_size, len(packed))
    return sha256(head + packed + (key or b"") + (value or b"")).digest()


def content_hash(content: bytes) -> bytes:
    """Sixteen bytes that stand for the content of an event (to tell a duplicate from a conflict)."""
    return sha256(_CONTENT_TAG + content).digest()[:16]


def item_sum(item: bytes) -> int:
    """The 2048-bit number that one state item adds to the digest (modulo 2^2048).

    A sum needs no order, so a changed item costs one subtraction and one addition.
    """
    return int.from_bytes(shake_128(_ITEM_TAG + item).digest(_DIGEST_BYTES), "big")
