"""One partition refolded: its input log and its attested log, read by code that shares nothing with the fast fold.

Feed both logs in their own order, in any interleaving. `verdict` says whether what a quorum certified is what this
code computes, and where it is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from finality.core.refold.accepting import Input, Log, LogRow, accept_log, accept_record, copy_position
from finality.core.refold.folding import Folding
from finality.core.refold.writing import chain_start, extend_chain, stream_of

__all__ = ["Refold", "Verdict"]

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Verdict:
    """The first index at which the certified history is not the computed one.

    cause: INPUT, the input that was read differs from what the quorum read; FOLD, it is the same. An entry is b"" where
    there is none at that index. position, ordinal: of the own entry, else of the certified one.
    """

    index: int
    position: int
    ordinal: int
    cause: str
    own: bytes
    certified: bytes


class Refold:
    """See the module's head.

    genesis_value: bytes of the genesis record. site, generation: where the logs that are fed lie.
    refused: records that did not count, by log and reason. Raises ValueError for a log that begins with
    another genesis.
    """

    def __init__(self, genesis_value: bytes, partition: int, site: str, generation: int) -> None:
        genesis = json.loads(genesis_value)
        self.home = (site, generation)
        self.stream = stream_of(genesis_value, partition)
        self.input = Input()
        self.log = Log.begin(genesis, self.stream)
        self.index = 0
        self.chain = chain_start(self.stream)
        self.refused: Counter[str] = Counter()
        self.log_records = 0
        self._genesis = genesis_value
        self._fold = Folding(genesis)
        self._own: dict[int, dict[str, Any]] = {}  # rows that no accepted block covers yet
        self._certified: dict[int, tuple[LogRow, int, str]] = {}  # with their block's last position and input chain
        self._input_chains: dict[int, str] = {0: self.input.chain.hex()}  # from the last compared position on
        self._verdict: Verdict | None = None

    # -- input log ----------------------------------------------------------------------------

    def feed_input(self, key: bytes | None, value: bytes | None, headers: Headers) -> list[dict[str, Any]]:
        """Take the next record of the input log; the rows it made.

        A row: index, position, ordinal, entry (bytes), chain and input_chain (hex). None when it was not accepted.
        """
        answer = accept_record(key, value, list(headers), self.input, self.home)
        if isinstance(answer, str):
            self.refused["input." + answer] += 1
            return []
        self.input, kind, carried = answer
        position = self.input.position
        self._input_chains[position] = self.input.chain.hex()
        if position == 1:
            if value != self._genesis:
                raise ValueError(
                    "GENESIS_DIFFERS: the input log begins with another genesis than the one that was given"
                )
            return []
        rows = []
        for ordinal, entry in enumerate(self._fold.fold(position, kind, value or b"", carried)):
            self.index += 1
            version = self._fold.control.fold_version
            self.chain = extend_chain(self.stream, self.index, self.chain, position, ordinal, version, entry)
            row = {
                "index": self.index,
                "position": position,
                "ordinal": ordinal,
                "entry": entry,
                "chain": self.chain.hex(),
                "input_chain": self.input.chain.hex(),
            }
            self._own[self.index] = row
            rows.append(row)
        self._compare()
        return rows

    def state_items(self) -> list[bytes]:
        """Every item of the state after the last accepted record, in the bytes that an export has, unordered."""
        return self._fold.items()

    # -- attested log -------------------------------------------------------------------------

    def feed_log(self, value: bytes | None, headers: Headers) -> str | None:
        """Take the next record of the attested log: None when it counts, else the reason why not."""
        copies = [content for name, content in headers if name == "fn-copy"]
        reason: str | None = None
        if any(copy_position(content) != self.log_records + 1 for content in copies):
            reason = "COPY_OUT_OF_TURN"
        else:
            answer = accept_log(value, self.log, self.home, bool(copies))
            if isinstance(answer, str):
                reason = answer
        if reason is not None:
            self.refused["log." + reason] += 1
            return reason
        assert not isinstance(answer, str)
        self.log, rows = answer
        self.log_records += 1
        for row in rows:
            self._certified[row.index] = (row, self.log.position, self.log.input_chain.hex())
        self._compare()
        return None

    # -- comparing ----------------------------------------------------------------------------

    @property
    def repeats(self) -> int:
        """Input records that the fold dropped, since the same source record was there before."""
        return self._fold.repeats

    def computed(self, index: int) -> bytes | None:
        """The own entry at an index that no accepted block covers, None when there is none."""
        row = self._own.get(index)
        return None if row is None else row["entry"]

    @property
    def compared(self) -> int:
        """Up to this index the certified and the computed history were compared and are equal."""
        return next(iter(self._certified), self.log.index + 1) - 1

    def verdict(self) -> Verdict | None:
        """Where the two histories part, None while they do not (as far as both were read)."""
        return self._verdict

    def _compare(self) -> None:
        while self._certified and self._verdict is None:
            index = next(iter(self._certified))
            certified, last, input_chain = self._certified[index]
            if self.input.position < last:
                return
            own = self._own.get(index)
            if own is not None and own["chain"] == certified.chain.hex():
                del self._own[index], self._certified[index]
                self._trim(last, index)
                continue
            place = (certified.position, certified.ordinal) if own is None else (own["position"], own["ordinal"])
            cause = "FOLD" if self._input_chains.get(last) == input_chain else "INPUT"
            entry = b"" if own is None else own["entry"]
            self._verdict = Verdict(index, place[0], place[1], cause, entry, certified.entry)

    def _trim(self, position: int, index: int) -> None:
        """Input chains before a block that was compared are asked for no more."""
        if index + 1 not in self._certified:
            for at in [*takewhile(lambda at: at < position, self._input_chains)]:
                del self._input_chains[at]
