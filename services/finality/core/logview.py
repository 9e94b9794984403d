"""What an attested log says, for readers: entries with their proof, in index order. Pure.

Feeds on the records of one partition's log in order and keeps only what acceptance takes. Listings, proofs and the
projector read the log through this.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from finality.core.attested import Block, LogTip, accept_log, decode_log_record, first_tip
from finality.core.canonical import chain_next
from finality.core.genesis import decode_genesis
from finality.core.inputlog import Home
from finality.core.records import COPY, Record

__all__ = ["Attested", "LogView"]


class Attested(NamedTuple):
    """One certified entry and where it stands. offset: of its block in the log. voters: who computed the same."""

    number: int
    position: int
    ordinal: int
    entry: bytes
    previous: bytes
    chain: bytes
    offset: int
    term: int
    epoch: int
    voters: tuple[str, ...]

    def decoded(self) -> dict[str, object]:
        """The entry as a document."""
        document: dict[str, object] = msgspec.json.decode(self.entry)
        return document


class LogView:
    """Acceptance over one partition's log. ignored: records that do not count, by reason."""

    def __init__(self, genesis_value: bytes, partition: int, home: Home) -> None:
        self.tip: LogTip = first_tip(genesis_value, decode_genesis(genesis_value), partition)
        self.home = home
        self.ignored: Counter[str] = Counter()
        self.blocks = 0
        self.leaders = 0

    def read(self, record: Record) -> list[Attested]:
        """The entries that one log record certifies."""
        copied = any(name == COPY for name, _ in record.headers)
        before = self.tip
        answer = accept_log(record.value, before, self.home, copied)
        if isinstance(answer, str):
            self.ignored[answer] += 1
            return []
        self.tip = answer
        block = decode_log_record(record.value)
        if not isinstance(block, Block):
            self.leaders += 1
            return []
        self.blocks += 1
        voters = tuple([row.replica for row in block.voters])
        chain, number = before.chain, before.index
        entries = []
        for row in block.entries:
            number += 1
            entry = bytes(row.entry)
            after = chain_next(before.stream, number, chain, row.position, row.ordinal, before.fold, entry)
            entries.append(
                Attested(
                    number,
                    row.position,
                    row.ordinal,
                    entry,
                    chain,
                    after,
                    record.offset,
                    block.term,
                    block.epoch,
                    voters,
                )
            )
            chain = after
        return entries
