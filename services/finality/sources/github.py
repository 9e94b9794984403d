"""GitHub Actions, checks, deployments and commit statuses: webhooks, polled API answers, and recorded lines of both.

A record speaks for one object: the one that the event is named after. What it carries along (a check run's suite, the
run behind a deployment status) is context and gets a webhook of its own, so it is not mapped a second time. The
object's own `status` counts and never the webhook's `action`: "rerequested" brings an old success, "queued" may bring a
job that waits for approval.

GitHub gives no revision. Two states of an object are put in order by attempt and by the time of the state, to the
second; `completed` is not the end for ever (a rerun continues under the same id), and `completed/action_required` is
not even an end: it waits for a person.

Taken: header X-GitHub-Event with the webhook's body; `{"event": …, "payload": …}`; an object under its own name
(`{"workflow_run": …}`, with or without `observed_at`); a page of the API (`workflow_runs`, `jobs`, `check_runs`,
`check_suites`); a bare run or job. Left out: pull requests, pushes and all else that is not a state (no events).

Codes: those of `payload` and of job keys; NO_ID (an object without its id); NO_STATE (without status or state).

Source: GitHub REST API and webhook documentation, "Workflow runs", "Workflow jobs", "Checks", "Deployments", "Commit
statuses"; words and shapes checked against recorded answers (`tests/data/github-actions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from finality.core.errors import Rejected
from finality.core.event import ENDED, Event
from finality.core.jobkey import job_key
from finality.sources.base import NOTHING, Headers, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, json_object, number_text, object_at, read_json, text_at
from finality.sources.times import iso

__all__ = ["GitHub"]

_OPEN = {
    "requested": "PENDING",
    "queued": "PENDING",
    "pending": "PENDING",
    "waiting": "PAUSED",  # for a person or a protection rule
    "in_progress": "RUNNING",
}
_CONCLUSIONS = {
    "success": ("SUCCEEDED", ""),
    "neutral": ("SUCCEEDED", "NEUTRAL"),
    "failure": ("FAILED", "ERROR"),
    "timed_out": ("FAILED", "TIMEOUT"),
    "startup_failure": ("FAILED", "STARTUP_FAILURE"),
    "cancelled": ("CANCELLED", "USER"),
    "skipped": ("SKIPPED", ""),
    "action_required": ("PAUSED", "ACTION_REQUIRED"),
    "stale": ("INCONCLUSIVE", "STALE"),  # GitHub gave up waiting for a result
}
_DEPLOYMENT_STATES = {
    "queued": ("PENDING", ""),
    "pending": ("PENDING", ""),
    "waiting": ("PAUSED", ""),
    "in_progress": ("RUNNING", ""),
    "success": ("SUCCEEDED", ""),
    "failure": ("FAILED", "ERROR"),
    "error": ("FAILED", "ERROR"),
    "inactive": ("", ""),  # a newer deployment took over; how this one ended was said before
}
_COMMIT_STATES = {
    "pending": ("PENDING", ""),
    "success": ("SUCCEEDED", ""),
    "failure": ("FAILED", "ERROR"),
    "error": ("FAILED", "ERROR"),
}
_NO_STATES = re.compile(  # events that say nothing of a state
    r"branch_protection_rule|commit_comment|create|delete|deployment_protection_rule|deployment_review|discussion|fork"
    r"|installation|installation_repositories|issue_comment|issues|label|member|membership|merge_group|meta|milestone"
    r"|organization|page_build|ping|public|pull_request|pull_request_review|pull_request_review_comment|push|release"
    r"|repository|repository_dispatch|star|team|watch|workflow_dispatch"
)
_PAGES = {
    "workflow_runs": "workflow_run",
    "jobs": "workflow_job",
    "check_runs": "check_run",
    "check_suites": "check_suite",
}
_HEADER = "x-github-event"
_SHAPE = re.compile(
    rb'"(?:workflow_run|workflow_job|check_run|check_suite|deployment_status)"\s*:\s*\{'
    rb'|"(?:workflow_runs|check_runs|check_suites)"\s*:\s*\['
    rb'|"run_number"\s*:\s*\d|"runner_group_id"\s*:|"x-github-event"'
)
_STATUS_SHAPE = (b'"sha"', b'"context"', b'"state"', b'"target_url"')


class _State(NamedTuple):
    phase: str
    reason: str
    word: str
    unknown: tuple[str, ...] = ()


class GitHub:
    """Runs, jobs, checks, deployments and commit statuses of GitHub or GitHub Enterprise."""

    name = "github"
    takes = "GitHub webhooks (X-GitHub-Event header or event + payload), polled runs, jobs and checks, pages of the API"
    order = "attempt (run_attempt), then time of the state to the second; equal time with another ending is a conflict"
    identity = "run, job, check-run, check-suite, deployment: id; status: repository id, sha and context"

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._mappers: dict[str, Callable[[dict[str, Any], dict[str, Any]], tuple[Event, tuple[str, ...]]]] = {
            "workflow_run": self._run,
            "workflow_job": self._job,
            "check_run": self._check_run,
            "check_suite": self._check_suite,
            "deployment_status": self._deployment_status,
            "deployment": self._deployment,
            "status": self._status,
        }

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """The X-GitHub-Event header, or an object under one of the names that only GitHub uses."""
        if _event_header(headers):
            return True
        if value.lstrip()[:1] != b"{":
            return False
        if _SHAPE.search(value) or all(part in value for part in _STATUS_SHAPE):
            return True
        return b'"payload"' in value and b'"event"' in value and b'"https://api.github.com/' in value

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The event of one webhook or poll, or one event for each object of a page. Raises `Rejected`."""
        record = json_object(value)
        kind = _event_header(headers)
        body = record
        if type(record.get("payload")) is dict and text_at(record, "event"):
            kind, body = kind or text_at(record, "event"), record["payload"]
        if not kind:
            for name, item_kind in _PAGES.items():
                if type(body.get(name)) is list:
                    return self._page(item_kind, body, body[name])
            kind = _kind_by_shape(body)
        mapper = self._mappers.get(kind)
        if mapper is None:
            return NOTHING if _NO_STATES.fullmatch(kind) else Mapped((), (f"event:{clip(kind, 64)}",))
        event, unknown = mapper(_subject(kind, body), body)
        return Mapped((event,), unknown)

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines, an array, or one document."""
        return read_json(path)

    def _page(self, kind: str, body: dict[str, Any], items: list[Any]) -> Mapped:
        """One bad object of a page is counted and loses no other; a page of nothing but bad ones is rejected."""
        events: list[Event] = []
        unknown: list[str] = []
        refused: Rejected | None = None
        for item in items:
            try:
                if type(item) is not dict:
                    raise Rejected("BAD_FIELD", f"an entry of the {kind} page is no object")
                event, words = self._mappers[kind](item, body)
            except Rejected as error:
                refused = error
                unknown.append(f"item:{error.code}")
            else:
                events.append(event)
                unknown.extend(words)
        if refused is not None and not events:
            raise refused
        return Mapped(tuple(events), tuple(unknown))

    def _key(self, kind: str, ident: str) -> str:
        return job_key(self._settings.tenant, "github", self._settings.instance, kind, ident)

    def _numbered(self, kind: str, box: dict[str, Any]) -> str:
        ident = number_text(box.get("id"))
        if not ident:
            raise Rejected("NO_ID", f"the {kind} has no number in id")
        return self._key(kind, ident)

    def _run(self, run: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        key = self._numbered("run", run)
        state = _by_status(run)
        at, precision = iso(text_at(run, "updated_at"))
        began = state.phase == "RUNNING" or state.phase in ENDED
        event = Event(
            job=key,
            attempt=_attempt(run),
            at=at,
            precision=precision,
            created=iso(text_at(run, "created_at"))[0],
            start=_start(text_at(run, "run_started_at"), at) if began else "",
            phase=state.phase,
            reason=state.reason,
            word=state.word,
            name=clip(text_at(run, "name") or text_at(body, "workflow", "name")),
            labels=_labels(body, run, branch="head_branch", event="event", path="path"),
            snapshot="action" not in body,
        )
        return event, state.unknown

    def _job(self, job: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        event, unknown = self._timed("job", job, body)
        run = number_text(job.get("run_id"))
        if run:
            parent = self._key("run", run)
            event = replace(event, parent=parent, root=parent)
        return event, unknown

    def _check_run(self, check: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        event, unknown = self._timed("check-run", check, body)
        suite = number_text(object_at(check, "check_suite").get("id"))
        if suite:
            parent = self._key("check-suite", suite)
            event = replace(event, parent=parent, root=parent)
        return event, unknown

    def _timed(self, kind: str, box: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        """A job or check run: it has no updated_at, so the time of its state is the start or the completion."""
        key = self._numbered(kind, box)
        state = _by_status(box)
        created, _ = iso(text_at(box, "created_at"))
        began = state.phase == "RUNNING" or state.phase in ENDED
        end = text_at(box, "completed_at")
        latest = end if state.phase in ENDED else text_at(box, "started_at") or text_at(box, "created_at")
        at, precision = iso(latest)
        event = Event(
            job=key,
            attempt=_attempt(box),
            at=at,
            precision=precision,
            created=created,
            start=_start(text_at(box, "started_at"), at) if began else "",
            end=at if state.phase in ENDED else "",
            phase=state.phase,
            reason=state.reason,
            word=state.word,
            name=clip(text_at(box, "name")),
            labels=_labels(body, box, branch="head_branch", workflow="workflow_name"),
            snapshot="action" not in body,
        )
        return event, state.unknown

    def _check_suite(self, suite: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        key = self._numbered("check-suite", suite)
        state = _by_status(suite)
        at, precision = iso(text_at(suite, "updated_at"))
        event = Event(
            job=key,
            at=at,
            precision=precision,
            created=iso(text_at(suite, "created_at"))[0],
            phase=state.phase,
            reason=state.reason,
            word=state.word,
            name=clip(text_at(suite, "app", "slug")),
            labels=_labels(body, suite, branch="head_branch"),
            snapshot="action" not in body,
        )
        return event, state.unknown

    def _deployment_status(self, status: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        """Each status is an object of its own; what changes state is the deployment, so its id is the identity."""
        deployment = object_at(body, "deployment")
        ident = number_text(deployment.get("id")) or text_at(status, "deployment_url").rpartition("/")[2]
        if not number_text(ident):
            raise Rejected("NO_ID", "the deployment status names no deployment")
        state = _by_state(status, _DEPLOYMENT_STATES)
        at, precision = iso(text_at(status, "created_at") or text_at(status, "updated_at"))
        event = Event(
            job=self._key("deployment", ident),
            at=at,
            precision=precision,
            created=iso(text_at(deployment, "created_at"))[0],
            phase=state.phase,
            reason=state.reason,
            word=state.word,
            name=clip(text_at(deployment, "task")),
            labels=_labels(body, status, environment="environment"),
        )
        return event, state.unknown

    def _deployment(self, deployment: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        key = self._numbered("deployment", deployment)
        created, precision = iso(text_at(deployment, "created_at"))
        event = Event(
            job=key,
            at=created,
            precision=precision,
            created=created,
            phase="PENDING",
            word="created",
            name=clip(text_at(deployment, "task")),
            labels=_labels(body, deployment, environment="environment"),
        )
        return event, ()

    def _status(self, status: dict[str, Any], body: dict[str, Any]) -> tuple[Event, tuple[str, ...]]:
        """Every report of a commit status has a new id; repository, commit and context say which check it is of."""
        repository = number_text(object_at(body, "repository").get("id")) or text_at(status, "name")
        sha, context = text_at(status, "sha"), text_at(status, "context")
        if not (repository and sha and context):
            raise Rejected("NO_ID", "a commit status needs repository, sha and context")
        state = _by_state(status, _COMMIT_STATES)
        at, precision = iso(text_at(status, "updated_at") or text_at(status, "created_at"))
        event = Event(
            job=self._key("status", f"{repository}/{sha}/{context}"),
            at=at,
            precision=precision,
            phase=state.phase,
            reason=state.reason,
            word=state.word,
            name=clip(context),
            labels=_labels(body, status),
        )
        return event, state.unknown


def _event_header(headers: Headers) -> str:
    for name, content in headers:
        if name.lower() == _HEADER and content:
            return content.decode("utf-8", "replace").strip()
    return ""


def _kind_by_shape(body: dict[str, Any]) -> str:
    """Which event a body without a name is. The most particular comes first: some bodies carry other objects along."""
    for kind in ("deployment_status", "workflow_job", "check_run", "check_suite", "workflow_run", "deployment"):
        if type(body.get(kind)) is dict:
            return kind
    if text_at(body, "sha") and text_at(body, "context") and text_at(body, "state"):
        return "status"
    if "run_number" in body and "workflow_id" in body:
        return "workflow_run"
    if "run_id" in body and ("runner_group_id" in body or "run_attempt" in body):
        return "workflow_job"
    if type(body.get("check_suite")) is dict:
        return "check_run"
    return "unnamed"


def _subject(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The object of an event: under its own name, or the body itself."""
    inner = body.get(kind)
    return inner if type(inner) is dict else body


def _by_status(box: dict[str, Any]) -> _State:
    """State of an object with status and conclusion."""
    status, conclusion = text_at(box, "status"), text_at(box, "conclusion")
    if not status:
        raise Rejected("NO_STATE", "the object has no status")
    word = clip(f"{status}/{conclusion}" if status == "completed" else status, 64)
    known = _CONCLUSIONS.get(conclusion) if status == "completed" else (_OPEN.get(status, ""), "")
    if known is None or not known[0]:
        return _State("UNKNOWN", "", word, (f"status:{word}",))
    return _State(*known, word)


def _by_state(box: dict[str, Any], words: dict[str, tuple[str, str]]) -> _State:
    """State of an object with one word."""
    word = text_at(box, "state")
    if not word:
        raise Rejected("NO_STATE", "the object has no state")
    known = words.get(word)
    word = clip(word, 64)
    return _State("UNKNOWN", "", word, (f"state:{word}",)) if known is None else _State(*known, word)


def _attempt(box: dict[str, Any]) -> int:
    attempt = box.get("run_attempt")
    return attempt if type(attempt) is int and 0 < attempt <= 10**6 else 0


def _start(text: str, at: str) -> str:
    """A start, unless it lies behind the state's own time: GitHub writes such pairs, and no duration is negative."""
    start, _ = iso(text)
    return "" if start and at and int(start) > int(at) else start


def _labels(body: dict[str, Any], box: dict[str, Any], **fields: str) -> dict[str, str]:
    found = {label: clip(text_at(box, field), 256) for label, field in fields.items()}
    repository = text_at(body, "repository", "full_name") or text_at(box, "repository", "full_name")
    found["repository"] = clip(repository, 256)
    return {label: text for label, text in found.items() if text}
