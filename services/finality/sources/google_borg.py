"""Google Borg cluster traces of 2011 (clusterdata-2011-2): job events and task events, one CSV row a record.

Told apart by the number of columns: 8 = job event, 5 = job event reduced to time, missing-info, job id, code, class;
13 = task event. A job or task leaves the running state by codes 2 to 6 and comes back only by a later SUBMIT; so an
ending is never final by its word, and the fold's order (time, then step of life) does the rest.

Trace time is microseconds since 600 s before the trace begins; the calendar date was never published. Times here are
trace times as if that moment were 1970: right to compare and to subtract, no dates. Zero (before the trace) and 2^63-1
(after it) are unknown times.

| code | becomes | | code | becomes |
| --- | --- | --- | --- | --- |
| 0 SUBMIT | PENDING, created | | 5 KILL | CANCELLED |
| 1 SCHEDULE | RUNNING, start | | 6 LOST | INCONCLUSIVE, reason LOST |
| 2 EVICT | FAILED, reason EVICTED | | 7 UPDATE_PENDING | no phase |
| 3 FAIL | FAILED, reason ERROR | | 8 UPDATE_RUNNING | no phase |
| 4 FINISH | SUCCEEDED | | other | UNKNOWN |

The missing-info flag goes into the word, and into the reason where the code gives none: 0 INFERRED (from a snapshot),
1 DISAPPEARED (neither record nor snapshot), 2 UNSEEN (its creation was not seen).

Codes: BAD_ROW (columns, digits or encoding).

Source: google/cluster-data, ClusterData2011_2.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from finality.core.errors import Rejected, UsageError
from finality.core.event import MAX_TIME, Event
from finality.core.jobkey import MAX_KEY_BYTES
from finality.sources.base import Headers, Keys, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, read_lines

__all__ = ["GoogleBorg"]

# By code: word, phase, reason.
_CODES = {
    b"0": ("SUBMIT", "PENDING", ""),
    b"1": ("SCHEDULE", "RUNNING", ""),
    b"2": ("EVICT", "FAILED", "EVICTED"),
    b"3": ("FAIL", "FAILED", "ERROR"),
    b"4": ("FINISH", "SUCCEEDED", ""),
    b"5": ("KILL", "CANCELLED", ""),
    b"6": ("LOST", "INCONCLUSIVE", "LOST"),
    b"7": ("UPDATE_PENDING", "", ""),
    b"8": ("UPDATE_RUNNING", "", ""),
}
_MISSING = {b"0": "INFERRED", b"1": "DISAPPEARED", b"2": "UNSEEN"}
_ROW = re.compile(rb"[0-9]{1,19},[0-9]?,[0-9]{1,20},(?:[0-9]{1,2},[^,]*(?:(?:,[^,]*){3})?|[0-9]+(?:,[^,]*){9})")
_ID = re.compile(rb"0|[1-9][0-9]{0,19}")
_LONGEST = 4096  # bytes of a row


class GoogleBorg:
    """Job and task events of the 2011 traces."""

    name = "google-borg"
    takes = "CSV rows of clusterdata-2011-2: job events (8 columns, or 5), task events (13 columns)"
    order = "trace time, then the event's step of life; attempts are told apart by SCHEDULE times"
    identity = "job: job id; task: job id-task index"

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` where no key would fit. Digits need no encoding: a key is a fixed beginning and an id."""
        keys = Keys(settings, self.name, ("job", "task"))
        self._job = keys.of("job", "0")[:-1]
        self._task = keys.of("task", "0")[:-1]
        if len(self._task) + 41 > MAX_KEY_BYTES:
            raise UsageError(
                "source google-borg: tenant and instance together are too long for a job key; shorten them"
            )

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """Three whole numbers, a code or index, and as many columns as one of the tables has."""
        return len(value) <= _LONGEST and _ROW.fullmatch(value.rstrip(b"\r\n")) is not None

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """One event. Raises `Rejected` (BAD_ROW)."""
        if len(value) > _LONGEST:
            raise Rejected("BAD_ROW", f"{len(value)} bytes, at most {_LONGEST}")
        row = value.rstrip(b"\r\n").split(b",")
        parent = name = ""
        match len(row):
            case 5:
                time, missing, ident, code, rank = row
                job = self._job + _digits(ident)
            case 8:
                time, missing, ident, code, _, rank, label, _ = row
                job = self._job + _digits(ident)
                name = _text(label)
            case 13:
                time, missing, ident, index, _, code, _, rank, *_ = row
                parent = self._job + _digits(ident)
                job = f"{self._task}{_digits(ident)}-{_digits(index)}"
            case columns:
                raise Rejected("BAD_ROW", f"{columns} columns; 5, 8 or 13 are known")
        unknown: tuple[str, ...] = ()
        known = _CODES.get(code)
        if known is None:
            known = (f"code {_digits(code)}", "UNKNOWN", "")
            unknown = (known[0],)
        word, phase, reason = known
        if missing:
            flag = _MISSING.get(missing) or f"MISSING_{_digits(missing)}"
            word = f"{word} missing-info {_digits(missing)}"
            reason = reason or flag
        at = _time(time)
        event = Event(
            at=at,
            created=at if code == b"0" else "",
            job=job,
            labels={"class": _digits(rank)},
            name=name,
            parent=parent,
            phase=phase,
            precision="us" if at else "none",
            reason=reason,
            root=parent,
            start=at if code == b"1" else "",
            word=word,
        )
        return Mapped((event,), unknown)

    def read(self, path: Path) -> Iterator[Reading]:
        """The rows of a file, plain or .gz."""
        return read_lines(path)


def _digits(column: bytes) -> str:
    if not _ID.fullmatch(column):
        raise Rejected("BAD_ROW", f"{clip(repr(column), 40)} must be a whole number")
    return column.decode("ascii")


def _time(column: bytes) -> str:
    """Trace microseconds to nanoseconds; "" for the two marks that mean unknown."""
    micros = int(_digits(column))
    if micros in (0, MAX_TIME):
        return ""
    if micros * 1000 > MAX_TIME:
        raise Rejected("BAD_ROW", f"time {micros} is out of range")
    return str(micros * 1000)


def _text(column: bytes) -> str:
    try:
        return clip(column.decode())
    except UnicodeDecodeError:
        raise Rejected("BAD_ROW", "the job name is not UTF-8") from None
