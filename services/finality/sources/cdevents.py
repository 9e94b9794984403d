"""CDEvents: pipeline runs, task runs, builds and test runs, as their own JSON or as the data of a CloudEvent.

The type is `dev.cdevents.SUBJECT.PREDICATE.VERSION`. queued is PENDING, started is RUNNING, finished ends the subject
as its outcome says. An event of another subject (artifact, service, incident, …) gives nothing: it is no job.

| finished, outcome | becomes | | predicate | becomes |
| --- | --- | --- | --- | --- |
| success, pass | SUCCEEDED | | queued | PENDING, created |
| failure, fail | FAILED | | started | RUNNING, start |
| error | FAILED, reason ERROR | | skipped | SKIPPED |
| cancel, canceled, cancelled | CANCELLED | | | |
| none given | INCONCLUSIVE | | any other outcome | UNKNOWN |

Older revisions capitalise the subject's name and call the outcome `status`; both are read. A subject's id is unique
within its source only, so the id of a job is `source#subject id`.

Codes: those of `payload`, NOT_CDEVENT (no such type), NO_ID (no subject id or no source), KEY_TOO_LONG, KEY_NOT_TEXT.

Source: cdevents/spec 0.3 to 0.5, core.md, continuous-integration.md, testing-events.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.sources.base import NOTHING, Headers, Keys, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, json_object, object_at, read_json, text_at
from finality.sources.times import iso, zone_of

__all__ = ["PREFIX", "CDEvents"]

PREFIX = "dev.cdevents."
_SUBJECTS = frozenset(("pipelinerun", "taskrun", "build", "testcaserun", "testsuiterun"))
_PREDICATES = {"queued": "PENDING", "started": "RUNNING", "skipped": "SKIPPED", "finished": ""}
# By outcome: phase, reason.
_OUTCOMES = {
    "": ("INCONCLUSIVE", ""),
    "success": ("SUCCEEDED", ""),
    "pass": ("SUCCEEDED", ""),
    "failure": ("FAILED", ""),
    "fail": ("FAILED", ""),
    "error": ("FAILED", "ERROR"),
    "cancel": ("CANCELLED", ""),
    "canceled": ("CANCELLED", ""),
    "cancelled": ("CANCELLED", ""),
}


class CDEvents:
    """CDEvents documents."""

    name = "cdevents"
    takes = "CDEvents JSON: pipelinerun, taskrun, build, testcaserun, testsuiterun"
    order = "context.timestamp, then the step of life; attempts are told apart by started times"
    identity = "the subject's name as kind, source#subject id as id"

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` for an unknown zone."""
        self._keys = Keys(settings, self.name, tuple(sorted(_SUBJECTS)))
        self._zone = zone_of(settings.zone)

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """An object with a context and a type of CDEvents."""
        return b'"context"' in value and b'"dev.cdevents.' in value.lower()

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The event of one document. Raises `Rejected`."""
        return self.of(json_object(value))

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines, an array, or one document."""
        return read_json(path)

    def of(self, document: dict[str, Any]) -> Mapped:
        """The event of a parsed document. Raises `Rejected`."""
        context, subject = object_at(document, "context"), object_at(document, "subject")
        kind = text_at(context, "type").lower()
        words = kind.removeprefix(PREFIX).split(".")
        if not kind.startswith(PREFIX) or len(words) < 2:
            raise Rejected("NOT_CDEVENT", f"context.type {clip(kind, 80)!r}")
        name, predicate = words[0], words[1]
        if name not in _SUBJECTS:
            return NOTHING
        if predicate not in _PREDICATES:
            return Mapped((), (clip(f"{name}.{predicate}", 80),))
        content = object_at(subject, "content")
        outcome = text_at(content, "outcome") or text_at(content, "status")
        phase, reason, word = _PREDICATES[predicate], "", predicate
        unknown: tuple[str, ...] = ()
        if predicate == "finished":
            phase, reason = _OUTCOMES.get(outcome.lower(), ("UNKNOWN", ""))
            word = f"finished {clip(outcome, 64)}".rstrip()
            unknown = (f"outcome {clip(outcome, 64)}",) if phase == "UNKNOWN" else ()
        at, precision = iso(text_at(context, "timestamp"), self._zone)
        source = text_at(subject, "source") or text_at(context, "source")
        event = Event(
            at=at,
            created=at if predicate == "queued" else "",
            job=self._key(name, source, text_at(subject, "id")),
            labels={"source": clip(source, 128)},
            name=clip(_name(content)),
            parent=self._parent(name, source, content),
            phase=phase,
            precision=precision,
            reason=reason,
            start=at if predicate == "started" else "",
            word=word,
        )
        return Mapped((event,), unknown)

    def _key(self, kind: str, source: str, ident: str) -> str:
        if not source or not ident:
            raise Rejected("NO_ID", "subject.id or a source is missing")
        return self._keys.of(kind, f"{source}#{ident}")

    def _parent(self, name: str, source: str, content: dict[str, Any]) -> str:
        """Key of the pipeline run (of a task) or the test suite run (of a test case) that this one is part of."""
        field, kind = {
            "taskrun": ("pipelinerun", "pipelinerun"),
            "testcaserun": ("testsuiterun", "testsuiterun"),
        }.get(name, ("", ""))
        for written, inner in content.items():
            if field and written.lower() == field and type(inner) is dict and text_at(inner, "id"):
                return self._key(kind, text_at(inner, "source") or source, text_at(inner, "id"))
        return ""


def _name(content: dict[str, Any]) -> str:
    """The name of what runs, under whichever field the subject has it."""
    return (
        text_at(content, "pipelineName")
        or text_at(content, "taskName")
        or text_at(content, "testCase", "name")
        or text_at(content, "testSuite", "name")
    )
