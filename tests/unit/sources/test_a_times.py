"""Times are certain or unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finality.core.errors import UsageError
from finality.sources.times import UNKNOWN_TIME, epoch, iso, zone_of
from support.fuzz import FUZZ

needs_zones = pytest.mark.skipif(
    "Europe/Berlin" not in available_timezones(), reason="this machine has no time zone database (package tzdata)"
)


@pytest.mark.parametrize(
    ("text", "stamp", "precision"),
    [
        ("1970-01-01T00:00:00Z", "0", "s"),
        ("2024-11-26T13:05:23.809955+00:00", "1732626323809955000", "us"),
        ("2020-12-28T19:52:00.001+10:00", "1609149120001000000", "ms"),
        ("2020-12-28T19:52:00.1-0330", "1609197720100000000", "ms"),
        ("2020-07-30T00:30:02.971655189Z", "1596069002971655189", "ns"),
        ("2020-07-30 00:30:02,5+02", "1596061802500000000", "ms"),
        ("2016-12-31T23:59:60Z", "1483228800000000000", "s"),
        ("2262-04-11T23:47:16.854775807Z", str(2**63 - 1), "ns"),
    ],
)
def test_a_time_with_a_zone_is_exact(text: str, stamp: str, precision: str) -> None:
    assert iso(text) == (stamp, precision)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "{{RUN_START_TIME}}",
        "2021-11-03",
        "2021-11-03T10:53",
        "2021-11-03T10:53:52.427343",
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2262-04-11T23:47:16.854775808Z",
        "2021-02-29T00:00:00Z",
        "2021-13-01T00:00:00Z",
        "2021-01-01T24:00:00Z",
        "2021-01-01T00:60:00Z",
        "2021-01-01T00:00:60Z",
        "2021-01-01T00:00:00+24:00",
        "2021-01-01T00:00:00.1234567890Z",
        "٢٠٢١-01-01T00:00:00Z",
        " 2021-01-01T00:00:00Z",
        "2021-01-01T00:00:00Z\n",
    ],
)
def test_what_is_not_certain_is_unknown(text: str) -> None:
    assert iso(text) == UNKNOWN_TIME


@needs_zones
def test_a_zone_of_the_settings_is_for_times_without_one_only() -> None:
    berlin = zone_of("Europe/Berlin")
    assert iso("2024-06-01T00:00:00", berlin) == ("1717192800000000000", "s")
    assert iso("2024-06-01T00:00:00Z", berlin) == ("1717200000000000000", "s")


@needs_zones
def test_a_local_time_that_happens_twice_or_never_is_unknown() -> None:
    berlin = zone_of("Europe/Berlin")
    assert iso("2024-10-27T02:30:00", berlin) == UNKNOWN_TIME
    assert iso("2024-03-31T02:30:00", berlin) == UNKNOWN_TIME
    assert iso("2024-10-27T03:00:00", berlin) != UNKNOWN_TIME


@pytest.mark.parametrize("name", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "\x00", "x" * 5000])
def test_a_zone_that_does_not_exist_is_a_wrong_setting(name: str) -> None:
    with pytest.raises(UsageError, match="time zone database"):
        zone_of(name)


def test_no_zone_is_no_zone() -> None:
    assert zone_of("") is None
    assert iso("2024-06-01T00:00:00", zone_of("UTC")) == ("1717200000000000000", "s")


@FUZZ
@given(st.datetimes(datetime(1970, 1, 2), datetime(2262, 1, 1)), st.integers(-1439, 1439))
def test_any_time_in_any_zone_is_read_as_python_reads_it(moment: datetime, minutes: int) -> None:
    local = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    since = local - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    assert iso(local.isoformat(timespec="microseconds"))[0] == (str(expected) if expected >= 0 else "")


@FUZZ
@given(st.text(max_size=40))
def test_no_text_raises(text: str) -> None:
    stamp, precision = iso(text)
    assert (stamp == "") == (precision == "none")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1, "s", ("1000000000", "s")),
        (1, "ms", ("1000000", "ms")),
        (7, "us", ("7000", "us")),
        (7, "ns", ("7", "ns")),
        (0, "s", UNKNOWN_TIME),
        (-1, "s", UNKNOWN_TIME),
        (2**63, "ns", UNKNOWN_TIME),
        (10**40, "s", UNKNOWN_TIME),
    ],
)
def test_counts_since_1970(value: int, unit: str, expected: tuple[str, str]) -> None:
    assert epoch(value, unit) == expected
