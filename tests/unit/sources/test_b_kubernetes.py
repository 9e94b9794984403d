"""Kubernetes objects reach the truth of each object, ordered by resourceVersion, and each known trap has its test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from finality.core.event import Event
from finality.sources.base import Reading, SourceSettings
from finality.sources.kubernetes import Kubernetes
from finality.sources.times import iso
from support.mapped_files import DATA
from support.reduce_events import State, reduce_events
from support.sourced import Given, deliveries, events_of, give, table

FOLDER = DATA / "kubernetes"
SOURCE = Kubernetes(SourceSettings())
LINES = list(SOURCE.read(FOLDER / "objects.ndjson.gz"))
OBJECTS: list[dict[str, Any]] = [json.loads(reading.value)["object"] for reading in LINES]
TRUTH = table(FOLDER / "objects.expected.tsv")
NAMELESS = {53, 54, 55, 56, 57, 58, 59, 111}

# What the data's description says of the uids that are on more than one line: state, and whether it is contradicted.
BY_UID = {
    "pod/c86e909c-f612-11e8-a057-fe5f49266390": ("SUCCEEDED", False),
    "pipelinerun/3edf18d1-cac2-11ea-a610-42010a8400cb": ("SUCCEEDED", False),
    "pod/63674389-f613-11e8-a057-fe5f49266390": ("ACTIVE", False),
    "job/f3fe3a46-f60a-11e8-aa53-42010a80021b": ("SUCCEEDED", True),
    "ansiblejob/09fa0d39-a170-4c37-a3b0-6e140e029868": ("CONFLICT", True),
    "sparkapplication/bfee52b0-74ca-4465-8005-f6643097ed64": ("FAILED", True),
    "exechooksrun/9bfcda95-2731-47dc-8eb2-6e83ae19da00": ("CONFLICT", True),
    "pod/46c1e8de-f61b-11e8-a057-fe5f49266390": ("ACTIVE", False),
    "pod/614908ed-415b-4506-8370-e3e36fa8cc13": ("ACTIVE", False),
    "exechooksrun/064199e2-d540-4628-b4ec-5b417bb85128": ("ACTIVE", False),
    "pipelinerun/abhhf-12354-asjsdbjs23-3435353n": ("SUCCEEDED", False),
    "taskrun/abhhf-12354-asjsdbjs23-3435353n": ("SUCCEEDED", False),
}


def wording(phase: str) -> str:
    return "ACTIVE" if phase in ("PENDING", "RUNNING", "PAUSED", "RETRYING", "CANCELLING") else phase


def states(readings: list[Reading]) -> dict[str, State]:
    """States by kind and id."""
    found = reduce_events(events_of(give(SOURCE, reading) for reading in readings))
    return {key.removeprefix("default/kubernetes/default/"): state for key, state in found.items()}


def mapped(box: dict[str, Any]) -> Given:
    return give(SOURCE, Reading(json.dumps(box).encode()))


def first(line: int) -> Event:
    """The event of the object itself (workflow nodes come after it)."""
    return give(SOURCE, LINES[line - 1]).events[0]


@pytest.mark.parametrize("row", TRUTH, ids=lambda row: f"{row['line']}-{row['kind']}")
def test_every_object_has_its_truth(row: dict[str, str]) -> None:
    line = int(row["line"])
    given = give(SOURCE, LINES[line - 1])
    if line in NAMELESS:
        assert given == Given((), (), "NO_ID")
        given = mapped(OBJECTS[line - 1] | {"metadata": {"name": "named-for-this-test"}})
    event = given.events[0]
    assert wording(event.phase) == row["expected"]
    assert event.job.split("/")[3] == row["kind"].rstrip("?").lower()
    assert event.revision == row["resourceVersion"]
    if row["kind"].startswith("Pod") and row["restarts_or_attempts"]:
        assert event.metrics["restarts"] == row["restarts_or_attempts"]
    if row["kind"] == "SparkApplication":
        assert event.attempt == int(row["restarts_or_attempts"])
    if row["end"]:
        assert event.end == iso(row["end"])[0]
        # The table takes the creation where an object does not say when it started; an event does not.
        assert (event.start or event.created) == iso(row["start"])[0]
        assert (event.start == "") == (row["kind"] == "ExecHooksRun")


def test_every_uid_reaches_its_truth_in_any_order() -> None:
    single = {
        f"{row['kind'].rstrip('?').lower()}/{row['uid']}": (row["expected"], False) for row in TRUTH if row["uid"]
    }
    truth = single | BY_UID
    assert len({key.split("/")[1] for key in truth}) == 34
    for how, readings in deliveries(LINES):
        found = states(readings)
        assert {key: (found[key].wording, found[key].conflict) for key in truth} == truth, how


def test_no_other_object_is_reported_as_contradicted() -> None:
    for how, readings in deliveries(LINES):
        reported = {key for key, state in states(readings).items() if state.conflict}
        assert reported == {key for key, (_, conflict) in BY_UID.items() if conflict}, how


def test_uid_63674389_has_3_restarts_though_the_later_version_comes_first() -> None:
    for how, readings in deliveries([LINES[4], LINES[6]]):
        (state,) = states(readings).values()
        assert (state.wording, state.metrics["restarts"], state.attempts) == ("ACTIVE", "3", 4), how


def test_the_most_restarts_are_4_and_the_most_attempts_13() -> None:
    assert first(16).metrics["restarts"] == "4"
    assert first(46).attempt == 13


def test_15_objects_without_kind_are_told_by_their_shape() -> None:
    bare = [line for line, box in enumerate(OBJECTS, 1) if "kind" not in box and "apiVersion" not in box]
    assert bare == [76, *range(81, 86), *range(107, 116)]
    assert mapped({"metadata": {"name": "x", "uid": "u"}, "data": {}}).code == "NO_KIND"


def test_failure_target_without_failed_is_not_an_end() -> None:
    for line in (22, 25):
        assert (first(line).phase, first(line).word, first(line).end) == ("RUNNING", "FailureTarget", "")


def test_success_criteria_met_alone_is_not_an_end() -> None:
    box = json.loads(json.dumps(OBJECTS[18]))
    box["status"]["conditions"] = [row for row in box["status"]["conditions"] if row["type"] == "SuccessCriteriaMet"]
    assert len(box["status"]["conditions"]) == 1
    (event,) = mapped(box).events
    assert (event.phase, event.word, event.end) == ("RUNNING", "SuccessCriteriaMet", "")


def test_an_analysis_run_that_was_terminated_is_successful_by_its_own_phase() -> None:
    assert OBJECTS[35]["status"]["message"] == "run terminated"
    assert (first(36).phase, first(36).word) == ("SUCCEEDED", "Successful")


def test_one_uid_on_3_pipeline_runs_and_4_task_runs_is_two_jobs() -> None:
    own = [key for key in states(LINES) if key.endswith("abhhf-12354-asjsdbjs23-3435353n")]
    assert sorted(own) == [
        "pipelinerun/abhhf-12354-asjsdbjs23-3435353n",
        "taskrun/abhhf-12354-asjsdbjs23-3435353n",
    ]


def test_8_jobs_without_uid_and_namespace_are_known_by_their_name() -> None:
    assert {first(line).job for line in range(18, 26)} == {"default/kubernetes/default/job/%2Ftest-29228857"}


def test_tekton_conditions_null_and_status_empty_are_pending() -> None:
    assert OBJECTS[86]["status"]["conditions"] is None
    assert OBJECTS[85]["status"] == {}
    assert [first(line).phase for line in (86, 87)] == ["PENDING", "PENDING"]


def test_a_child_of_an_unknown_kind_does_not_disturb_its_pipeline_run() -> None:
    assert b"FutureRunType" in LINES[104].value
    assert (first(105).phase, give(SOURCE, LINES[104]).unknown) == ("SUCCEEDED", ())


def test_a_run_that_ended_without_times_has_ended_at_its_condition() -> None:
    given = mapped(OBJECTS[110] | {"metadata": {"name": "x"}})
    assert "startTime" not in OBJECTS[110]["status"]
    assert (given.events[0].phase, given.events[0].start, given.events[0].end) == (
        "SUCCEEDED",
        "",
        iso("2021-03-29T09:50:15Z")[0],
    )


def test_objects_without_status_are_pending() -> None:
    for line in (20, 32, 39, 65, 71, 86):
        assert not OBJECTS[line - 1].get("status")
        assert (first(line).phase, first(line).word) == ("PENDING", "")


def test_go_s_zero_time_is_unknown() -> None:
    row = OBJECTS[24]["status"]["conditions"][0]
    assert (row["type"], row["lastTransitionTime"]) == ("FailureTarget", "0001-01-01T00:00:00Z")
    assert first(25).at == ""


def test_a_pod_that_is_being_deleted_says_how_it_stands_until_it_is_gone() -> None:
    assert (first(6).phase, first(6).conditions) == ("PENDING", {"deleting": True})
    assert first(10).conditions == {}


def test_a_watch_frame_and_the_object_alone_say_the_same_state() -> None:
    (alone,) = mapped(OBJECTS[16]).events
    for frame in ("ADDED", "MODIFIED"):
        (event,) = mapped({"type": frame, "object": OBJECTS[16]}).events
        assert (event.phase, event.revision, event.job) == (alone.phase, alone.revision, alone.job)
        assert (event.snapshot, alone.snapshot) == (False, True)


def test_deleted_before_an_end_is_cancelled_and_after_it_changes_nothing() -> None:
    (open_,) = mapped({"type": "DELETED", "object": OBJECTS[1]}).events
    assert (open_.phase, open_.reason, open_.deleted) == ("CANCELLED", "DELETED", True)
    (ended,) = mapped({"type": "DELETED", "object": OBJECTS[2]}).events
    assert (ended.phase, ended.deleted) == ("SUCCEEDED", True)


def test_an_ending_without_a_time_keeps_none() -> None:
    assert OBJECTS[35]["status"].keys() >= {"startedAt"}
    assert "completedAt" not in OBJECTS[35]["status"]
    assert first(36).start == iso("2020-11-06T18:39:45Z")[0]
    assert (first(36).phase, first(36).end, first(36).at, first(36).precision) == ("SUCCEEDED", "", "", "none")
    (gone,) = mapped({"type": "DELETED", "object": OBJECTS[5]}).events
    assert (gone.phase, gone.at) == ("CANCELLED", iso("2018-12-03T10:16:04Z")[0])
    (gone,) = mapped({"type": "DELETED", "object": OBJECTS[1]}).events
    assert (gone.phase, gone.at) == ("CANCELLED", "")


def test_bookmarks_and_errors_of_a_watch_say_nothing_of_a_job() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Job", "apiVersion": "batch/v1", "metadata": {}}}
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    assert mapped(bookmark) == mapped(error) == Given(())
    assert mapped({"type": "SYNCED", "object": {}}).unknown == ("frame:SYNCED",)


def test_items_of_a_typed_list_take_its_kind_and_a_bad_one_loses_no_other() -> None:
    jobs = [{key: box for key, box in OBJECTS[line].items() if key not in ("kind", "apiVersion")} for line in (0, 2)]
    given = mapped({"kind": "JobList", "apiVersion": "batch/v1", "items": [jobs[0], {"status": {}}, jobs[1]]})
    assert [event.phase for event in given.events] == ["FAILED", "SUCCEEDED"]
    assert given.unknown == ("item:NO_ID",)
    assert mapped({"kind": "JobList", "apiVersion": "batch/v1", "items": [{"status": {}}]}).code == "NO_ID"
    assert mapped({"kind": "List", "apiVersion": "v1", "items": OBJECTS[:3]}).events[2].phase == "SUCCEEDED"


def test_things_that_do_not_end_give_no_job() -> None:
    base = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "status": {"phase": "Failed"}}
    for kind, version in (("PersistentVolume", "v1"), ("Deployment", "apps/v1"), ("Lease", "coordination.k8s.io/v1")):
        assert mapped(base | {"kind": kind, "apiVersion": version}) == Given(())


def test_a_custom_resource_of_an_unknown_kind_is_read_by_shared_words_or_counted() -> None:
    meta = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}}
    done = {"type": "Succeeded", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    (event,) = mapped(
        meta | {"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1", "status": {"conditions": [done]}}
    ).events
    assert (event.job, event.phase) == ("default/kubernetes/default/pytorchjob/u", "SUCCEEDED")
    volcano = {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "status": {"state": {"phase": "Aborted"}}}
    (event,) = mapped(meta | volcano).events
    assert (event.job, event.phase) == ("default/kubernetes/default/job.batch.volcano.sh/u", "CANCELLED")
    given = mapped(meta | {"kind": "Rollout", "apiVersion": "argoproj.io/v1", "status": {"phase": "Healthy"}})
    assert given == Given((), ("kind:Rollout",))


def test_an_unknown_word_of_a_known_kind_is_kept_and_is_no_ending() -> None:
    box = OBJECTS[33] | {"status": {"phase": "Levitating"}}
    given = mapped(box)
    assert (given.events[0].phase, given.events[0].word, given.unknown) == (
        "UNKNOWN",
        "Levitating",
        ("word:Levitating",),
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "EVICTED"),
        ({"phase": "Failed", "reason": "NodeLost"}, "NODE_LOST"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"restartCount": 0, "state": {"terminated": {"exitCode": 143, "reason": "Error"}}},
                    {"restartCount": 1, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
                ],
            },
            "OOM",
        ),
        ({"phase": "Failed"}, "ERROR"),
    ],
)
def test_a_failed_pod_says_why(status: dict[str, Any], reason: str) -> None:
    (event,) = mapped({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "u"}, "status": status}).events
    assert (event.phase, event.reason) == ("FAILED", reason)


def test_a_pod_of_a_lost_node_is_unknown_and_has_not_ended() -> None:
    (event,) = mapped(
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "u"}, "status": {"phase": "Unknown"}}
    ).events
    assert (event.phase, event.word) == ("UNKNOWN", "Unknown")


def test_failed_pods_of_a_job_are_its_attempts() -> None:
    def job(**status: object) -> Event:
        box = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"uid": "u"}, "spec": {"backoffLimit": 6}}
        return mapped(box | {"status": status}).events[0]

    complete = [{"type": "Complete", "status": "True"}]
    failed = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
    assert [job(active=1).attempt, job(failed=2, active=1).attempt, job(failed=2).attempt] == [1, 3, 2]
    assert job(failed=2, succeeded=1, conditions=complete).attempt == 3
    assert job(failed=7, conditions=failed).attempt == job(failed=7, conditions=failed).max_attempts == 7
    assert job(failed=7, conditions=failed).reason == "BACKOFF_LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    ("value", "why", "phase", "reason"),
    [
        ("False", "PipelineRunCancelled", "CANCELLED", "USER"),
        ("False", "TaskRunTimeout", "FAILED", "TIMEOUT"),
        ("Unknown", "StoppedRunningFinally", "CANCELLING", ""),
        ("Unknown", "ToBeRetried", "RETRYING", ""),
        ("Unknown", "PipelineRunPending", "PENDING", ""),
    ],
)
def test_reasons_of_tekton_runs(value: str, why: str, phase: str, reason: str) -> None:
    row = {"type": "Succeeded", "status": value, "reason": why}
    box = {"kind": "TaskRun", "apiVersion": "tekton.dev/v1", "metadata": {"uid": "u"}, "status": {"conditions": [row]}}
    (event,) = mapped(box).events
    assert (event.phase, event.reason, event.word) == (phase, reason, f"Succeeded={value}/{why}")


def test_the_job_that_controls_a_pod_is_its_parent() -> None:
    assert first(81).parent == "default/kubernetes/default/job/f84e8b84-4e17-442c-9a96-687b8be8bf4b"
    assert first(83).parent == ""  # a ReplicaSet is no job


def test_no_duration_is_negative() -> None:
    for event in events_of(give(SOURCE, reading) for reading in LINES):
        assert not (event.start and event.end) or int(event.start) <= int(event.end)
