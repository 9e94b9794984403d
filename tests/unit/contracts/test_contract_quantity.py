"""Numbers with units: exact, canonical, and strict about how they are written."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from contract_documents import BOUNDS, DECIMALS, STEADY
from hypothesis import given
from hypothesis import strategies as st

from finality.core.quantity import (
    COMPARATORS,
    MAX_DURATION,
    UNITS,
    format_duration,
    format_number,
    parse_bound,
    parse_duration,
    parse_number,
)

FACTORS = {
    "ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600), "d": Fraction(86400),
    "B": Fraction(1), "KiB": Fraction(1024), "MiB": Fraction(1024**2), "GiB": Fraction(1024**3),
    "": Fraction(1), "%": Fraction(1), "req/s": Fraction(1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (">= 1200 req/s", ">= 1200 req/s"),
        ("≥ 0.92", ">= 0.92"),
        ("≥0.9200", ">= 0.92"),
        ("≤ 800 ms", "<= 800 ms"),
        ("<=4GiB", "<= 4 GiB"),
        ("≠ -0.0 %", "!= 0 %"),
        ("== 007", "== 7"),
        ("< 1 d", "< 1 d"),
        ("> 0.10", "> 0.1"),
    ],
)
def test_a_bound_has_one_canonical_text(written: str, canonical: str) -> None:
    assert parse_bound(written).text == canonical
    assert parse_bound(canonical).text == canonical


@pytest.mark.parametrize(
    "written",
    ["", "0.92", "=> 3", "= 3", ">> 3", ">=", ">= x", ">= 1e3", ">= 1,5", ">= .5", ">= 5.", ">= 1 kb", ">= 1 REQ/S",
     ">= 1 2", ">= 1 s s", ">= +1", "≥≥ 1", ">= " + "1" * 41, ">= 1" + " " * 90 + "s", ">= ١", ">= nan", ">= 1\n"],
)  # fmt: skip
def test_what_is_no_bound_is_refused_with_advice(written: str) -> None:
    with pytest.raises(ValueError, match=r"; |at most"):
        parse_bound(written)


def test_a_unit_in_other_case_is_recognised_and_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'GiB'"):
        parse_bound("<= 4 gib")


@pytest.mark.parametrize(
    ("bound", "metric", "holds"),
    [
        ("<= 800 ms", "0.8", True),
        ("<= 800 ms", "0.800000000000000000000000000000000001", False),
        ("<= 4 GiB", "4294967296", True),
        ("<= 4 GiB", "4294967297", False),
        ("== 0.3", "0.30", True),
        ("!= 0.3", "0.30", False),
        (">= 0.92", "0.9199999999999999999999999999999999999", False),
        ("> 1200 req/s", "1200", False),
    ],
)
def test_a_metric_is_taken_in_the_base_unit_of_its_bound(bound: str, metric: str, holds: bool) -> None:
    assert parse_bound(bound).holds(parse_number(metric)) is holds


@STEADY
@given(BOUNDS, DECIMALS)
def test_a_comparison_is_that_of_exact_fractions(text: str, metric: str) -> None:
    bound = parse_bound(text)
    comparator, number, *unit = bound.text.split(" ")
    limit = Fraction(number) * FACTORS[unit[0] if unit else ""]
    assert bound.holds(parse_number(metric)) == COMPARATORS[comparator](Fraction(metric), limit)
    assert parse_bound(bound.text).text == bound.text


@STEADY
@given(st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,18})?", fullmatch=True))
def test_a_number_keeps_its_value_and_loses_only_what_says_nothing(text: str) -> None:
    shown = format_number(parse_number(text))
    assert Decimal(shown) == Decimal(text)
    assert shown != "-0"
    assert "e" not in shown.lower()
    assert not (("." in shown) and shown.endswith("0"))
    assert format_number(parse_number(shown)) == shown


@STEADY
@given(st.integers(-MAX_DURATION, MAX_DURATION))
def test_a_duration_survives_its_text(nanoseconds: int) -> None:
    text = format_duration(nanoseconds)
    assert nanoseconds == (-parse_duration(text[1:]) if text.startswith("-") else parse_duration(text))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("90s", "1m30s"), ("3600s", "1h"), ("1h30m", "1h30m"), ("1500ms", "1s500ms"), ("24h", "1d")],
)
def test_a_duration_has_one_canonical_text(written: str, canonical: str) -> None:
    assert format_duration(parse_duration(written)) == canonical


@pytest.mark.parametrize(
    "written",
    ["", "30", "1.5h", "1m1h", "1h1h", "-1s", " 1s", "1s ", "1 s", "s", "1w", "1H", "5000d", "9" * 30 + "s", "١s"],
)
def test_what_is_no_duration_is_refused_with_advice(written: str) -> None:
    with pytest.raises(ValueError, match="; "):
        parse_duration(written)


def test_every_unit_belongs_to_a_base_that_is_a_unit_itself() -> None:
    for base, factor, _ in UNITS.values():
        assert UNITS[base] == (base, 1, 0)
        assert factor > 0
