"""Argo Workflows and their nodes: retries are attempts of their node, and what a node lacks is not invented."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from finality.core.event import Event
from finality.sources.base import Reading, SourceSettings
from finality.sources.kubernetes import Kubernetes
from support.mapped_files import DATA
from support.sourced import Given, give

SOURCE = Kubernetes(SourceSettings())
LINES = list(SOURCE.read(DATA / "kubernetes" / "objects.ndjson.gz"))
FAIL_FAST, DAG_RETRIES, DAG_FAIL, FAILED_RETRIES = 73, 74, 75, 76


def workflow(line: int) -> dict[str, Any]:
    box: dict[str, Any] = json.loads(LINES[line - 1].value)["object"]
    return box


def mapped(box: dict[str, Any]) -> Given:
    return give(SOURCE, Reading(json.dumps(box).encode()))


def nodes(given: Given) -> dict[str, Event]:
    """Events of nodes by their display name."""
    return {event.name: event for event in given.events if "/workflow-node" in event.job}


def of_line(line: int) -> dict[str, Event]:
    return nodes(give(SOURCE, LINES[line - 1]))


def test_dag_disable_fail_fast_failed_though_d_and_e_succeeded() -> None:
    found = of_line(FAIL_FAST)
    assert give(SOURCE, LINES[FAIL_FAST - 1]).events[0].phase == "FAILED"
    assert {name: found[name].phase for name in "ABCDE"} == dict.fromkeys("ABDE", "SUCCEEDED") | {"C": "FAILED"}
    assert (found["C"].attempt, found["B"].attempt) == (2, 1)
    assert [found[f"C({n})"].phase for n in (0, 1)] == ["FAILED", "FAILED"]


def test_dag_with_retries_is_active_though_its_label_says_failed() -> None:
    box = workflow(DAG_RETRIES)
    assert box["metadata"]["labels"]["workflows.argoproj.io/phase"] == "Failed"
    assert "phase" not in box["status"]
    event = give(SOURCE, LINES[DAG_RETRIES - 1]).events[0]
    assert (event.phase, event.word) == ("RUNNING", "")


def test_a_retry_node_that_succeeded_at_its_third_attempt() -> None:
    step = of_line(DAG_RETRIES)["step1"]
    assert (step.phase, step.attempt) == ("SUCCEEDED", 3)


def test_attempts_are_jobs_of_another_kind_and_children_of_their_node() -> None:
    found = of_line(DAG_RETRIES)
    tries = [found[f"step1({n})"] for n in range(3)]
    assert [event.phase for event in tries] == ["FAILED", "FAILED", "SUCCEEDED"]
    assert {event.job.split("/")[3] for event in tries} == {"workflow-node-attempt"}
    assert {event.parent for event in tries} == {found["step1"].job}
    assert {event.root for event in found.values()} == {
        "default/kubernetes/default/workflow/d37a2abe-9574-11e8-b103-025000000001"
    }


def test_failed_retries_started_years_after_they_finished_and_no_duration_is_negative() -> None:
    given = give(SOURCE, LINES[FAILED_RETRIES - 1])
    found = nodes(given)
    pods = [found[name] for name in ("fail(0)", "fail(1)", "delayed-fail(0)", "delayed-fail(1)")]
    assert {(event.phase, event.start) for event in pods} == {("FAILED", "")}
    assert all(event.end for event in pods)
    assert given.unknown == ("times:end before start",) * 4


def test_a_running_retry_node_whose_last_attempt_failed_is_retrying() -> None:
    found = of_line(FAILED_RETRIES)
    assert (found["delayed-fail"].phase, found["delayed-fail"].attempt) == ("RETRYING", 2)
    assert (found["fail"].phase, found["fail"].attempt) == ("FAILED", 2)


def test_a_node_fails_while_its_workflow_runs_on() -> None:
    found = of_line(DAG_FAIL)
    assert (found["C"].phase, found["B"].phase) == ("FAILED", "SUCCEEDED")
    assert give(SOURCE, LINES[DAG_FAIL - 1]).events[0].phase == "RUNNING"


def test_nodes_take_the_version_of_their_workflow() -> None:
    assert {event.revision for event in of_line(FAIL_FAST).values()} == {"15772210"}


@pytest.mark.parametrize("stop", ["Stop", "Terminate"])
def test_a_workflow_that_was_stopped_is_cancelled(stop: str) -> None:
    box = workflow(FAIL_FAST)
    box["spec"]["shutdown"] = stop
    event = mapped(box).events[0]
    assert (event.phase, event.reason, event.word) == ("CANCELLED", "USER", "Failed")
    box["status"] |= {"phase": "Running", "finishedAt": None}
    assert mapped(box).events[0].phase == "CANCELLING"


@pytest.mark.parametrize(
    ("phase", "kind", "expected", "reason"),
    [
        ("Skipped", "Pod", "SKIPPED", ""),
        ("Omitted", "Pod", "SKIPPED", "OMITTED"),
        ("Error", "Pod", "FAILED", "ERROR"),
        ("Running", "Suspend", "PAUSED", ""),
        ("Pending", "Pod", "PENDING", ""),
        ("Molten", "Pod", "UNKNOWN", ""),
    ],
)
def test_phases_of_nodes(phase: str, kind: str, expected: str, reason: str) -> None:
    box = workflow(FAIL_FAST)
    box["status"]["nodes"] = {"n-1": {"type": kind, "phase": phase, "displayName": "n"}}
    event = nodes(mapped(box))["n"]
    assert (event.phase, event.reason, event.word) == (expected, reason, phase)


def test_a_hook_is_not_an_attempt_of_a_retry_node() -> None:
    box = workflow(DAG_RETRIES)
    box["status"]["nodes"]["dag-with-retries-4wkh8-2172006682"]["nodeFlag"] = {"hooked": True}
    assert nodes(mapped(box))["step1"].attempt == 2


def test_packed_nodes_say_the_same_as_plain_ones() -> None:
    box = workflow(FAIL_FAST)
    plain = mapped(box)
    packed = base64.b64encode(gzip.compress(json.dumps(box["status"].pop("nodes")).encode())).decode()
    box["status"]["compressedNodes"] = packed
    assert mapped(box) == plain


def test_packed_nodes_that_do_not_unpack_or_unpack_too_far_are_rejected() -> None:
    box = workflow(FAIL_FAST)
    del box["status"]["nodes"]
    bomb = base64.b64encode(gzip.compress(b'{"a":"' + b"a" * (64 << 20) + b'"}')).decode()
    for packed, code in (("no base64!", "BAD_NODES"), ("AAAA", "BAD_NODES"), (bomb, "TOO_LARGE")):
        box["status"]["compressedNodes"] = packed
        assert mapped(box).code == code


def test_nodes_kept_in_a_database_are_reported() -> None:
    box = workflow(FAIL_FAST)
    del box["status"]["nodes"]
    box["status"]["offloadNodeStatusVersion"] = "fnv:784644190"
    assert mapped(box).unknown == ("nodes:offloaded",)
