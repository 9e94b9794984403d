"""Our own events as they are: for programs that report to Finality themselves.

The record is the JSON of `finality.core.event.Event`. It is taken as it stands, after checks that the fold relies on:
a well-formed job key, a phase that exists, times and revisions in canonical decimal text.

Codes: those of `payload`, KEY_MALFORMED, and BAD_FIELD for any field of another type, name or range than `Event` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from finality.core.errors import Rejected
from finality.core.event import MAX_TIME, PHASES, Event, Precision
from finality.core.jobkey import parse_job_key
from finality.sources.base import Headers, Mapped, Reading, SourceSettings
from finality.sources.payload import json_object, read_json

__all__ = ["Canonical"]

_KEY = re.compile(rb'"job"\s*:\s*"[^"/\\]+/[^"/\\]+/[^"/\\]+/[^"/\\]+/[^"/\\]+"')
_WHOLE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,18})?", re.ASCII)
_PHASES = frozenset(("", *PHASES))
_PRECISIONS = frozenset(("", *(word.value for word in Precision)))
_MOST = 256  # entries in any map or list of one event
_LONGEST = 1024  # characters in any free text


class Canonical:
    """Events in our own JSON form."""

    name = "canonical"
    takes = "Finality's own event JSON (schemas: event), one document a record"
    order = "revision where given, else attempt, time and phase"
    identity = "the field job: tenant/source/instance/kind/id"

    def __init__(self, settings: SourceSettings) -> None:
        """The settings do not matter: a canonical event carries its whole key."""

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """A JSON object with a five-part job key."""
        return value.lstrip()[:1] == b"{" and _KEY.search(value, 0, 65536) is not None

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The event itself. Raises `Rejected`."""
        return self.of(json_object(value))

    def of(self, document: dict[str, Any]) -> Mapped:
        """The event in a parsed document. Raises `Rejected`."""
        try:
            event = msgspec.convert(document, Event)
        except msgspec.ValidationError as error:
            raise Rejected("BAD_FIELD", str(error)[:200]) from None
        check(event)
        return Mapped((event,))

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines or an array."""
        return read_json(path)


def check(event: Event) -> None:
    """Raise `Rejected` (BAD_FIELD, KEY_MALFORMED) where an event breaks a rule that its types cannot say."""
    parse_job_key(event.job)
    for key in (event.parent, event.root):
        if key:
            parse_job_key(key)
    if event.phase not in _PHASES:
        raise Rejected("BAD_FIELD", f"phase {event.phase[:40]!r} does not exist")
    if event.precision not in _PRECISIONS:
        raise Rejected("BAD_FIELD", f"precision {event.precision[:40]!r} does not exist")
    if not (0 <= event.attempt < 2**31 and 0 <= event.max_attempts < 2**31):
        raise Rejected("BAD_FIELD", "attempt and max_attempts are from 0 to 2^31-1")
    for name in ("at", "created", "start", "end", "revision", "revision_epoch"):
        text: str = getattr(event, name)
        if text and not (_WHOLE.fullmatch(text) and int(text) <= MAX_TIME):
            raise Rejected("BAD_FIELD", f"{name} must be decimal text from 0 to 2^63-1")
    for box in (event.conditions, event.labels, event.metrics, event.parts):
        if len(box) > _MOST or any(len(word) > _LONGEST for word in box):
            raise Rejected("BAD_FIELD", f"at most {_MOST} entries of {_LONGEST} characters each")
    for metric, number in event.metrics.items():
        if not _DECIMAL.fullmatch(number):
            raise Rejected("BAD_FIELD", f"metric {metric[:40]!r} must be decimal text")
    for text in (event.name, event.reason, event.word, event.holder, *event.labels.values()):
        if len(text) > _LONGEST:
            raise Rejected("BAD_FIELD", f"a text is over {_LONGEST} characters")
