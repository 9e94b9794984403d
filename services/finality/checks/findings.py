"""A finding, and the comparison of two sequences that all other checks come down to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

__all__ = ["Finding", "compare_sequences"]

_SHOWN = 5  # findings of one kind that are listed


class Finding(NamedTuple):
    """One thing that is wrong. place: what it is about, for people."""

    name: str
    place: str
    detail: str = ""


def compare_sequences(wanted: Sequence[Hashable], found: Sequence[Hashable], what: str) -> list[Finding]:
    """How `found` differs from `wanted`, whose items are distinct and must come once each, in order."""
    if list(wanted) == list(found):
        return []
    if len(found) < len(wanted) and list(wanted[: len(found)]) == list(found):
        return [Finding("BEHIND", f"{what} {len(found)}", f"{len(wanted) - len(found)} of {len(wanted)} are missing")]
    have, want = Counter(found), Counter(wanted)
    lost, more = want - have, have - want
    places = {item: place for place, item in enumerate(wanted)}
    findings = _take_torn(lost, more, places, what)
    if len(wanted) == len(found) and lost and not any(item in want for item in more):
        changed = [(place, pair) for place, pair in enumerate(zip(wanted, found, strict=True)) if pair[0] in lost]
        for place, (item, there) in changed[:_SHOWN]:
            findings.append(Finding("FLIPPED", f"{what} {place}", f"{_short(there)} stands for {_short(item)}"))
        return findings
    findings += [Finding("LOST", f"{what} {places[item]}", _short(item)) for item in list(lost)[:_SHOWN]]
    for item in list(more)[:_SHOWN]:
        name = "TWICE" if item in want else "FOREIGN"
        findings.append(Finding(name, f"{what} {places.get(item, '?')}", _short(item)))
    return findings or [_first_swap(wanted, found, what)]


def _take_torn(
    lost: Counter[Hashable], more: Counter[Hashable], places: dict[Hashable, int], what: str
) -> list[Finding]:
    """Items of which only the beginning is there; they are taken out of both counts."""
    findings = []
    for there in list(more):
        whole = next((item for item in lost if _is_beginning(there, item)), None)
        if whole is not None:
            findings.append(Finding("TORN", f"{what} {places[whole]}", f"only {_short(there)} of {_short(whole)}"))
            del lost[whole], more[there]
    return findings[:_SHOWN]


def _is_beginning(part: Hashable, whole: Hashable) -> bool:
    """part is less than whole, and its beginning: bytes, or rows that differ in such bytes only."""
    if isinstance(part, bytes) and isinstance(whole, bytes):
        return len(part) < len(whole) and whole.startswith(part)
    if isinstance(part, tuple) and isinstance(whole, tuple) and len(part) == len(whole):
        differ = [pair for pair in zip(part, whole, strict=True) if pair[0] != pair[1]]
        return bool(differ) and all(_is_beginning(*pair) for pair in differ)
    return False


def _first_swap(wanted: Sequence[Hashable], found: Sequence[Hashable], what: str) -> Finding:
    place = next(at for at, (one, other) in enumerate(zip(wanted, found, strict=True)) if one != other)
    return Finding("SWAPPED", f"{what} {place}", f"{_short(found[place])} stands where {_short(wanted[place])} belongs")


def _short(item: Hashable) -> str:
    return repr(item)[:160]
