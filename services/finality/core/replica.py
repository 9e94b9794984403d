"""One replica of one partition: its fold, its chain, and what it makes of the attested log. Pure.

A replica feeds on two logs. Input records go through acceptance and the fold; each entry extends the replica's own
chain and waits in a *window*. Attested-log records go through acceptance; a block that was accepted is compared with
the window: equal, the entries leave it; different, the replica is *quarantined*: it computed something else than a
quorum did, and says at which index and whether its input or its fold differs. Quarantine is derived, never stored: a
restart computes it again.

Invariants held here: I1 same input prefix, same entries (compared at every block) · I6 blocks are built only from the
window, on a tip equal to the own chain; so nothing is published that the own fold has not computed (I9) · I8 quarantine
is derived.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

import msgspec

from finality.core.attested import (
    MAX_BLOCK_BYTES,
    Block,
    BlockRow,
    LogTip,
    VoterRow,
    accept_log,
    decode_log_record,
    first_tip,
)
from finality.core.canonical import chain_next
from finality.core.errors import IntegrityFault
from finality.core.fold import Fold
from finality.core.genesis import Genesis, decode_genesis
from finality.core.inputlog import Home, InputTip, accept_input
from finality.core.records import COPY, Record, decode_copy
from finality.core.state import State

__all__ = ["Quarantine", "Replica", "Row"]

_ROW_BYTES = 40  # JSON around an entry in a block
_HEAD_BYTES = 2_048  # a block's other fields, with voters


class Row(msgspec.Struct, gc=False):
    """One entry of the own chain that is not yet in an accepted block."""

    number: int
    position: int
    ordinal: int
    kind: str
    entry: bytes
    chain: bytes
    input_chain: bytes


class Quarantine(NamedTuple):
    """Where the own chain left the certified one. cause: INPUT (the input read differs) or FOLD."""

    number: int
    position: int
    cause: str


class Replica:
    """See the module's head. home: where the logs that are read lie.

    tip: the accepted log's. number, chain: of the own fold. counts: what was ignored, by log and reason.
    """

    def __init__(self, genesis_value: bytes, partition: int, home: Home) -> None:
        self.genesis: Genesis = decode_genesis(genesis_value)
        self._genesis_value = genesis_value
        self.partition = partition
        self.home = home
        self.input = InputTip()
        self.fold = Fold(self.genesis)
        self.tip: LogTip = first_tip(genesis_value, self.genesis, partition)
        self.number = 0
        self.chain = self.tip.chain
        self.window: deque[Row] = deque()
        self.quarantine: Quarantine | None = None
        self.counts: Counter[str] = Counter()
        self.log_records = 0  # accepted log records, the position in a copied log
        self.term_offset = -1
        self._ahead: deque[tuple[int, bytes, bytes]] = (
            deque()
        )  # accepted (last index, chain, input chain) not yet folded

    @classmethod
    def restore(cls, genesis_value: bytes, partition: int, home: Home, start: Start) -> Replica:
        """A replica that goes on from a verified state instead of from genesis."""
        replica = cls(genesis_value, partition, home)
        replica.fold = Fold(replica.genesis, start.state)
        replica.input = start.input
        replica.tip = start.tip
        replica.number = start.tip.index
        replica.chain = start.tip.chain
        replica.log_records = start.log_records
        return replica

    # -- input --------------------------------------------------------------------------------

    def feed(self, record: Record) -> int:
        """Take one input record; how many entries it made."""
        answer = accept_input(record.key, record.value, record.headers, self.input, self.home)
        if isinstance(answer, str):
            self.counts["input." + answer] += 1
            return 0
        position = answer.tip.position
        if position == 1 and record.value != self._genesis_value:
            raise IntegrityFault(
                "GENESIS_DIFFERS",
                f"input partition {self.partition} begins with another genesis than control; "
                "check that both belong to one installation",
            )
        self.input = answer.tip
        if position == 1:
            return 0
        made = self.fold.step(position, answer.kind, record.key, record.value, answer.headers)
        if not made:
            return 0
        stream, version, chain = self.tip.stream, self.fold.state.fold_version, self.chain
        for entry in made:
            index, ordinal = entry.index, entry.ordinal
            chain = chain_next(stream, index, chain, position, ordinal, version, entry.entry)
            self.window.append(Row(index, position, ordinal, entry.kind, entry.entry, chain, answer.tip.chain))
        self.chain = chain
        self.number = made[-1].index
        if self._ahead:
            self._compare_ahead()
        return len(made)

    # -- attested log -------------------------------------------------------------------------

    def read_log(self, record: Record) -> bool:
        """Take one record of the attested log. True when it was accepted."""
        copied = False
        for name, content in record.headers:
            if name == COPY:
                copied = True
                mark = decode_copy(content)
                if mark is None or mark.position != self.log_records + 1:
                    self.counts["log.COPY_OUT_OF_TURN"] += 1
                    return False
        answer = accept_log(record.value, self.tip, self.home, copied)
        if isinstance(answer, str):
            self.counts["log." + answer] += 1
            return False
        before, self.tip = self.tip, answer
        self.log_records += 1
        if answer.index != before.index:
            self._compare(record.value, before)
        else:
            self.term_offset = record.offset
        return True

    def _compare(self, value: bytes | None, before: LogTip) -> None:
        """A block was accepted: take its entries out of the window, or find where the own chain left it."""
        tip = self.tip
        if self.quarantine is not None:
            return
        if self.number < tip.index:
            self._ahead.append((tip.index, tip.chain, tip.input_chain))
            return
        own = self._row(tip.index)
        if own is not None and own.chain == tip.chain:
            self._forget(tip.index)
            return
        block = decode_log_record(value)
        assert isinstance(block, Block)
        self.quarantine = self._first_difference(block, before)

    def _compare_ahead(self) -> None:
        while self._ahead and self._ahead[0][0] <= self.number:
            last, chain, input_chain = self._ahead.popleft()
            own = self._row(last)
            if own is None or own.chain != chain:
                cause = "INPUT" if own is not None and own.input_chain != input_chain else "FOLD"
                position = own.position if own is not None else self.input.position
                self.quarantine = Quarantine(last, position, cause)
                return
            self._forget(last)

    def _first_difference(self, block: Block, before: LogTip) -> Quarantine:
        chain, index = before.chain, before.index
        for theirs in block.entries:
            index += 1
            chain = chain_next(
                before.stream, index, chain, theirs.position, theirs.ordinal, before.fold, bytes(theirs.entry)
            )
            own = self._row(index)
            if own is None or own.chain != chain:
                position = own.position if own is not None else theirs.position
                last = self._row(block.last)
                same = last is not None and last.input_chain.hex() == block.input_chain
                return Quarantine(index, position, "FOLD" if same else "INPUT")
        return Quarantine(block.last, block.position, "FOLD")

    def _row(self, number: int) -> Row | None:
        """The window's row with that number."""
        if not self.window:
            return None
        place = number - self.window[0].number
        return self.window[place] if 0 <= place < len(self.window) else None

    def _forget(self, number: int) -> None:
        while self.window and self.window[0].number <= number:
            self.window.popleft()

    # -- voting and publishing ----------------------------------------------------------------

    def chain_at(self, number: int) -> bytes | None:
        """The own chain value at an index at or after the accepted tip, None when it is not known."""
        if number == self.tip.index and self.agrees:
            return self.tip.chain
        row = self._row(number)
        return row.chain if row is not None else None

    def row_at(self, number: int) -> Row | None:
        """The row of the own chain at an index after the accepted tip."""
        return self._row(number)

    @property
    def agrees(self) -> bool:
        """The own fold has reached the accepted tip and computed the same."""
        return self.quarantine is None and not self._ahead and self.number >= self.tip.index

    def block(self, last: int, voters: tuple[VoterRow, ...]) -> Block | None:
        """The next block, up to the certified index `last`; None when there is nothing to publish on this tip."""
        if not self.agrees or not self.window or self.window[0].number != self.tip.index + 1:
            return None
        rows = self._cut(last)
        if not rows:
            return None
        end = rows[-1]
        tip = self.tip
        entries = [BlockRow(row.position, row.ordinal, msgspec.Raw(row.entry)) for row in rows]
        return Block(
            chain=end.chain.hex(),
            entries=entries,
            epoch=tip.epoch,
            first=tip.index + 1,
            fold=tip.fold,
            input_chain=end.input_chain.hex(),
            last=end.number,
            position=end.position,
            previous=tip.chain.hex(),
            term=tip.term,
            voters=list(voters),
        )

    def certifiable(self, last: int) -> int:
        """The greatest index <= `last` at which a block may end now: see `_cut`. 0 when none."""
        rows = self._cut(last)
        return rows[-1].number if rows else 0

    def _cut(self, last: int) -> list[Row]:
        """Rows of the next block: it ends before the input record that would take it past 900 kB (only a single
        record's larger entries are cut inside), and at a control entry."""
        rows: list[Row] = []
        size = _HEAD_BYTES
        for row in self.window:
            if row.number > last:
                break
            size += len(row.entry) + _ROW_BYTES
            if size > MAX_BLOCK_BYTES and rows:
                if rows[0].position != row.position:
                    while rows and rows[-1].position == row.position:
                        rows.pop()
                break
            rows.append(row)
            if row.kind == "control":
                break
        return rows


class Start(NamedTuple):
    """Where a restored replica goes on: the state after an input position, the tips there."""

    state: State
    input: InputTip
    tip: LogTip
    log_records: int
