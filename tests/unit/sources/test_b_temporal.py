"""Temporal histories reach the truth of each run, ordered by event number and never by time."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from finality.core.event import Event
from finality.sources.base import Reading, SourceSettings
from finality.sources.temporal import Temporal
from support.mapped_files import DATA
from support.reduce_events import State, reduce_events
from support.sourced import Given, deliveries, events_of, give, table

FOLDER = DATA / "temporal"
SOURCE = Temporal(SourceSettings())
LINES = list(SOURCE.read(FOLDER / "histories.ndjson.gz"))
TRUTH = table(FOLDER / "expected.tsv")
HISTORIES: list[list[dict[str, Any]]] = [json.loads(reading.value)["history"]["events"] for reading in LINES]


def key(run: str) -> str:
    return f"default/temporal/default/workflow/{run}"


def states(readings: list[Reading]) -> dict[str, State]:
    return reduce_events(events_of(give(SOURCE, reading) for reading in readings))


def events(line: int) -> tuple[Event, ...]:
    return give(SOURCE, LINES[line - 1]).events


def mapped(history: list[dict[str, Any]]) -> Given:
    return give(SOURCE, Reading(json.dumps({"events": history}).encode()))


def kind(event: dict[str, Any]) -> str:
    return str(event["eventType"]).removeprefix("EVENT_TYPE_").replace("_", "").lower()


def row_id(row: dict[str, str]) -> str:
    return f"{row['line']}-{row['expected']}"


@pytest.mark.parametrize("row", [row for row in TRUTH if row["run_id"]], ids=row_id)
def test_every_history_has_its_truth(row: dict[str, str]) -> None:
    state = states([LINES[int(row["line"]) - 1]])[key(row["run_id"])]
    assert state.wording == row["expected"]
    assert not state.conflict


@pytest.mark.parametrize("row", [row for row in TRUTH if row["run_id"]], ids=row_id)
def test_episodes_of_every_history_are_counted(row: dict[str, str]) -> None:
    metrics = events(int(row["line"]))[-1].metrics
    found = {
        "events": metrics["history_events"],
        "activities_scheduled": metrics["activities_scheduled"],
        "activities_completed": metrics["activities_completed"],
        "activities_timed_out": metrics["activities_timed_out"],
        "workflow_task_failed": metrics["workflow_tasks_failed"],
        "workflow_task_timed_out": metrics["workflow_tasks_timed_out"],
        "cancel_requested": metrics["cancel_requests"],
    }
    assert found == {name: row[name] for name in found}


def test_every_run_reaches_its_truth_in_any_order() -> None:
    truth = {key(row["run_id"]): row["expected"] for row in TRUTH if row["run_id"]}
    assert len(truth) == 55
    for how, readings in deliveries(LINES):
        assert {job: state.wording for job, state in states(readings).items()} == truth, how


def test_a_history_without_a_run_id_is_rejected_and_loses_no_other() -> None:
    codes = [give(SOURCE, reading).code for reading in LINES]
    assert [line for line, code in enumerate(codes, 1) if code] == [2]
    assert codes[1] == "NO_ID"


def test_both_spellings_of_a_type_are_one_word() -> None:
    screaming = [one for one in HISTORIES if one[0]["eventType"].startswith("EVENT_TYPE_")]
    assert len(screaming) == 14
    assert {event.word for line in range(1, 65) for event in events(line)} == {
        "WorkflowExecutionStarted",
        "WorkflowExecutionCancelRequested",
        "WorkflowExecutionCompleted",
        "WorkflowExecutionFailed",
        "WorkflowExecutionContinuedAsNew",
    }


def test_time_goes_back_in_4_histories_and_the_number_orders_them() -> None:
    back = [row for row in TRUTH if int(row["time_goes_back"])]
    assert len(back) == 4
    assert sum(int(row["time_goes_back"]) for row in back) == 6
    for row in back:
        history = list(HISTORIES[int(row["line"]) - 1])
        random.Random(7).shuffle(history)
        assert mapped(history).events == events(int(row["line"]))
        assert events(int(row["line"]))[-1].revision == str(len(history))


def test_event_ids_are_strings_of_digits_or_numbers_and_order_as_numbers() -> None:
    line = next(n for n, one in enumerate(HISTORIES, 1) if len(one) > 100 and events(n))
    assert int(events(line)[-1].revision) > 99
    as_numbers = [event | {"eventId": int(event["eventId"])} for event in HISTORIES[line - 1]]
    assert mapped(as_numbers).events == events(line)


def test_failed_or_timed_out_workflow_tasks_and_activities_end_nothing() -> None:
    for word, lines in (("workflowtaskfailed", 4), ("workflowtasktimedout", 1), ("activitytasktimedout", 1)):
        own = [n for n, one in enumerate(HISTORIES, 1) if any(kind(event) == word for event in one)]
        assert len(own) == lines, word
        for line in own:
            assert [e.phase for e in events(line) if e.phase == "FAILED"] == (["FAILED"] if line == 64 else [])


def test_rainbow_statuses_fails_by_its_own_event_after_an_activity_timed_out() -> None:
    last = events(64)[-1]
    assert (last.phase, last.word, last.metrics["activities_timed_out"]) == ("FAILED", "WorkflowExecutionFailed", "1")


def test_cancel_requested_in_3_histories_that_complete_is_not_cancelled() -> None:
    asked = [int(row["line"]) for row in TRUTH if int(row["cancel_requested"])]
    assert len(asked) == 3
    for line in asked:
        assert [event.phase for event in events(line)] == ["RUNNING", "CANCELLING", "SUCCEEDED"]


def test_a_history_that_stops_after_a_cancel_request_is_cancelling() -> None:
    line = next(int(row["line"]) for row in TRUTH if int(row["cancel_requested"]))
    history = HISTORIES[line - 1]
    place = next(n for n, event in enumerate(history) if kind(event) == "workflowexecutioncancelrequested")
    cut = mapped(history[: place + 2]).events[-1]
    assert (cut.phase, cut.revision) == ("CANCELLING", str(place + 2))


def test_run_bdb5a608_is_on_two_lines_and_continued_once() -> None:
    own = [row for row in TRUTH if row["run_id"].startswith("bdb5a608")]
    assert [row["line"] for row in own] == ["7", "20"]
    state = states([LINES[6], LINES[19]])[key(own[0]["run_id"])]
    assert (state.phase, state.conflict) == ("CONTINUED", False)


def test_altered_copies_of_6_runs_agree_on_their_ending() -> None:
    ids = [row["run_id"] for row in TRUTH if row["run_id"]]
    twice = {one for one in ids if ids.count(one) > 1}
    assert len(twice) == 6
    found = states(LINES)
    assert not any(found[key(one)].conflict for one in twice)


def test_a_longer_copy_supersedes_a_shorter_one_in_any_order() -> None:
    history = HISTORIES[2]
    short, long = (Reading(json.dumps({"events": one}).encode()) for one in (history[:5], history))
    assert next(iter(states([short]).values())).phase == "RUNNING"
    for readings in ([short, long], [long, short], [long, short, short, long]):
        state = next(iter(states(readings).values()))
        assert (state.phase, state.conflict) == ("SUCCEEDED", False)
        assert state.metrics["history_events"] == str(len(history))


def test_a_page_from_the_middle_of_a_history_is_rejected() -> None:
    assert mapped(HISTORIES[2][3:]).code == "NO_START"
    assert mapped([]).code == "NO_EVENTS"
    assert give(SOURCE, Reading(b'{"history": {}}')).code == "NO_EVENTS"


def test_an_event_number_on_two_different_events_is_rejected() -> None:
    history = HISTORIES[2]
    assert mapped([*history, history[3]]).events == mapped(history).events
    assert mapped([*history, history[3] | {"eventType": "TimerFired"}]).code == "BAD_FIELD"


def test_a_reset_supersedes_the_history_that_it_copies_whatever_the_numbers() -> None:
    old = HISTORIES[2]
    reset = {
        "eventId": "5",
        "eventTime": "2023-01-05T00:00:00Z",
        "eventType": "WorkflowTaskFailed",
        "workflowTaskFailedEventAttributes": {"cause": "ResetWorkflow", "baseRunId": "old", "newRunId": "new"},
    }
    failed = {"eventId": "6", "eventTime": "2023-01-05T00:00:01Z", "eventType": "WorkflowExecutionFailed"}
    readings = [Reading(json.dumps({"events": one}).encode()) for one in (old, [*old[:4], reset, failed])]
    for how, mixed in deliveries(readings):
        (state,) = states(mixed).values()
        assert (state.phase, state.conflict) == ("FAILED", False), how


def test_3_recorded_histories_were_reset_and_keep_the_run_id_of_event_1() -> None:
    epochs = {line: events(line)[-1].revision_epoch for line in range(1, 65) if line != 2}
    assert [line for line, epoch in epochs.items() if epoch] == [43, 49, 50]
    assert all(epochs[line] > "1600000000000" for line in (43, 49, 50))


def test_an_unknown_event_type_is_counted_and_ends_nothing() -> None:
    history = HISTORIES[2][:5]
    given = mapped([*history, {"eventId": "6", "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_EVAPORATED"}])
    assert given.unknown == ("event:WorkflowExecutionEvaporated",)
    assert (given.events[-1].phase, given.events[-1].revision) == ("RUNNING", "6")


@pytest.mark.parametrize(
    ("word", "attributes", "phase", "reason"),
    [
        ("WorkflowExecutionTimedOut", {}, "FAILED", "TIMEOUT"),
        ("WorkflowExecutionCanceled", {}, "CANCELLED", "USER"),
        ("WorkflowExecutionTerminated", {}, "CANCELLED", "TERMINATED"),
        ("WorkflowExecutionPaused", {}, "PAUSED", "USER"),
        ("WorkflowExecutionFailed", {"newExecutionRunId": "r2"}, "FAILED", "ERROR"),
        (
            "WorkflowExecutionFailed",
            {"newExecutionRunId": "r2", "retryState": "RETRY_STATE_IN_PROGRESS"},
            "CONTINUED",
            "RETRY",
        ),
        ("WorkflowExecutionCompleted", {"newExecutionRunId": "r2"}, "SUCCEEDED", ""),
    ],
)
def test_endings_that_the_recorded_set_lacks(word: str, attributes: dict[str, str], phase: str, reason: str) -> None:
    field = word[:1].lower() + word[1:] + "EventAttributes"
    event = {"eventId": "6", "eventType": word, "eventTime": "2030-01-01T00:00:00Z", field: attributes}
    last = mapped([*HISTORIES[2][:5], event]).events[-1]
    assert (last.phase, last.reason, last.revision) == (phase, reason, "6")


def test_no_duration_is_negative() -> None:
    for line in range(1, 65):
        for event in events(line):
            assert not (event.start and event.end) or int(event.start) <= int(event.end)


def test_the_run_knows_its_start_and_its_end() -> None:
    state = states([LINES[63]])[key("ce42fef2-e58b-4ae1-a7ae-74aa04c3fae5")]
    assert (int(state.end) - int(state.start)) == 3600 * 10**9
