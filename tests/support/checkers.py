"""Checkers: what must hold after any fault, each as a function from records to findings.

A finding has a *name*: LOST (wanted and not there), TWICE (there more often than wanted), SWAPPED (in another order),
FLIPPED (at its place, with other content), FOREIGN (there and not wanted), BEHIND (everything after some place is
missing), and for whole logs the place where the certified history is not the computed one. No findings, all is well.

What is wanted never comes from the code that is judged: the log is compared with the independent refold of the very
input log, the input with the source records that were sent, outcomes with the truth of the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from finality.core.inputlog import Home
from finality.core.logview import Attested, LogView
from finality.core.records import COPY, EVENT, KIND, REJECTED, SOURCE, Coordinate, Record, decode_source
from finality.core.refold import Refold

__all__ = ["Finding", "LogReport", "check_log", "check_outcomes", "check_sent", "compare_sequences", "said_of_jobs"]

_SHOWN = 5  # findings of one kind that are listed; the rest is counted
_SAYS = ("delta", "outcome", "amendment")


class Finding(NamedTuple):
    """One thing that is wrong. place: what it is about, for people."""

    name: str
    place: str
    detail: str = ""


def compare_sequences(wanted: Sequence[Hashable], found: Sequence[Hashable], what: str) -> list[Finding]:
    """How `found` differs from `wanted`, whose items are distinct and must come once each, in order."""
    if list(wanted) == list(found):
        return []
    short = len(found) < len(wanted) and list(wanted[: len(found)]) == list(found)
    if short:
        return [Finding("BEHIND", f"{what} {len(found)}", f"{len(wanted) - len(found)} of {len(wanted)} are missing")]
    want, have = Counter(wanted), Counter(found)
    lost = want - have
    more = have - want
    findings: list[Finding] = []
    if len(wanted) == len(found) and lost and not any(item in want for item in more):
        findings += [
            Finding("FLIPPED", f"{what} {place}", f"{_short(there)} stands for {_short(item)}")
            for place, (item, there) in enumerate(zip(wanted, found, strict=True))
            if item != there
        ]
        return findings[:_SHOWN]
    places = {item: place for place, item in enumerate(wanted)}
    findings += [Finding("LOST", f"{what} {places[item]}", _short(item)) for item in list(lost)[:_SHOWN]]
    for item in list(more)[:_SHOWN]:
        name = "TWICE" if item in want else "FOREIGN"
        findings.append(Finding(name, f"{what} {places.get(item, '?')}", _short(item)))
    return findings or [_first_swap(wanted, found, what)]


def _first_swap(wanted: Sequence[Hashable], found: Sequence[Hashable], what: str) -> Finding:
    place = next(at for at, (one, other) in enumerate(zip(wanted, found, strict=True)) if one != other)
    return Finding("SWAPPED", f"{what} {place}", f"{_short(found[place])} stands where {_short(wanted[place])} belongs")


def _short(item: Hashable) -> str:
    return repr(item)[:160]


# -- the attested log --------------------------------------------------------------------------------


class LogReport(NamedTuple):
    """What one partition's log came to. ignored: log records that do not count, by reason. writers: accepted terms, by
    the boot that opened them."""

    findings: list[Finding]
    attested: list[Attested]
    ignored: Counter[str]
    input_ignored: Counter[str]
    writers: Counter[str]
    chain: str


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
    for record in log_records:
        before = view.tip
        attested += view.read(record)
        if view.tip.term != before.term:
            writers[view.tip.boot] += 1
        refusal = refold.feed_log(record.value, record.headers)
        if (refusal is None) != (view.tip is not before):
            findings.append(Finding("ACCEPTANCE", f"log offset {record.offset}", f"the refold says {refusal}"))
    found = [(row.number, row.position, row.ordinal, row.entry, row.chain.hex()) for row in attested]
    findings += compare_sequences(wanted, found, f"partition {partition}, entry")
    verdict = refold.verdict()
    if verdict is not None:
        findings.append(Finding(f"{verdict.cause}_DIFFERS", f"partition {partition}, index {verdict.index}"))
    refused = Counter(
        {name.removeprefix("input."): n for name, n in refold.refused.items() if name.startswith("input.")}
    )
    return LogReport(findings, attested, view.ignored, refused, writers, view.tip.chain.hex())


# -- the input log -----------------------------------------------------------------------------------


class _Landed(NamedTuple):
    source: tuple[str, int]
    at: Coordinate
    value: bytes | None


def check_sent(
    sent: Mapping[tuple[str, int], Sequence[tuple[Coordinate, bytes]]], inputs: Mapping[int, Iterable[Record]]
) -> tuple[list[Finding], Counter[str]]:
    """Each event that was sent is folded exactly once, with its own bytes; and what was dropped on the way.

    sent: by (source topic id, partition) the coordinates and events that its records hold. inputs: by input partition.
    Dropped are repeats (not greater than the last taken coordinate of that source partition in that input partition)
    and records behind a gap (their predecessor is greater than it).
    """
    dropped: Counter[str] = Counter()
    taken: dict[tuple[str, int], list[_Landed]] = {source: [] for source in sent}
    for records in inputs.values():
        for landed in _taken(records, dropped):
            taken.setdefault(landed.source, []).append(landed)
    findings: list[Finding] = []
    for source, landed_here in taken.items():
        landed_here.sort(key=lambda row: row.at)
        wanted = [(at, value) for at, value in sent.get(source, ())]
        found = [(row.at, row.value) for row in landed_here]
        findings += compare_sequences(wanted, found, f"source {source[0]}[{source[1]}], event")
    return findings, dropped


def _taken(records: Iterable[Record], dropped: Counter[str]) -> Iterator[_Landed]:
    marks: dict[tuple[str, int], Coordinate] = {}
    for record in records:
        headers = dict(record.headers)
        if headers.get(KIND) not in (EVENT, REJECTED) or COPY in headers or not headers.get(SOURCE):
            continue
        mark = decode_source(headers[SOURCE] or b"")
        source = (mark.topic, mark.partition)
        last = marks.get(source, Coordinate(-1, -1))
        if mark.at <= last:
            dropped["repeat"] += 1
        elif mark.before is not None and mark.before > last:
            dropped["gap"] += 1
        else:
            marks[source] = mark.at
            yield _Landed(source, mark.at, record.value)


# -- outcomes ----------------------------------------------------------------------------------------


def said_of_jobs(entries: Iterable[bytes]) -> dict[str, tuple[str, str]]:
    """The latest word on every job: (phase, outcome) with amendments, ("", "") for one that is open.

    The phase of an open job is no more than what its last delta happened to be about, so it is left out.
    """
    said: dict[str, tuple[str, str]] = {}
    for entry in entries:
        document: dict[str, Any] = msgspec.json.decode(entry)
        if document["kind"] in _SAYS:
            outcome = str(document.get("outcome", ""))
            said[str(document["job"])] = (str(document.get("phase", "")) if outcome else "", outcome)
    return said


def check_outcomes(wanted: Mapping[str, tuple[str, str]], found: Mapping[str, tuple[str, str]]) -> list[Finding]:
    """Every job came to what it must come to."""
    findings = []
    for job in sorted(wanted.keys() | found.keys()):
        want, have = wanted.get(job), found.get(job)
        if want == have:
            continue
        name = "LOST" if have is None else "FOREIGN" if want is None else "FLIPPED"
        findings.append(Finding(name, job, f"{have} instead of {want}"))
    return findings
