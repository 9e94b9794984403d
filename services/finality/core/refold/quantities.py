"""Durations, numbers and bounds with the standard library's fractions."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Bound", "duration", "read_bound", "short_number", "short_time"]

TEN_YEARS = 3650 * 86_400 * 10**9
SIZES = {"d": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DURATION = re.compile("".join([f"(?:([0-9]{{1,19}}){unit}(?![a-z]))?" for unit in SIZES]))
_BOUND = re.compile(r" *(<=?|>=?|==|!=|≤|≥|≠) *(-?[0-9]+(?:\.[0-9]+)?) *([A-Za-z%/]*) *")
_SIGNS = {"≤": "<=", "≥": ">=", "≠": "!="}
_FACTORS = {
    "": ("", Fraction(1)),
    "%": ("%", Fraction(1)),
    "req/s": ("req/s", Fraction(1)),
    "B": ("B", Fraction(1)),
    "KiB": ("B", Fraction(2**10)),
    "MiB": ("B", Fraction(2**20)),
    "GiB": ("B", Fraction(2**30)),
    "ms": ("s", Fraction(1, 1000)),
    "s": ("s", Fraction(1)),
    "m": ("s", Fraction(60)),
    "h": ("s", Fraction(3600)),
    "d": ("s", Fraction(86_400)),
}


def duration(text: str) -> int:
    """Nanoseconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("no duration")
    total = sum([int(count) * size for count, size in zip(match.groups(), SIZES.values(), strict=True) if count])
    if total > TEN_YEARS:
        raise ValueError("longer than ten years")
    return total


def short_time(nanoseconds: int) -> str:
    """The one text of a duration."""
    if not nanoseconds:
        return "0s"
    rest = abs(nanoseconds)
    text = ""
    for unit, size in SIZES.items():
        if rest >= size:
            text += f"{rest // size}{unit}"
            rest %= size
    return ("-" if nanoseconds < 0 else "") + text


def short_number(text: str) -> str:
    """The one text of a plain decimal."""
    sign = "-" if text.startswith("-") else ""
    whole, _, fraction = text.removeprefix("-").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    if whole == "0" and not fraction:
        sign = ""
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


class Bound(NamedTuple):
    """A comparator and a limit in the base unit. text: how both are written."""

    sign: str
    limit: Fraction
    base: str
    text: str

    def holds(self, measured: str) -> bool:
        """A decimal in the base unit is within the bound."""
        value = Fraction(measured)
        return {
            "<": value < self.limit,
            "<=": value <= self.limit,
            ">": value > self.limit,
            ">=": value >= self.limit,
            "==": value == self.limit,
            "!=": value != self.limit,
        }[self.sign]

    def show(self, measured: str) -> str:
        """The measured number with the base unit."""
        return f"{short_number(measured)} {self.base}".rstrip()


def read_bound(text: str) -> Bound:
    """A bound. Raises ValueError."""
    match = _BOUND.fullmatch(text)
    if match is None or len(match[2]) > 40 or match[3] not in _FACTORS:
        raise ValueError("no bound")
    sign = _SIGNS.get(match[1], match[1])
    base, factor = _FACTORS[match[3]]
    written = f"{sign} {short_number(match[2])} {match[3]}".rstrip()
    return Bound(sign, Fraction(match[2]) * factor, base, written)
