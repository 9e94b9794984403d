"""Numbers with units, exactly.

Bounds are written by people (`>= 1200 req/s`, `≤ 800 ms`), measurements come as plain decimal texts. Both become
scaled integers (digits, places), so that a comparison is exact and the same everywhere: no floats, no rounding mode.

A metric carries no unit of its own: it is taken in the *base unit* of the bound it is compared with, which is s for
times, B for sizes, req/s for rates, % for percentages, and nothing for plain numbers. So `"<= 800 ms"` is met by the
metric `0.8`, and `"<= 4 GiB"` by `4294967296`.

Texts are canonical, since they are hashed: a number has no exponent, no superfluous zero and no plus sign; a bound is
`<comparator> <number>[ <unit>]` with the ASCII comparator; a duration is its non-zero units from d to ns (`1h30m`), or
`0s`.

Leaves out: arithmetic on units, decimal multiples in SI (kB), fractions of a duration (`1.5h` is refused).
"""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

__all__ = [
    "COMPARATORS",
    "MAX_DURATION",
    "UNITS",
    "Bound",
    "Number",
    "format_duration",
    "format_number",
    "parse_bound",
    "parse_duration",
    "parse_number",
]

MAX_DURATION = 3650 * 86_400 * 10**9  # ns; ten years, far below 2^63
MAX_DIGITS = 40  # characters of a number

COMPARATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_ASCII = {"≤": "<=", "≥": ">=", "≠": "!="}

# unit -> (base unit, factor, decimal places of the factor)
UNITS: dict[str, tuple[str, int, int]] = {
    "": ("", 1, 0),
    "%": ("%", 1, 0),
    "req/s": ("req/s", 1, 0),
    "B": ("B", 1, 0),
    "KiB": ("B", 2**10, 0),
    "MiB": ("B", 2**20, 0),
    "GiB": ("B", 2**30, 0),
    "ms": ("s", 1, 3),
    "s": ("s", 1, 0),
    "m": ("s", 60, 0),
    "h": ("s", 3600, 0),
    "d": ("s", 86_400, 0),
}

_DURATION_UNITS = {
    "d": 86_400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_BOUND = re.compile(r"([<>=!≤≥≠]+) *(-?[0-9]+(?:\.[0-9]+)?) *([A-Za-z%/]*)")
_STEP = re.compile(r"([0-9]{1,19})([a-z]+)")


class Number(NamedTuple):
    """digits / 10^places."""

    digits: int
    places: int


def parse_number(text: str) -> Number:
    """A plain decimal. Raises ValueError for anything else (exponents, signs other than -, 41 characters)."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:MAX_DIGITS]!r} is not a plain decimal number of at most {MAX_DIGITS} characters")
    whole, _, fraction = text.partition(".")
    return Number(int(whole + fraction), len(fraction))


def format_number(number: Number) -> str:
    """Canonical text: no exponent, no trailing zeros, no negative zero."""
    digits, places = number
    while places > 0 and digits % 10 == 0:
        digits //= 10
        places -= 1
    text = str(abs(digits)).rjust(places + 1, "0")
    if places:
        text = f"{text[:-places]}.{text[-places:]}"
    return "-" + text if digits < 0 else text


class Bound(NamedTuple):
    """A comparator, a limit in the base unit, and how both are written."""

    comparator: str
    limit: Number  # in `base`
    base: str
    text: str  # canonical

    def holds(self, measured: Number) -> bool:
        """True when a number in the base unit is within the bound."""
        left = measured.digits * 10**self.limit.places
        right = self.limit.digits * 10**measured.places
        return bool(COMPARATORS[self.comparator](left, right))

    def show(self, measured: Number) -> str:
        """Canonical text of a number in the base unit, with that unit."""
        text = format_number(measured)
        return f"{text} {self.base}" if self.base else text


def parse_bound(text: str) -> Bound:
    """A bound such as `>= 1200 req/s`. Raises ValueError saying what is wrong and how it is written."""
    stripped = text.strip(" ")
    match = _BOUND.fullmatch(stripped) if len(stripped) <= 2 * MAX_DIGITS else None
    if match is None:
        raise ValueError("is no bound; write a comparator, a number and perhaps a unit, as in '>= 1200 req/s'")
    written, digits, unit = match.groups()
    comparator = _ASCII.get(written, written)
    if comparator not in COMPARATORS:
        raise ValueError(f"{written!r} is no comparator; use one of {' '.join([*COMPARATORS, *_ASCII])}")
    if unit not in UNITS:
        near = {name.lower(): name for name in UNITS if name}.get(unit.lower())
        hint = f"did you mean {near!r}?" if near else f"use one of {' '.join(filter(None, UNITS))}"
        raise ValueError(f"{unit!r} is no known unit; {hint}")
    number = parse_number(digits)
    base, factor, places = UNITS[unit]
    limit = Number(number.digits * factor, number.places + places)
    tail = f" {unit}" if unit else ""
    return Bound(comparator, limit, base, f"{comparator} {format_number(number)}{tail}")


def parse_duration(text: str) -> int:
    """Nanoseconds of `1h`, `1h30m`, `800ms`, `0s`: whole numbers, each unit at most once, from the largest down.

    Raises ValueError saying what is wrong and how it is written.
    """
    total, at, rank = 0, 0, -1
    order = list(_DURATION_UNITS)
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or step[2] not in _DURATION_UNITS:
            raise ValueError("is no duration; write whole numbers with d, h, m, s or ms, as in '1h30m' or '800ms'")
        place = order.index(step[2])
        if place <= rank:
            raise ValueError("is no duration; name each unit once, the largest first, as in '1h30m'")
        total += int(step[1]) * _DURATION_UNITS[step[2]]
        at, rank = step.end(), place
    if not text:
        raise ValueError("is empty; write a duration such as '30s'")
    if total > MAX_DURATION:
        raise ValueError("is longer than ten years; use at most 3650d")
    return total


def format_duration(nanoseconds: int) -> str:
    """Canonical text of a duration; a negative one (clocks that disagree) begins with a minus sign."""
    if nanoseconds == 0:
        return "0s"
    rest = abs(nanoseconds)
    text = "" if nanoseconds > 0 else "-"
    for unit, size in _DURATION_UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            text += f"{count}{unit}"
            if not rest:
                break
    return text
