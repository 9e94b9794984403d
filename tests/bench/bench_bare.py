"""The bare loop: the least that a Python program could do with the same records and still be called a fold.

It decodes with msgspec, rolls the input chain over value and source header, keeps the last phase of each job, writes an
entry when that changed, chains it, and gathers entries into blocks. No acceptance, no checks, no contracts, no order,
no late evidence, no state digest, no second opinion. It is the floor that our own loop is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from finality.core.records import SOURCE, Record

__all__ = ["BareLoop", "pairs_of"]

_BLOCK = 2_000  # entries


class _Seen(msgspec.Struct):
    job: str
    at: str = ""
    phase: str = ""


class _Word(msgspec.Struct):
    at: str
    job: str
    phase: str


class BareLoop:
    """block: takes the bytes of a full block. entries: how many were written."""

    def __init__(self, block: Callable[[bytes], object] = len) -> None:
        self._block = block
        self._decode = msgspec.json.Decoder(_Seen).decode
        self._encode = msgspec.json.Encoder().encode
        self._phases: dict[str, str] = {}
        self._input = self._chain = bytes(32)
        self._waiting: list[bytes] = []
        self.entries = 0

    def feed(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Take events: value and source header of each."""
        for value, source in pairs:
            seen = self._decode(value)
            self._input = sha256(self._input + source + value).digest()
            if self._phases.get(seen.job) == seen.phase:
                continue
            self._phases[seen.job] = seen.phase
            entry = self._encode(_Word(seen.at, seen.job, seen.phase))
            self._chain = sha256(self._chain + entry).digest()
            self._waiting.append(entry)
            self.entries += 1
            if len(self._waiting) == _BLOCK:
                self.publish()

    def publish(self) -> None:
        """Write out what waits."""
        if self._waiting:
            self._block(self._chain + b",".join(self._waiting))
            self._waiting = []


def pairs_of(records: Iterable[Record]) -> list[tuple[bytes, bytes]]:
    """Value and source header of the records that are events."""
    return [
        (record.value or b"", record.headers[1][1] or b"")
        for record in records
        if len(record.headers) > 1 and record.headers[1][0] == SOURCE
    ]
