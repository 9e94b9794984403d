"""Our own events as they are: for programs that report to Finality themselves.

The record is the JSON of `finality.core.event.Event`. It is taken as it stands, after the checks that the fold makes
too, so that a mistake becomes a dead letter here, and within the size of an input record.

Codes: those of `payload`, BAD_FIELD (a field of another name or type than `Event` has), BAD_EVENT (a value that it may
not have).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from finality.core.errors import Rejected
from finality.core.event import MAX_EVENT_BYTES, Event, Precision, check_event, encode_event
from finality.sources.base import Headers, Mapped, Reading, SourceSettings
from finality.sources.payload import json_object, read_json

__all__ = ["Canonical"]

_KEY = re.compile(rb'"job"\s*:\s*"[^"/\\]+/[^"/\\]+/[^"/\\]+/[^"/\\]+/[^"/\\]+"')
_PRECISIONS = frozenset(("", *(word.value for word in Precision)))
_MOST = 256  # entries in any map or list of one event


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
        check_event(event)
        _check_sizes(event)
        return Mapped((event,))

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines or an array."""
        return read_json(path)


def _check_sizes(event: Event) -> None:
    """Raise `Rejected` (BAD_EVENT, TOO_LARGE) where an event could not become an input record."""
    if event.precision not in _PRECISIONS:
        raise Rejected("BAD_EVENT", f"precision {event.precision[:40]!r} does not exist")
    for box in (event.conditions, event.labels, event.metrics, event.parts):
        if len(box) > _MOST:
            raise Rejected("BAD_EVENT", f"{len(box)} entries in a map or list, at most {_MOST}")
    for names in (event.conditions, event.labels, event.metrics):
        if not all(map(str.isascii, names)):
            raise Rejected("BAD_EVENT", "names of conditions, labels and metrics must be ASCII")
    if len(encode_event(event)) > MAX_EVENT_BYTES:
        raise Rejected("TOO_LARGE", f"the event is over {MAX_EVENT_BYTES} bytes")
