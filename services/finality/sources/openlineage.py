"""OpenLineage run events, with what Airflow and dbt put into their facets.

A run is one attempt by OpenLineage's own rules: a retry has a new run id. So the kind is `run`, the id is `run.runId`,
and the attempt is 1. Two truths are in no run event, and the Airflow facets tell them:

- *Retries.* A task that has retries (or a second try) is one job of kind `task` with numbered attempts, id
  `DAG run id/task id` (`[map index]` behind it for mapped tasks), instead of one run for each try. A FAIL with tries
  left is RETRYING: Airflow sends the same FAIL whether it will try again or not.
- *Last words.* The event that ends a DAG run says how each task ended in Airflow's own words. skipped and
  upstream_failed appear nowhere else (a task that skips itself sends COMPLETE; one that never starts sends nothing), so
  each task whose word is not success gets a job of kind `task` with that word. It carries a revision (the event's
  time), so that it wins over the task's own events, whatever its worker's clock said. A word that is no ending is left
  to the task's own events.

OTHER and events without a type change no phase. Datasets give row counts as metrics, summed over one event:
rows_in, rows_out, bytes_out. The name is `namespace.job`, labels come from jobType, dbt and tags facets.
A facet of another shape than its schema is ignored: it must not cost the ending that the event reports.

Codes: those of `payload`, NO_RUN (dataset and job events, or a run without an id: they end nothing), KEY_TOO_LONG,
KEY_NOT_TEXT, TOO_MANY_TASKS (over 4,096 tasks in one event).

Source: OpenLineage spec 2-0-2; apache-airflow-providers-openlineage facets; openlineage-dbt facets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from finality.core.errors import Rejected
from finality.core.event import MAX_ATTEMPT, Event
from finality.sources.base import Headers, Keys, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, json_object, object_at, read_json, text_at
from finality.sources.times import iso, zone_of

__all__ = ["OpenLineage"]

# By event type: phase, reason.
_TYPES = {
    "START": ("RUNNING", ""),
    "RUNNING": ("RUNNING", ""),
    "COMPLETE": ("SUCCEEDED", ""),
    "FAIL": ("FAILED", "ERROR"),
    "ABORT": ("CANCELLED", ""),
    "OTHER": ("", ""),
    "": ("", ""),
}
# Airflow's words for a task at the end of its DAG run: phase, reason; "" = no event.
_TASK_WORDS = {
    "success": ("", ""),
    "skipped": ("SKIPPED", ""),
    "failed": ("FAILED", "ERROR"),
    "upstream_failed": ("FAILED", "UPSTREAM_FAILED"),
    "removed": ("CANCELLED", "REMOVED"),
    **dict.fromkeys(
        (
            "",
            "none",
            "awaiting_input",
            "deferred",
            "queued",
            "restarting",
            "running",
            "scheduled",
            "up_for_reschedule",
            "up_for_retry",
        ),
        ("", ""),
    ),
}
_MOST_TASKS = 4096
_MOST_LABELS = 32


class _Seen(NamedTuple):
    """The parts of an event that several steps need."""

    kind: str
    at: str
    precision: str
    name: str
    run_id: str
    facets: dict[str, Any]
    parent_id: str
    root_id: str


class OpenLineage:
    """Run events of any OpenLineage producer."""

    name = "openlineage"
    takes = "OpenLineage RunEvent JSON, as the Kafka transport sends it (Airflow, Spark, dbt, Flink, clients)"
    order = "eventTime, then the step of life; Airflow's end of a DAG run has the last word on its tasks"
    identity = "run: run.runId; task (Airflow, with retries or a last word): DAG run id/task id"

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` for an unknown zone."""
        self._keys = Keys(settings, self.name, ("run", "task"))
        self._zone = zone_of(settings.zone)

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """An object with an eventTime and a run, job or dataset."""
        return b'"eventTime"' in value and (b'"runId"' in value or b'"job"' in value or b'"dataset"' in value)

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The run's event, and those of Airflow tasks. Raises `Rejected`."""
        event = json_object(value)
        run_id = text_at(event, "run", "runId")
        if not run_id:
            raise Rejected("NO_RUN", "run.runId is missing: the event tells of no run")
        unknown: list[str] = []
        written = text_at(event, "eventTime")
        at, precision = iso(written, self._zone)
        if not at:
            unknown.append(f"eventTime {clip(written, 40)}")
        kind = text_at(event, "eventType")
        if kind not in _TYPES:
            unknown.append(f"eventType {clip(kind, 40)}")
        facets = object_at(event, "run", "facets")
        seen = _Seen(
            kind=kind,
            at=at,
            precision=precision,
            name=_name(object_at(event, "job")),
            run_id=run_id,
            facets=facets,
            parent_id=text_at(facets, "parent", "run", "runId"),
            root_id=text_at(facets, "parent", "root", "run", "runId"),
        )
        events = [self._run(seen, event)]
        words = object_at(facets, "airflowState", "tasksState")
        if words and _TYPES.get(kind, ("",))[0] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            events += self._last_words(seen, words, unknown)
        return Mapped(tuple(events), tuple(unknown))

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines, an array, or one event."""
        return read_json(path)

    def _key(self, kind: str, ident: str) -> str:
        return self._keys.of(kind, ident) if ident else ""

    def _run(self, seen: _Seen, event: dict[str, Any]) -> Event:
        """The event of the run itself, or of the Airflow task whose try it is."""
        phase, reason = _TYPES.get(seen.kind, ("UNKNOWN", ""))
        attempt, most = 1, 0
        job = self._key("run", seen.run_id)
        instance = object_at(seen.facets, "airflow", "taskInstance")
        task = object_at(seen.facets, "airflow", "task")
        tries, retries = _count(instance.get("try_number")), _count(task.get("retries"))
        task_id = text_at(task, "task_id")
        if seen.parent_id and task_id and (retries > 0 or tries > 1):
            place = instance.get("map_index")
            mapped = f"[{place}]" if type(place) is int and place >= 0 else ""
            job = self._key("task", f"{seen.parent_id}/{task_id}{mapped}")
            attempt, most = max(tries, 1), retries + 1
            if phase == "FAILED" and attempt < most:
                phase = "RETRYING"
        return Event(
            at=seen.at,
            attempt=attempt,
            created=iso(text_at(instance, "queued_dttm"), self._zone)[0],
            job=job,
            labels=_labels(object_at(event, "job", "facets"), seen.facets),
            max_attempts=most,
            metrics=_metrics(event),
            name=seen.name,
            parent=self._key("run", seen.parent_id),
            phase=phase,
            precision=seen.precision,
            reason=reason,
            root=self._key("run", seen.root_id),
            start=seen.at if seen.kind == "START" else "",
            word=clip(seen.kind, 64),
        )

    def _last_words(self, seen: _Seen, words: dict[str, Any], unknown: list[str]) -> Iterator[Event]:
        """One event for each task of a DAG run that Airflow says did not simply succeed."""
        if len(words) > _MOST_TASKS:
            raise Rejected("TOO_MANY_TASKS", f"{len(words)} tasks, at most {_MOST_TASKS}")
        dag_run = self._key("run", seen.run_id)
        for task_id, said in words.items():
            word = said.lower() if type(said) is str else ""
            if word not in _TASK_WORDS:
                unknown.append(f"task state {clip(word, 40)}")
                continue
            phase, reason = _TASK_WORDS[word]
            if phase and task_id:
                yield Event(
                    at=seen.at,
                    job=self._key("task", f"{seen.run_id}/{task_id}"),
                    name=clip(f"{seen.name}.{task_id}"),
                    parent=dag_run,
                    phase=phase,
                    precision=seen.precision,
                    reason=reason,
                    revision=seen.at or "1",
                    root=self._key("run", seen.root_id) or dag_run,
                    word=word,
                )


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < MAX_ATTEMPT else 0


def _name(job: dict[str, Any]) -> str:
    """`namespace.name`, which is what selectors match."""
    return clip(".".join(filter(None, (text_at(job, "namespace"), text_at(job, "name")))))


def _labels(job_facets: dict[str, Any], run_facets: dict[str, Any]) -> dict[str, str]:
    """Labels from the tags facets, then what names the producing integration (which wins)."""
    labels: dict[str, str] = {}
    for facets in (job_facets, run_facets):
        if "tags" not in facets:
            continue
        tags = object_at(facets, "tags").get("tags")
        for tag in tags[:_MOST_LABELS] if type(tags) is list else ():
            key = text_at(tag, "key") if type(tag) is dict else ""
            if key and key.isascii():  # label names are hashed, and sort alike everywhere only in ASCII
                labels[key[:128]] = clip(text_at(tag, "value"), 128)
    for label, text in (
        ("integration", text_at(job_facets, "jobType", "integration")),
        ("type", text_at(job_facets, "jobType", "jobType")),
        ("invocation", text_at(run_facets, "dbt_run", "invocation_id")),
    ):
        if text:
            labels[label] = clip(text, 128)
    return labels


def _metrics(event: dict[str, Any]) -> dict[str, str]:
    """Row and byte counts that the event's datasets state, each summed over the datasets that state it."""
    metrics: dict[str, str] = {}
    for side, box, facet, field, metric in (
        ("outputs", "outputFacets", "outputStatistics", "rowCount", "rows_out"),
        ("outputs", "outputFacets", "outputStatistics", "size", "bytes_out"),
        ("inputs", "inputFacets", "inputStatistics", "rowCount", "rows_in"),
    ):
        datasets = event.get(side)
        if not datasets or type(datasets) is not list:
            continue
        counts = [
            count
            for dataset in datasets
            if type(dataset) is dict
            and box in dataset
            and type(count := object_at(dataset, box, facet).get(field)) is int
            and count >= 0
        ]
        if counts:
            metrics[metric] = str(sum(counts))
    return metrics
