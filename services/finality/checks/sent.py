"""The input log, held against the source records that were sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from finality.checks.findings import Finding, compare_sequences
from finality.core.records import COPY, EVENT, KIND, REJECTED, SOURCE, Coordinate, Record, decode_source

__all__ = ["check_sent"]


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
