"""Foreign times to nanoseconds since the Unix epoch, UTC, as decimal text, with how exact they are.

A time is either certain or unknown: ("", "none"). Unknown are: texts that are no ISO 8601 date and time, times without
a zone where the settings name none, local times that happen twice or never (the hour of a clock change), and anything
before 1970 or after 2262 (Go's zero time is year 1). The machine's own zone is never asked.

Source: ISO 8601-1:2019 extended format with the date and the time of day to seconds, RFC 3339 section 5.6.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from finality.core.errors import UsageError
from finality.core.event import MAX_TIME

__all__ = ["UNKNOWN_TIME", "epoch", "iso", "zone_of"]

UNKNOWN_TIME = ("", "none")

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    r"(?:([Zz])|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_PRECISIONS = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")  # by fraction digits
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def zone_of(name: str) -> tzinfo | None:
    """The zone of a setting, None for "". Raises `UsageError` for a name that the zone database does not have."""
    if not name:
        return None
    if name in ("UTC", "Etc/UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"zone {name!r}: not in the time zone database; use a name like Europe/Berlin") from None


def iso(text: str, zone: tzinfo | None = None) -> tuple[str, str]:
    """(nanoseconds, precision) of an ISO 8601 time with 0 to 9 fraction digits; `UNKNOWN_TIME` where it is not certain.

    zone: for times without one. A leap second (:59:60) is the first second after it, as in POSIX.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return UNKNOWN_TIME
    year, month, day, hour, minute, second, fraction, utc, sign, off_hour, off_minute = match.groups()
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours > 23 or minutes > 59 or seconds > (60 if minutes == 59 else 59):
        return UNKNOWN_TIME
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return UNKNOWN_TIME
    whole = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if sign:
        shift = int(off_hour) * 3600 + int(off_minute or 0) * 60
        if shift > 86399 or int(off_minute or 0) > 59:
            return UNKNOWN_TIME
        whole += shift if sign == "-" else -shift
    elif not utc:
        offset = _offset(whole, zone)
        if offset is None:
            return UNKNOWN_TIME
        whole -= offset
    digits = fraction or ""
    stamp = whole * 10**9 + int(digits.ljust(9, "0"))
    if not 0 <= stamp <= MAX_TIME:
        return UNKNOWN_TIME
    return str(stamp), _PRECISIONS[len(digits)]


def _offset(local: int, zone: tzinfo | None) -> int | None:
    """Seconds east of UTC at a local time; None where there is no zone, or two or no such times."""
    if zone is None or not 0 <= local < 253_402_300_800:
        return None
    naive = datetime(1970, 1, 1) + timedelta(seconds=local)
    first = naive.replace(tzinfo=zone).utcoffset()
    second = naive.replace(tzinfo=zone, fold=1).utcoffset()
    if first is None or first != second:
        return None
    return int(first.total_seconds())


def epoch(value: int, unit: str) -> tuple[str, str]:
    """(nanoseconds, precision) of a count of `unit` (s, ms, us, ns) since 1970. Zero means unset, hence unknown."""
    stamp = value * _UNITS[unit]
    if not 0 < stamp <= MAX_TIME:
        return UNKNOWN_TIME
    return str(stamp), unit
