"""The attested log of one partition, held against an independent refold of its input.

What counts in the log is compared entry by entry. Where the accepted log ends early, the records that were refused tell
why: a damaged one in the place of the next block, or blocks that fit nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from finality.checks.findings import Finding, compare_sequences
from finality.core.inputlog import Home
from finality.core.logview import Attested, LogView
from finality.core.records import Record
from finality.core.refold import Refold

__all__ = ["LogReport", "check_log"]

_DAMAGE = ("CHAIN", "POSITION", "ORDER", "CUT", "ENTRY_SIZE", "EMPTY", "CONTROL")


class LogReport(NamedTuple):
    """What one partition's log came to. ignored: log records that do not count, by reason. writers: accepted terms, by
    the boot that opened them."""

    findings: list[Finding]
    attested: list[Attested]
    ignored: Counter[str]
    input_ignored: Counter[str]
    writers: Counter[str]
    chain: str


class _Refused:
    """Refused records that may be the reason for which nothing follows."""

    def __init__(self) -> None:
        self._damaged: tuple[int, str] | None = None  # offset, finding
        self._ahead: dict[int, int] = {}  # first index of a block that came too early -> offset

    def take(self, record: Record, reason: str, tip: int) -> None:
        document = _document_of(record.value or b"")
        if reason == "FIRST" and document["first"] > tip + 1:
            self._ahead.setdefault(document["first"], record.offset)
        elif self._damaged is None and (reason in _DAMAGE or reason == "UNREADABLE"):
            self._damaged = (record.offset, "TORN" if reason == "UNREADABLE" and not document else "FLIPPED")

    def moved(self, tip: int) -> None:
        """A block was accepted: what stood in its place, and what it covers, did no harm."""
        self._damaged = None
        self._ahead = {first: offset for first, offset in self._ahead.items() if first > tip}

    def findings(self, tip: int, what: str) -> list[Finding]:
        if self._damaged is not None:
            offset, name = self._damaged
            return [Finding(name, f"{what}, log offset {offset}", f"in the place of index {tip + 1}")]
        if tip + 1 in self._ahead:
            return [Finding("SWAPPED", f"{what}, log offset {self._ahead[tip + 1]}", f"index {tip + 1} came too early")]
        if self._ahead:
            first = min(self._ahead)
            return [
                Finding("LOST", f"{what}, before log offset {self._ahead[first]}", f"index {tip + 1} to {first - 1}")
            ]
        return []


def _document_of(value: bytes) -> dict[str, Any]:
    """The JSON object in a value, {} when it is none, such as one that was cut off."""
    try:
        document = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def check_log(
    genesis_value: bytes, partition: int, home: Home, input_records: Iterable[Record], log_records: Iterable[Record]
) -> LogReport:
    """Every entry of an independent refold of the input is certified in the log, once, in order, in the same bytes.

    The two acceptance functions, the product's and the refold's, must also take the very same log records.
    """
    refold = Refold(genesis_value, partition, home.site, home.generation)
    wanted: list[tuple[int, int, int, bytes, str]] = []
    for record in input_records:
        for row in refold.feed_input(record.key, record.value, record.headers):
            wanted.append((row["index"], row["position"], row["ordinal"], row["entry"], row["chain"]))
    view = LogView(genesis_value, partition, home)
    attested: list[Attested] = []
    writers: Counter[str] = Counter()
    findings: list[Finding] = []
    refused = _Refused()
    for record in log_records:
        before = view.tip
        attested += view.read(record)
        if view.tip.term != before.term:
            writers[view.tip.boot] += 1
        refusal = refold.feed_log(record.value, record.headers)
        if (refusal is None) != (view.tip is not before):
            findings.append(Finding("ACCEPTANCE", f"log offset {record.offset}", f"the refold says {refusal}"))
        if refusal is not None:
            refused.take(record, refusal, view.tip.index)
        elif view.tip.index != before.index:
            refused.moved(view.tip.index)
    found = [(row.number, row.position, row.ordinal, row.entry, row.chain.hex()) for row in attested]
    differences = compare_sequences(wanted, found, f"partition {partition}, entry")
    if differences:
        findings += differences + refused.findings(view.tip.index, f"partition {partition}")
    verdict = refold.verdict()
    if verdict is not None:
        findings.append(Finding(f"{verdict.cause}_DIFFERS", f"partition {partition}, index {verdict.index}"))
    ignored = {name.removeprefix("input."): n for name, n in refold.refused.items() if name.startswith("input.")}
    return LogReport(findings, attested, view.ignored, Counter(ignored), writers, view.tip.chain.hex())
