"""Temporal workflow histories, as the CLI, the web page and the SDK's replayer write them.

A history is a list of numbered events of one run. The number (`eventId`) is the only order: clocks of different servers
write the times, and they go back. So the number becomes the revision, and a history gives few events: that the run
started (1), each step that changes the run's state, and, where it is still open, its state as of the last number.
A longer copy of the same history therefore supersedes a shorter one, in any order of arrival.

Only an event of the *execution* ends a run. A failed or timed-out workflow task, activity, timer or child is an
episode: it is counted in the metrics and the run goes on. A cancel request is CANCELLING, and a run may complete all
the same. ContinuedAsNew, and a failure that the server retries in a new run, are CONTINUED.

A reset makes a history that begins as a copy of the old one and keeps its run id. Both are one job; the time of the
reset is the revision's epoch.

Event types come in two spellings, `WorkflowExecutionStarted` and `EVENT_TYPE_WORKFLOW_EXECUTION_STARTED`: both count.
Left out: activities and children as jobs of their own (a child run has its own history); payloads are never read.

Codes: those of `payload` and of job keys; NO_EVENTS (no list of events, or an empty one); NO_ID (the first event names
no run); NO_START (the events do not begin with event 1: a page in the middle of a history says no run id); BAD_FIELD.

Source: Temporal API, `temporal/api/history/v1/message.proto` and `enums/v1/event_type.proto`, as JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from finality.core.errors import Rejected
from finality.core.event import ENDED, MAX_TIME, Event
from finality.core.jobkey import job_key
from finality.sources.base import Headers, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, json_value, number_text, object_at, read_json, text_at
from finality.sources.times import iso

__all__ = ["Temporal"]

_STATES = {
    "WorkflowExecutionStarted": ("RUNNING", ""),
    "WorkflowExecutionCancelRequested": ("CANCELLING", "USER"),
    "WorkflowExecutionPaused": ("PAUSED", "USER"),
    "WorkflowExecutionUnpaused": ("RUNNING", ""),
    "WorkflowExecutionCompleted": ("SUCCEEDED", ""),
    "WorkflowExecutionFailed": ("FAILED", "ERROR"),
    "WorkflowExecutionTimedOut": ("FAILED", "TIMEOUT"),
    "WorkflowExecutionCanceled": ("CANCELLED", "USER"),
    "WorkflowExecutionTerminated": ("CANCELLED", "TERMINATED"),
    "WorkflowExecutionContinuedAsNew": ("CONTINUED", ""),
}
_METRICS = {
    "ActivityTaskScheduled": "activities_scheduled",
    "ActivityTaskCompleted": "activities_completed",
    "ActivityTaskFailed": "activities_failed",
    "ActivityTaskTimedOut": "activities_timed_out",
    "ActivityTaskCanceled": "activities_cancelled",
    "WorkflowTaskFailed": "workflow_tasks_failed",
    "WorkflowTaskTimedOut": "workflow_tasks_timed_out",
    "WorkflowExecutionCancelRequested": "cancel_requests",
}
_EPISODES = frozenset(
    [
        *("ActivityTask" + step for step in ("Started", "CancelRequested", "Paused", "Unpaused", "Reset")),
        *("ActivityTaskOptionsUpdated", "ActivityPropertiesModifiedExternally", "MarkerRecorded"),
        *("WorkflowTask" + step for step in ("Scheduled", "Started", "Completed")),
        *("Timer" + step for step in ("Started", "Fired", "Canceled")),
        *("WorkflowExecutionSignaled", "WorkflowExecutionOptionsUpdated", "WorkflowExecutionTimeSkippingTransitioned"),
        *("WorkflowExecutionUpdate" + step for step in ("Admitted", "Accepted", "Rejected", "Completed")),
        *("UpsertWorkflowSearchAttributes", "WorkflowPropertiesModified", "WorkflowPropertiesModifiedExternally"),
        *("StartChildWorkflowExecutionInitiated", "StartChildWorkflowExecutionFailed"),
        *(
            "ChildWorkflowExecution" + end
            for end in ("Started", "Completed", "Failed", "TimedOut", "Canceled", "Terminated")
        ),
        *("SignalExternalWorkflowExecutionInitiated", "SignalExternalWorkflowExecutionFailed"),
        *("ExternalWorkflowExecutionSignaled", "ExternalWorkflowExecutionCancelRequested"),
        *("RequestCancelExternalWorkflowExecutionInitiated", "RequestCancelExternalWorkflowExecutionFailed"),
        *("NexusOperation" + step for step in ("Scheduled", "Started", "Completed", "Failed", "Canceled", "TimedOut")),
        *("NexusOperationCancelRequest" + step for step in ("ed", "Completed", "Failed")),
    ]
)
_RESET_FIELD = "workflowTaskFailedEventAttributes"
_SHAPE = re.compile(rb'"eventType"\s*:\s*"(?:EVENT_TYPE_)?(?:WORKFLOW_EXECUTION_|WorkflowExecution)', re.ASCII)


class _Step(NamedTuple):
    number: int
    type: str
    box: dict[str, Any]


class Temporal:
    """Histories of workflow runs."""

    name = "temporal"
    takes = "Temporal workflow histories as JSON (`temporal workflow show --output json`), whole or from event 1 on"
    order = "eventId, as the revision (after a reset in a new epoch); times are not used, they go back"
    identity = "workflow: run id (originalExecutionRunId of event 1, which a reset keeps)"

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """A document with history events of a workflow execution."""
        return value.lstrip()[:1] in (b"{", b"[") and b'"eventId"' in value and _SHAPE.search(value) is not None

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The states of one run. Raises `Rejected`."""
        steps = _steps(json_value(value))
        first = steps[0]
        if first.number != 1 or first.type != "WorkflowExecutionStarted":
            raise Rejected("NO_START", "a history must begin with its event 1, WorkflowExecutionStarted")
        unknown = sorted({step.type for step in steps if not _known(step.type)})
        base = self._about(first) | _reset(steps)
        events = [_state_event(base, step) for step in steps if step.type in _STATES]
        latest, last = events[-1], steps[-1]
        if latest.phase not in ENDED and str(last.number) != latest.revision:
            at, precision = iso(text_at(last.box, "eventTime"))
            events.append(replace(latest, revision=str(last.number), at=at, precision=precision))
        events[-1] = replace(events[-1], metrics=_metrics(steps), snapshot=True)
        return Mapped(tuple(events), tuple(f"event:{clip(word, 64)}" for word in unknown[:16]))

    def read(self, path: Path) -> Iterator[Reading]:
        """One history a line, an array of histories, or one history over many lines."""
        return read_json(path)

    def _about(self, first: _Step) -> dict[str, Any]:
        """What event 1 says of the run: fields of every event of it."""
        started = object_at(first.box, "workflowExecutionStartedEventAttributes")
        run = text_at(started, "originalExecutionRunId")
        if not run:
            raise Rejected("NO_ID", "event 1 has no originalExecutionRunId; export the history again")
        time, _ = iso(text_at(first.box, "eventTime"))
        attempt = started.get("attempt")
        limit = object_at(started, "retryPolicy").get("maximumAttempts")
        labels = {
            "workflow_id": text_at(started, "workflowId"),
            "task_queue": text_at(started, "taskQueue", "name"),
            "continued_from": text_at(started, "continuedExecutionRunId"),
            "first_run": text_at(started, "firstExecutionRunId"),
        }
        return {
            "job": self._key(run),
            "attempt": attempt if type(attempt) is int and 0 < attempt <= 10**6 else 0,
            "max_attempts": limit if type(limit) is int and 0 < limit <= 10**6 else 0,
            "created": time,
            "start": time,
            "name": clip(text_at(started, "workflowType", "name")),
            "labels": {name: clip(text, 256) for name, text in labels.items() if text},
            "parent": self._optional_key(text_at(started, "parentWorkflowExecution", "runId")),
            "root": self._optional_key(text_at(started, "rootWorkflowExecution", "runId")),
        }

    def _key(self, run: str) -> str:
        return job_key(self._settings.tenant, "temporal", self._settings.instance, "workflow", run)

    def _optional_key(self, run: str) -> str:
        return self._key(run) if run else ""


def _steps(document: Any) -> list[_Step]:
    """The history events by number. The document is a list of them, or holds it as events or history.events."""
    box: Any = document
    for name in ("history", "events"):
        if type(box) is dict and name in box:
            box = box[name]
    if type(box) is not list or not box:
        raise Rejected("NO_EVENTS", "the document has no list of history events")
    steps: dict[int, _Step] = {}
    for item in box:
        if type(item) is not dict:
            raise Rejected("BAD_FIELD", "a history event is no object")
        number, word = number_text(item.get("eventId")), text_at(item, "eventType")
        if not number or not 0 < int(number) <= MAX_TIME or not word:
            raise Rejected("BAD_FIELD", f"a history event needs eventId and eventType, not {number:.40} {word:.40}")
        step = _Step(int(number), _spelling(word), item)
        if steps.setdefault(step.number, step).box != item:
            raise Rejected("BAD_FIELD", f"eventId {step.number} is on two different events")
    return [steps[number] for number in sorted(steps)]


def _reset(steps: list[_Step]) -> dict[str, str]:
    """The epoch of a history that a reset made; nothing for any other.

    Its first events are those of the old run, event 1 with the old run's id included; then comes a failed workflow task
    that names the new run, and the numbers go on from there. The time of the last reset, in milliseconds, lets the
    newer history supersede an older one whatever their numbers.
    """
    resets = [
        step for step in steps if step.type == "WorkflowTaskFailed" and text_at(step.box, _RESET_FIELD, "newRunId")
    ]
    if not resets:
        return {}
    time, _ = iso(text_at(resets[-1].box, "eventTime"))
    return {"revision_epoch": str(int(time) // 10**6) if time else str(len(resets))}


def _spelling(word: str) -> str:
    """EVENT_TYPE_WORKFLOW_EXECUTION_STARTED as WorkflowExecutionStarted; other words as they are."""
    if not word.startswith("EVENT_TYPE_"):
        return word
    return "".join(part.capitalize() for part in word[len("EVENT_TYPE_") :].split("_"))


def _known(word: str) -> bool:
    return word in _STATES or word in _METRICS or word in _EPISODES


def _state_event(base: dict[str, Any], step: _Step) -> Event:
    phase, reason = _STATES[step.type]
    attributes = object_at(step.box, step.type[:1].lower() + step.type[1:] + "EventAttributes")
    if phase == "FAILED" and text_at(attributes, "newExecutionRunId") and _is_retried(attributes):
        phase, reason = "CONTINUED", "RETRY"
    at, precision = iso(text_at(step.box, "eventTime"))
    start = base["start"]
    if phase in ENDED and at and start and int(start) > int(at):
        start = ""  # clocks disagreed; no duration is negative
    fields = base | {"start": start, "end": at if phase in ENDED else ""}
    return Event(
        **fields, at=at, precision=precision, phase=phase, reason=reason, word=step.type, revision=str(step.number)
    )


def _is_retried(attributes: dict[str, Any]) -> bool:
    """True when the new run is a retry of this one. A cron schedule also names a new run, after a plain failure."""
    return text_at(attributes, "retryState") in ("InProgress", "RETRY_STATE_IN_PROGRESS")


def _metrics(steps: list[_Step]) -> dict[str, str]:
    counts = Counter(step.type for step in steps)
    return {metric: str(counts[word]) for word, metric in _METRICS.items()} | {"history_events": str(len(steps))}
