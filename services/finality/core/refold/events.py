"""Events, read by hand into plain dicts; what is no event is refused with a code.

Missing fields are filled in with what "missing" means. Times become numbers, None = unknown.
"""

from __future__ import annotations

import re
from typing import Any

from finality.core.refold.reading import (
    BadJson,
    document_of,
    is_text,
    is_truth,
    is_whole,
    list_of,
    map_of,
    maybe,
    shaped,
)
from finality.core.refold.writing import canonical

__all__ = ["ENDED", "UNKNOWN_TIME", "Refused", "contents_of", "is_job_key", "is_long", "key_of_order", "read_event"]

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "INCONCLUSIVE", "CONTINUED")
STEPS = ("", "UNKNOWN", "PENDING", "RUNNING", "PAUSED", "RETRYING", "CANCELLING")  # the later one wins
UNKNOWN_TIME = -(2**63)  # only where times are ordered

_FIELDS: dict[str, Any] = {
    "answers": maybe(lambda value: shaped(value, {"command": is_text, "ok": is_truth}, None)),
    "at": is_text,
    "attempt": is_whole,
    "conditions": map_of(is_truth),
    "created": is_text,
    "deleted": is_truth,
    "end": is_text,
    "holder": is_text,
    "job": is_text,
    "labels": map_of(is_text),
    "lease": maybe(lambda value: shaped(value, {"holder": is_text, "op": is_text}, None)),
    "max_attempts": is_whole,
    "metrics": map_of(is_text),
    "name": is_text,
    "parent": is_text,
    "parts": list_of(is_text),
    "phase": is_text,
    "precision": is_text,
    "reason": is_text,
    "revision": is_text,
    "revision_epoch": is_text,
    "root": is_text,
    "snapshot": is_truth,
    "start": is_text,
    "word": is_text,
}
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(_FIELDS, ""),
    "answers": None,
    "attempt": 0,
    "conditions": {},
    "deleted": False,
    "labels": {},
    "lease": None,
    "max_attempts": 0,
    "metrics": {},
    "parts": [],
    "snapshot": False,
}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_REASON = re.compile(r"[A-Z0-9_]{0,64}")
_KEY = re.compile(r"[ -.0-~]+(/[ -.0-~]+){4}")


class Refused(ValueError):
    """The event does not count; the message is the code."""


def is_long(text: str) -> bool:
    """A whole number of 64 bits in its one decimal form."""
    return _WHOLE.fullmatch(text) is not None and abs(int(text)) < 2**63


def is_job_key(text: str) -> bool:
    """Five parts of printable ASCII, at most 512 characters."""
    return len(text) <= 512 and _KEY.fullmatch(text) is not None


def read_event(value: bytes) -> dict[str, Any]:
    """All fields of an event. Raises `Refused`."""
    if len(value) > 65_536:
        raise Refused("EVENT_TOO_LARGE")
    try:
        event = {**_EMPTY, **shaped(document_of(value), {}, _FIELDS)}
    except BadJson:
        raise Refused("BAD_EVENT") from None
    sound = (
        is_job_key(event["job"])
        and all(not event[name] or is_job_key(event[name]) for name in ("parent", "root"))
        and (event["phase"] in STEPS or event["phase"] in ENDED)
        and all(not event[name] or is_long(event[name]) for name in ("at", "start", "end", "created", "revision"))
        and (not event["revision_epoch"] or (is_long(event["revision_epoch"]) and len(event["revision_epoch"]) <= 15))
        and all(0 <= event[name] <= 1_000_000 for name in ("attempt", "max_attempts"))
        and _REASON.fullmatch(event["reason"])
        and len(event["word"]) <= 256
        and all(len(text) <= 40 and _DECIMAL.fullmatch(text) for text in event["metrics"].values())
        and (event["lease"] is None or event["lease"]["op"] in ("grant", "keep", "release"))
    )
    if not sound:
        raise Refused("BAD_EVENT")
    return event


def contents_of(event: dict[str, Any]) -> str:
    """The event as canonical text, without what is missing."""
    return canonical({name: item for name, item in event.items() if item != _EMPTY[name]}).decode()


def time_of(text: str) -> int | None:
    """A time of an event, None = unknown."""
    return int(text) if text else None


def step_of(phase: str) -> int:
    """How late in a life a phase is; all endings are equally late."""
    return 9 if phase in ENDED else STEPS.index(phase)


def key_of_order(event: dict[str, Any]) -> tuple[int, int, int]:
    """Where an event stands among all events of its job."""
    at = int(event["at"]) if event["at"] else UNKNOWN_TIME
    if event["phase"] == "UNKNOWN":
        return (-1, event["attempt"], at)
    if event["revision"]:
        return (1, int(event["revision_epoch"] or 0), int(event["revision"]))
    return (0, event["attempt"], 16 * at + step_of(event["phase"]))
