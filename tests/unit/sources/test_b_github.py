"""GitHub records reach the truth of the recorded runs, in any order of arrival, and each known trap has its test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.core.jobkey import parse_job_key
from finality.sources.base import Reading, SourceSettings
from finality.sources.github import GitHub
from support.mapped_files import DATA
from support.reduce_events import State, reduce_events
from support.sourced import Given, deliveries, events_of, give, give_file, table

FOLDER = DATA / "github-actions"
SOURCE = GitHub(SourceSettings())
POLLS = list(SOURCE.read(FOLDER / "run-polls.ndjson.gz"))
HOOKS = list(SOURCE.read(FOLDER / "webhooks.ndjson.gz"))
RUNS = table(FOLDER / "runs.expected.tsv")
PAYLOADS = table(FOLDER / "webhooks.expected.tsv")


def wording(phase: str, reason: str) -> str:
    """A phase in the words of the tables."""
    if reason == "ACTION_REQUIRED":
        return "WAITING"
    return "ACTIVE" if phase in ("PENDING", "RUNNING", "PAUSED", "CANCELLING") else phase


def states(readings: list[Reading]) -> dict[str, State]:
    return reduce_events(events_of(give(SOURCE, reading) for reading in readings))


def key(kind: str, ident: object) -> str:
    return f"default/github/default/{kind}/{ident}"


def polls_of(run: int) -> list[Reading]:
    return [reading for reading in POLLS if json.loads(reading.value)["workflow_run"]["id"] == run]


def hook(line: int) -> Event:
    (event,) = give(SOURCE, HOOKS[line - 1]).events
    return event


def mapped(body: dict[str, Any], event: str = "") -> Given:
    headers = (("X-GitHub-Event", event.encode()),) if event else ()
    return give(SOURCE, Reading(json.dumps(body).encode(), headers))


def test_every_polled_run_reaches_its_truth_in_any_order() -> None:
    truth = {key("run", row["run_id"]): row["final_by_updated_at"] for row in RUNS}
    assert len(truth) == 122
    for how, readings in deliveries(POLLS):
        found = {job: wording(state.phase, state.reason) for job, state in states(readings).items()}
        assert found == truth, how


def test_only_the_run_with_two_endings_at_one_time_is_a_conflict() -> None:
    for how, readings in deliveries(POLLS):
        assert [job for job, state in states(readings).items() if state.conflict] == [key("run", 6804432015)], how


def test_attempts_of_polled_runs_are_those_of_the_table() -> None:
    found = states(POLLS)
    for row in RUNS:
        assert max(found[key("run", row["run_id"])].attempts, 1) == int(row["attempts"]), row["run_id"]


@pytest.mark.parametrize("row", PAYLOADS, ids=lambda row: f"{row['line']}-{row['event']}")
def test_every_webhook_gives_the_state_that_it_carries(row: dict[str, str]) -> None:
    given = give(SOURCE, HOOKS[int(row["line"]) - 1])
    if row["expected"] == "NOT_A_STATE":
        assert given == Given(())
        return
    (event,) = given.events
    assert wording(event.phase, event.reason) == row["expected"]
    assert event.word == (f"completed/{row['conclusion']}" if row["status"] == "completed" else row["status"])
    assert event.attempt == int(row["run_attempt"] or 0)
    assert given.unknown == ()


def test_webhooks_reach_the_same_states_in_any_order() -> None:
    expected = states(HOOKS)
    assert len(expected) == 11
    for how, readings in deliveries(HOOKS):
        assert states(readings) == expected, how


def test_run_686036126_ended_twice_under_one_id_and_its_last_state_counts() -> None:
    own = polls_of(686036126)
    words = [events_of([give(SOURCE, reading)])[0].word for reading in own]
    assert len(own) == 8
    assert {"in_progress", "completed/cancelled"} == set(words)
    assert states(own)[key("run", 686036126)].phase == "CANCELLED"


def test_run_2874767918_waits_for_a_person_and_then_succeeds_in_attempt_2() -> None:
    own = polls_of(2874767918)
    (first,) = [e for e in events_of(give(SOURCE, r) for r in own) if e.attempt == 1]
    assert (first.phase, first.reason, first.end) == ("PAUSED", "ACTION_REQUIRED", "")
    state = states(own)[key("run", 2874767918)]
    assert (state.phase, state.attempts) == ("SUCCEEDED", 2)


def test_run_6804432015_says_two_endings_at_one_time_and_is_reported() -> None:
    state = states(POLLS)[key("run", 6804432015)]
    assert (state.phase, state.conflict) == ("CONFLICT", True)


def test_93_observations_without_attempt_and_start_still_count() -> None:
    events = events_of(give(SOURCE, reading) for reading in POLLS)
    old = [event for event in events if event.attempt == 0]
    assert len(old) == 93
    assert all(event.start == "" and event.at for event in old)


def test_28_repeated_observations_change_nothing() -> None:
    bodies = [json.dumps(json.loads(reading.value)["workflow_run"], sort_keys=True) for reading in POLLS]
    first = [reading for place, reading in enumerate(POLLS) if bodies[place] not in bodies[:place]]
    assert len(POLLS) - len(first) == 28
    assert states(first) == states(POLLS)


def test_id_289782451_of_a_run_and_of_a_job_are_two_jobs() -> None:
    keys = {parse_job_key(event.job)[3:] for event in events_of(give(SOURCE, r) for r in HOOKS)}
    assert {("run", "289782451"), ("job", "289782451")} <= keys


def test_check_run_128620228_completed_with_failure_and_success_at_one_time_is_a_conflict() -> None:
    state = states(HOOKS[:3])[key("check-run", 128620228)]
    assert (state.phase, state.conflict) == ("CONFLICT", True)


def test_job_289782451_runs_again_in_september_after_it_completed_in_august() -> None:
    own = [HOOKS[line - 1] for line in (24, 25, 27)]
    for how, readings in deliveries(own):
        assert states(readings)[key("job", 289782451)].phase == "RUNNING", how


def test_action_queued_with_status_waiting_is_waiting() -> None:
    assert (hook(28).phase, hook(28).word) == ("PAUSED", "waiting")


def test_a_start_after_the_state_is_left_out_and_no_duration_is_negative() -> None:
    assert hook(32).start == ""
    for event in events_of(give(SOURCE, r) for r in POLLS + HOOKS):
        assert not (event.start and event.at) or int(event.start) <= int(event.at)


def test_action_rerequested_brings_the_old_success_and_no_new_state() -> None:
    for line in (15, 16):
        assert (hook(line).phase, hook(line).at) == (hook(9).phase, hook(9).at)


def test_commit_statuses_without_action_are_states_of_repository_commit_and_context() -> None:
    for line in (20, 21, 22):
        kind, ident = parse_job_key(hook(line).job)[3:]
        assert (kind, hook(line).phase) == ("status", "SUCCEEDED")
        assert ident.endswith("/6113728f27ae82c7b1a177c8d03f9e96e0adf246/default")


def test_a_deployment_status_that_carries_a_whole_run_speaks_for_its_deployment_only() -> None:
    assert hook(17).job == key("deployment", 145988746)
    assert (hook(17).phase, hook(17).labels["environment"]) == ("RUNNING", "github-pages")


def test_the_header_names_the_event_where_there_is_no_wrapper() -> None:
    for line in range(1, 33):
        record = json.loads(HOOKS[line - 1].value)
        assert mapped(record["payload"], record["event"]) == give(SOURCE, HOOKS[line - 1])


def test_a_payload_without_any_name_is_told_by_its_shape() -> None:
    for line in set(range(1, 33)) - {23}:
        record = json.loads(HOOKS[line - 1].value)
        assert mapped(record["payload"]) == give(SOURCE, HOOKS[line - 1]), line


def test_a_page_of_the_api_gives_each_run_and_a_bad_one_loses_no_other() -> None:
    runs = [json.loads(reading.value)["workflow_run"] for reading in POLLS[:3]]
    page = {"total_count": 4, "workflow_runs": [runs[0], {"id": None}, runs[1], runs[2]]}
    given = mapped(page)
    assert [event.job for event in given.events] == [key("run", run["id"]) for run in runs]
    assert given.unknown == ("item:NO_ID",)
    with pytest.raises(Rejected, match="NO_ID"):
        SOURCE.map(json.dumps({"workflow_runs": [{"id": None}]}).encode(), ())


def test_an_unknown_word_is_kept_and_counted_and_never_an_ending() -> None:
    run = json.loads(POLLS[0].value)["workflow_run"]
    for status, conclusion, word in (
        ("parked", None, "parked"),
        ("completed", "exploded", "completed/exploded"),
        ("completed", None, "completed/"),
    ):
        given = mapped({"workflow_run": run | {"status": status, "conclusion": conclusion}})
        assert (given.events[0].phase, given.events[0].word) == ("UNKNOWN", word)
        assert given.unknown == (f"status:{word}",)


def test_an_unknown_event_is_counted_and_gives_no_state() -> None:
    assert mapped({"action": "x"}, "quantum_run") == Given((), ("event:quantum_run",))
    assert mapped({"zen": "Keep it simple."}, "ping") == Given(())


@pytest.mark.parametrize(
    ("conclusion", "phase", "reason"),
    [
        ("timed_out", "FAILED", "TIMEOUT"),
        ("neutral", "SUCCEEDED", "NEUTRAL"),
        ("skipped", "SKIPPED", ""),
        ("stale", "INCONCLUSIVE", "STALE"),
        ("startup_failure", "FAILED", "STARTUP_FAILURE"),
    ],
)
def test_every_conclusion_has_its_phase(conclusion: str, phase: str, reason: str) -> None:
    run = json.loads(POLLS[5].value)["workflow_run"] | {"status": "completed", "conclusion": conclusion}
    (event,) = mapped({"workflow_run": run}).events
    assert (event.phase, event.reason) == (phase, reason)


def test_a_reported_status_goes_from_pending_to_success_under_two_ids() -> None:
    base = json.loads(HOOKS[19].value)["payload"]
    later = base | {"id": base["id"] + 1, "state": "success", "updated_at": "2019-05-15T15:21:55+00:00"}
    readings = [Reading(json.dumps(body).encode()) for body in (later, base | {"state": "pending"})]
    (state,) = states(readings).values()
    assert state.phase == "SUCCEEDED"


def test_an_inactive_deployment_keeps_the_ending_that_it_had() -> None:
    base = json.loads(HOOKS[17].value)["payload"]
    status = base["deployment_status"] | {"state": "inactive", "created_at": "2019-05-16T00:00:00Z"}
    readings = [HOOKS[17], Reading(json.dumps(base | {"deployment_status": status}).encode())]
    (state,) = states(readings).values()
    assert (state.phase, state.conflict) == ("SUCCEEDED", False)


def test_a_job_knows_its_run_as_parent_and_root() -> None:
    assert (hook(24).parent, hook(24).root) == (key("run", 2202229078), key("run", 2202229078))


def test_tenant_and_instance_of_the_settings_stand_in_the_key() -> None:
    source = GitHub(SourceSettings(tenant="blue", instance="ghe-1"))
    (given,) = [give(source, POLLS[0])]
    assert given.events[0].job == "blue/github/ghe-1/run/2874767916"


def test_files_are_read_whole() -> None:
    assert (len(POLLS), len(HOOKS)) == (156, 32)
    assert all(not one.code for one in give_file(SOURCE, FOLDER / "webhooks.ndjson.gz"))
