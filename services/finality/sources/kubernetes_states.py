"""How each kind of Kubernetes object says where it stands, as one table from kind to reader.

A reader takes the object and gives a `State`: phase, the object's own word, and raw times. It decides from the field
that its controller documents as the state, never from side effects: `FailureTarget` or `SuccessCriteriaMet` on a Job
say that pods are being stopped, and the Job has not ended before `Failed` or `Complete`.

Kinds that are not in the table are read by the words and conditions that job controllers share (`Succeeded`,
`Complete`, `Failed`, …), and only for custom resources; a Deployment or a volume is no job.

Source: Kubernetes API reference (batch/v1 Job, core/v1 Pod), Tekton "Monitoring execution status", Argo Rollouts and
Workflows `types.go`, spark-operator `types.go`, Flink operator reference, OpenKruise BroadcastJob, AWX resource
operator; recorded objects in `tests/data/kubernetes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from finality.sources.payload import clip, number_text, object_at, text_at

__all__ = ["KINDS", "MOST_ATTEMPTS", "Box", "State", "by_words", "code", "count", "foreign", "phase_of"]

Box = dict[str, Any]
MOST_ATTEMPTS = 10**6  # a greater number is a way to say "for ever"


class State(NamedTuple):
    """What an object says. Times as they stand in the object; "" unknown. attempt: from 1, 0 = not numbered."""

    phase: str
    word: str = ""
    reason: str = ""
    at: str = ""
    start: str = ""
    end: str = ""
    attempt: int = 0
    limit: int = 0
    metrics: dict[str, str] = {}  # noqa: RUF012  (a tuple's default; never changed)


WORDS = {
    "new": ("PENDING", ""),
    "pending": ("PENDING", ""),
    "waiting": ("PENDING", ""),
    "queued": ("PENDING", ""),
    "submitted": ("PENDING", ""),
    "created": ("PENDING", ""),
    "running": ("RUNNING", ""),
    "succeeding": ("RUNNING", ""),
    "paused": ("PAUSED", ""),
    "suspended": ("PAUSED", ""),
    "suspending": ("PAUSED", ""),
    "pending_rerun": ("RETRYING", ""),
    "invalidating": ("RETRYING", ""),
    "failing": ("RETRYING", ""),
    "submission_failed": ("RETRYING", ""),
    "restarting": ("RETRYING", ""),
    "cancelling": ("CANCELLING", ""),
    "canceling": ("CANCELLING", ""),
    "terminating": ("CANCELLING", ""),
    "succeeded": ("SUCCEEDED", ""),
    "successful": ("SUCCEEDED", ""),
    "completed": ("SUCCEEDED", ""),
    "complete": ("SUCCEEDED", ""),
    "finished": ("SUCCEEDED", ""),
    "failed": ("FAILED", "ERROR"),
    "error": ("FAILED", "ERROR"),
    "canceled": ("CANCELLED", "USER"),
    "cancelled": ("CANCELLED", "USER"),
    "aborted": ("CANCELLED", "USER"),
    "terminated": ("CANCELLED", "TERMINATED"),
    "skipped": ("SKIPPED", ""),
    "omitted": ("SKIPPED", "OMITTED"),
    "inconclusive": ("INCONCLUSIVE", ""),
}
_REASONS = {
    "OOMKilled": "OOM",
    "Evicted": "EVICTED",
    "NodeLost": "NODE_LOST",
    "NodeShutdown": "NODE_LOST",
    "Terminated": "NODE_LOST",  # a pod's own reason after its node shut down
    "Preempting": "PREEMPTED",
    "Preempted": "PREEMPTED",
    "DeadlineExceeded": "DEADLINE",
    "Error": "ERROR",
    "Failed": "ERROR",
    "PipelineRunTimeout": "TIMEOUT",
    "TaskRunTimeout": "TIMEOUT",
    "CustomRunTimedOut": "TIMEOUT",
}
_TEKTON_STOPPING = frozenset(
    (
        "CancelledRunFinally",
        "CancelledRunningFinally",
        "PipelineRunStopping",
        "StoppedRunFinally",
        "StoppedRunningFinally",
    )
)
_TEKTON_CANCELLED = _TEKTON_STOPPING | {"Cancelled", "CustomRunCancelled", "PipelineRunCancelled", "TaskRunCancelled"}
_WORD_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def code(reason: str) -> str:
    """A source's reason as a code in capitals: `BackoffLimitExceeded` gives BACKOFF_LIMIT_EXCEEDED."""
    known = _REASONS.get(reason)
    return known if known is not None else _WORD_EDGE.sub("_", reason[:64]).strip("_").upper()[:64]


def count(box: Box, name: str) -> int:
    """A number of things; a missing field is zero, as the API leaves zeros out."""
    text = number_text(box.get(name))
    return int(text) if text and len(text) < 10 else 0


def phase_of(word: str) -> tuple[str, str] | None:
    """Phase and reason of a word that job controllers share, in any case; None for any other word."""
    return WORDS.get(word.lower())


def job(box: Box) -> State:
    """batch/v1 Job. Its attempts are the pods that failed, and the one that runs or succeeded."""
    status, spec = object_at(box, "status"), object_at(box, "spec")
    true = conditions(status, "True")
    failed, active = count(status, "failed"), count(status, "active")
    limit = spec.get("backoffLimit")
    start = text_at(status, "startTime")
    plain = State(
        "PENDING",
        start=start,
        attempt=max(failed + (1 if active else 0), 1),
        limit=limit + 1 if type(limit) is int and 0 <= limit < MOST_ATTEMPTS else 0,
        metrics={f"pods_{name}": str(count(status, name)) for name in ("active", "failed", "succeeded")}
        if status
        else {},
    )
    if "Failed" in true and "Complete" in true:
        return plain._replace(phase="INCONCLUSIVE", word="Complete+Failed", reason="CONTRADICTION")
    if "Failed" in true:
        at, reason = text_at(true["Failed"], "lastTransitionTime"), code(text_at(true["Failed"], "reason"))
        return plain._replace(phase="FAILED", word="Failed", reason=reason or "ERROR", at=at, end=at)
    if "Complete" in true:
        at = text_at(status, "completionTime") or text_at(true["Complete"], "lastTransitionTime")
        return plain._replace(phase="SUCCEEDED", word="Complete", at=at, end=at, attempt=failed + 1)
    for word in ("FailureTarget", "SuccessCriteriaMet"):
        if word in true:
            return plain._replace(phase="RUNNING", word=word, at=text_at(true[word], "lastTransitionTime"))
    if "Suspended" in true or (spec.get("suspend") is True and not active):
        at = text_at(true.get("Suspended", {}), "lastTransitionTime")
        return plain._replace(phase="PAUSED", word="Suspended", at=at)
    return plain._replace(phase="RUNNING", word="Active") if active or start else plain


def conditions(status: Box, value: str) -> dict[str, Box]:
    """Conditions by type whose status is `value`."""
    rows = status.get("conditions")
    found = [row for row in rows if type(row) is dict] if type(rows) is list else []
    return {text_at(row, "type"): row for row in found if text_at(row, "status") == value}


def pod(box: Box) -> State:
    """core/v1 Pod: its phase; restarts and the exit of the container that failed as evidence."""
    status = object_at(box, "status")
    word = clip(text_at(status, "phase"), 128)
    rows = status.get("containerStatuses")
    containers = [row for row in rows if type(row) is dict] if type(rows) is list else []
    restarts = [count(row, "restartCount") for row in containers]
    ends = [object_at(row, "state", "terminated") for row in containers]
    bad = [end for end in ends if number_text(end.get("exitCode")) not in ("", "0")]
    bad.sort(key=lambda end: text_at(end, "reason") != "OOMKilled")  # the kill explains the others' exits
    metrics = {"restarts": str(sum(restarts))} if containers else {}
    if bad:
        metrics["exit_code"] = str(count(bad[0], "exitCode"))
    state = State(
        {"Succeeded": "SUCCEEDED", "Failed": "FAILED", "Running": "RUNNING", "": "PENDING"}.get(word, "PENDING"),
        word,
        start=text_at(status, "startTime"),
        attempt=max(restarts, default=0) + 1,
        metrics=metrics,
    )
    if word == "Failed":
        reason = code(text_at(status, "reason")) or code(text_at(bad[0], "reason") if bad else "") or "ERROR"
        state = state._replace(reason=reason)
    if word in ("Succeeded", "Failed"):
        end = max((text_at(row, "finishedAt") for row in ends), default="")
        return state._replace(at=end, end=end)
    if word not in ("", "Pending", "Running"):
        return state._replace(phase="UNKNOWN")
    return state


def tekton(box: Box) -> State:
    """PipelineRun, TaskRun, CustomRun: the condition Succeeded."""
    status, spec = object_at(box, "status"), object_at(box, "spec")
    tried = status.get("retriesStatus")
    retries = spec.get("retries")
    plain = State(
        "PENDING",
        start=text_at(status, "startTime"),
        attempt=(len(tried) if type(tried) is list else 0) + 1,
        limit=retries + 1 if type(retries) is int and 0 < retries < MOST_ATTEMPTS else 0,
    )
    for value in ("True", "False", "Unknown"):
        row = conditions(status, value).get("Succeeded")
        if row is None:
            continue
        why = text_at(row, "reason")
        at = text_at(status, "completionTime") if value != "Unknown" else ""
        at = at or text_at(row, "lastTransitionTime")
        plain = plain._replace(word=clip(f"Succeeded={value}/{why}", 128), at=at, end=at if value != "Unknown" else "")
        if value == "True":
            return plain._replace(phase="SUCCEEDED")
        if value == "False":
            cancelled = why in _TEKTON_CANCELLED
            return plain._replace(
                phase="CANCELLED" if cancelled else "FAILED", reason="USER" if cancelled else code(why) or "ERROR"
            )
        if why in _TEKTON_STOPPING:
            return plain._replace(phase="CANCELLING")
        if why == "ToBeRetried":
            return plain._replace(phase="RETRYING")
        return plain._replace(phase="PENDING" if why in ("Pending", "PipelineRunPending") else "RUNNING")
    return plain


def by_words(*path: str) -> Callable[[Box], State]:
    """A reader for kinds whose state is one word at a path."""

    def read(box: Box) -> State:
        status = object_at(box, "status")
        word = text_at(box, *path)
        return _from_word(word, status, object_at(box, *path[:-1]))

    return read


def _from_word(word: str, status: Box, beside: Box) -> State:
    """State of a word. beside: the object that holds it, where some kinds keep their times."""
    start = text_at(status, "startTime") or text_at(status, "startedAt") or text_at(beside, "started")
    end = (
        text_at(status, "completionTime")
        or text_at(status, "completionTimestamp")
        or text_at(status, "completedAt")
        or text_at(status, "finishedAt")
        or text_at(status, "terminationTime")
        or text_at(beside, "finished")
    )
    attempt = count(status, "executionAttempts")
    known = phase_of(word)
    if not word:
        return State("RUNNING" if start else "PENDING", start=start, attempt=attempt)
    if known is None:
        return State("UNKNOWN", clip(word, 128), start=start, attempt=attempt)
    phase, reason = known
    open_ = phase in ("PENDING", "RUNNING", "PAUSED", "RETRYING", "CANCELLING")
    return State(phase, clip(word, 128), reason, "" if open_ else end, start, "" if open_ else end, attempt)


def flink(box: Box) -> State:
    """FlinkDeployment and FlinkSessionJob: the job's state; before there is one, that of its deployment."""
    status = object_at(box, "status")
    word = text_at(status, "jobStatus", "state")
    manager = text_at(status, "jobManagerDeploymentStatus")
    start = ""
    states = {
        "INITIALIZING": "PENDING",
        "CREATED": "PENDING",
        "RECONCILING": "RUNNING",
        "RESTARTING": "RETRYING",
        "FAILING": "RETRYING",
        "CANCELLING": "CANCELLING",
    }
    if word:
        known = (states[word], "") if word in states else phase_of(word)
        phase, reason = known or ("UNKNOWN", "")
        return State(phase, clip(word, 128), reason, start=start)
    if manager == "ERROR":  # the operator waits for a changed specification
        return State("PAUSED", "ERROR", "ERROR")
    known_manager = ("", "MISSING", "DEPLOYING", "DEPLOYED_NOT_READY", "READY")
    return State("PENDING" if manager in known_manager else "UNKNOWN", clip(manager, 128))


def foreign(box: Box) -> State | None:
    """State of a custom resource of a kind that is not in the table; None where nothing shared is said."""
    status = object_at(box, "status")
    for word, beside in (
        (text_at(status, "phase"), status),
        (text_at(status, "state"), status),
        (text_at(status, "state", "phase"), object_at(status, "state")),
    ):
        if phase_of(word):
            return _from_word(word, status, beside)
    true = conditions(status, "True")
    for word in ("Failed", "Succeeded", "Complete", "Completed", "Finished", "Suspended", "Restarting", "Running"):
        if word in true:
            state = _from_word(word, status, {})
            at = text_at(true[word], "lastTransitionTime")
            ended = state.phase in ("SUCCEEDED", "FAILED")
            return state._replace(at=state.at or at, end=(state.end or at) if ended else "")
    if "Succeeded" in conditions(status, "False"):
        return tekton(box)
    return None


KINDS: dict[str, tuple[str, Callable[[Box], State]]] = {  # kind: end of its API group, reader
    "Job": ("batch", job),
    "Pod": ("", pod),
    "PipelineRun": ("tekton.dev", tekton),
    "TaskRun": ("tekton.dev", tekton),
    "CustomRun": ("tekton.dev", tekton),
    "Run": ("tekton.dev", tekton),
    "AnalysisRun": ("argoproj.io", by_words("status", "phase")),
    "Experiment": ("argoproj.io", by_words("status", "phase")),
    "BroadcastJob": ("kruise.io", by_words("status", "phase")),
    "SparkApplication": ("sparkoperator.k8s.io", by_words("status", "applicationState", "state")),
    "FlinkDeployment": ("flink.apache.org", flink),
    "FlinkSessionJob": ("flink.apache.org", flink),
    "AnsibleJob": ("ansible.com", by_words("status", "ansibleJobResult", "status")),
    "ExecHooksRun": ("netapp.io", by_words("status", "state")),
}
