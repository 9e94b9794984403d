"""OpenLineage: every run ends as the shipped table says, in any order; Airflow's facets tell what run events do not."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.sources.base import Mapped, SourceSettings
from finality.sources.openlineage import OpenLineage
from support.mapped_files import DATA, MappedFile, map_file, orders
from support.reduce_events import State, reduce_events

EVENTS = DATA / "openlineage" / "events.ndjson.gz"
RUN = "default/openlineage/default/run/"
TASK = "default/openlineage/default/task/"


@pytest.fixture(scope="module")
def source() -> OpenLineage:
    return OpenLineage(SourceSettings())


@pytest.fixture(scope="module")
def mapped(source: OpenLineage) -> MappedFile:
    return map_file(source, EVENTS)


@pytest.fixture(scope="module")
def states(mapped: MappedFile) -> dict[str, State]:
    return reduce_events(mapped.events)


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    with (DATA / "openlineage" / "runs.expected.tsv").open(encoding="utf-8") as lines:
        return {row["runId"]: row for row in csv.DictReader(lines, delimiter="\t")}


def lines_of(mapped: MappedFile, *numbers: int) -> list[Event]:
    return [event for number in numbers for event in mapped.of_line(number)]


def test_all_64_runs_end_as_the_table_says_in_any_order(mapped: MappedFile, table: dict[str, dict[str, str]]) -> None:
    expected = {RUN + run: row["expected"] for run, row in table.items()}
    assert len(expected) == 64
    for order, events in orders(mapped.events):
        assert {job: state.wording for job, state in reduce_events(events).items()} == expected, order


def test_the_51_runs_with_readable_times_are_all_there_without_the_others(
    mapped: MappedFile, table: dict[str, dict[str, str]]
) -> None:
    timed = reduce_events(lines_of(mapped, *(n for n in range(1, 111) if n not in (98, 100))))
    readable = {RUN + run: row["expected"] for run, row in table.items() if row["bad_time_events"] == "0"}
    assert len(readable) == 51
    assert {job: state.wording for job, state in timed.items()} == readable


def test_no_run_is_in_conflict(states: dict[str, State]) -> None:
    assert not any(state.conflict for state in states.values())


def test_names_and_parents_are_those_of_the_table(mapped: MappedFile, table: dict[str, dict[str, str]]) -> None:
    for event in mapped.events:
        row = table[event.job.removeprefix(RUN)]
        assert event.name == f"{row['namespaces']}.{row['jobs']}"
    told = {(event.job, event.parent) for event in mapped.events if event.parent}
    assert told == {(RUN + run, RUN + row["parent_runId"]) for run, row in table.items() if row["parent_runId"]}


def test_16_runs_have_an_ending_and_no_start_and_end_all_the_same(
    states: dict[str, State], table: dict[str, dict[str, str]]
) -> None:
    unstarted = [RUN + run for run, row in table.items() if row["has_start"] == "0" and row["terminal_events"] != "0"]
    assert len(unstarted) == 16
    assert {states[job].wording for job in unstarted} == {"SUCCEEDED"}
    assert {states[job].start for job in unstarted} == {""}


def test_the_exact_duplicates_61_to_64_and_105_add_nothing(mapped: MappedFile) -> None:
    for first, again in ((55, 61), (56, 62), (57, 63), (58, 64), (82, 105)):
        assert mapped.of_line(first) == mapped.of_line(again)


@pytest.mark.parametrize(
    ("run", "endings"), [("ea041791-68bc-4ae1-bd89-4c8106a157e4", 5), ("41fb5137-f0fd-4ee5-ba5c-56f8571d1bd7", 8)]
)
def test_several_complete_events_of_one_run_are_one_ending(
    mapped: MappedFile, states: dict[str, State], run: str, endings: int
) -> None:
    assert sum(event.job == RUN + run and event.phase == "SUCCEEDED" for event in mapped.events) == endings
    assert (states[RUN + run].phase, states[RUN + run].attempts) == ("SUCCEEDED", 1)


def test_lines_98_and_100_have_no_run_and_end_nothing(mapped: MappedFile) -> None:
    assert {number: code for number, code in mapped.lines.items() if isinstance(code, str)} == {
        98: "NO_RUN",
        100: "NO_RUN",
    }


def test_lines_103_and_104_without_type_change_no_phase_whatever_their_order(
    mapped: MappedFile, states: dict[str, State]
) -> None:
    first, second = lines_of(mapped, 103, 104)
    assert int(first.at) > int(second.at)
    assert (first.precision, second.precision) == ("us", "ms")
    assert (first.phase, second.phase, states[first.job].wording) == ("", "", "UNKNOWN")


def test_line_65_has_a_run_id_that_is_no_uuid(mapped: MappedFile) -> None:
    (event,) = mapped.of_line(65)
    assert (event.job, event.name, event.phase) == (RUN + "run_id", "job_namespace.job_name", "SUCCEEDED")


def test_line_78_without_zone_is_unknown_until_the_setting_gives_one(mapped: MappedFile) -> None:
    (event,) = mapped.of_line(78)
    assert (event.at, event.precision, event.phase) == ("", "none", "RUNNING")
    zoned = map_file(OpenLineage(SourceSettings(zone="UTC")), EVENTS).of_line(78)[0]
    assert (zoned.at, zoned.precision) == ("1635936832427343000", "us")


def test_21_events_at_plus_10_hours_are_told_in_utc(mapped: MappedFile) -> None:
    (event,) = mapped.of_line(89)
    assert (event.at, event.precision) == ("1598742000000000000", "ms")


def test_lines_66_to_75_start_and_end_at_one_time_and_line_75_alone_fails(mapped: MappedFile) -> None:
    events = lines_of(mapped, *range(66, 76))
    assert len({event.at for event in events}) == 1
    ends = reduce_events(events)
    assert [job for job, state in ends.items() if state.phase == "FAILED"] == [mapped.of_line(75)[0].job]
    assert sum(state.phase == "SUCCEEDED" for state in ends.values()) == 4


def test_lines_111_to_136_have_unfilled_times_which_are_unknown_and_reported(mapped: MappedFile) -> None:
    events = lines_of(mapped, *range(111, 137))
    assert {(event.at, event.precision) for event in events} == {("", "none")}
    assert {state.phase for state in reduce_events(events).values()} == {"SUCCEEDED"}
    line = mapped.lines[111]
    assert isinstance(line, Mapped)
    assert line.unknown == ("eventTime {{RUN_START_TIME}}",)
    assert sum(mapped.unknown.values()) == 27


def test_line_101_of_159_kb_is_read(source: OpenLineage, mapped: MappedFile) -> None:
    record = list(source.read(EVENTS))[100]
    assert len(record.value) > 150_000
    assert len(mapped.of_line(101)) == 1


def test_the_job_name_with_a_spider_on_it_is_kept(mapped: MappedFile) -> None:
    assert [event.name for event in mapped.events if "🕷" in event.name] == ["my-scheduler-namespace.myjob.buggy_task🕷"]


def test_broken_facets_on_lines_83_to_87_do_not_cost_the_ending(mapped: MappedFile) -> None:
    events = lines_of(mapped, *range(83, 88))
    assert {event.phase for event in events} == {"SUCCEEDED"}
    assert {event.parent for event in events} == {""}
    assert all("rows_out" not in event.metrics for event in events)
    assert mapped.of_line(86)[0].metrics == {"bytes_out": "2097152"}


def airflow(kind: str, attempt: int, second: int, run: str, retries: int = 1, **more: Any) -> bytes:
    facets = {
        "airflow": {
            "task": {"task_id": "load", "retries": retries},
            "taskInstance": {"try_number": attempt, "queued_dttm": "2026-11-30T20:59:00Z", **more},
        },
        "parent": {"run": {"runId": "dag-run"}, "job": {"namespace": "prod", "name": "daily"}},
    }
    return json.dumps(
        {
            "eventType": kind,
            "eventTime": f"2026-11-30T21:00:{second:02}Z",
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": "prod", "name": "daily.load"},
        }
    ).encode()


def dag_end(kind: str, second: int, **tasks: Any) -> bytes:
    facets = {"airflowState": {"dagRunState": "failed", "tasksState": tasks}}
    return json.dumps(
        {
            "eventType": kind,
            "eventTime": f"2026-11-30T21:00:{second:02}Z",
            "run": {"runId": "dag-run", "facets": facets},
            "job": {"namespace": "prod", "name": "daily"},
        }
    ).encode()


def ends(source: OpenLineage, *records: bytes) -> dict[str, tuple[str, str, int]]:
    """Phase, reason and attempts by job, checked for every order."""
    events = [event for record in records for event in source.map(record, ()).events]
    told = [
        {job: (state.phase, state.reason, state.attempts) for job, state in reduce_events(mixed).items()}
        for _, mixed in orders(events)
    ]
    assert all(answer == told[0] for answer in told)
    return told[0]


def test_a_first_failure_with_a_retry_left_is_retrying_and_not_failed(source: OpenLineage) -> None:
    (event,) = source.map(airflow("FAIL", 1, 5, "run-1"), ()).events
    assert (event.job, event.phase, event.reason) == (TASK + "dag-run%2Fload", "RETRYING", "ERROR")
    assert (event.attempt, event.max_attempts, event.parent) == (1, 2, RUN + "dag-run")
    assert event.created == "1796072340000000000"


def test_tries_under_different_run_ids_are_attempts_of_one_task(source: OpenLineage) -> None:
    assert ends(
        source,
        airflow("START", 1, 1, "run-1"),
        airflow("FAIL", 1, 2, "run-1"),
        airflow("START", 2, 3, "run-2"),
        airflow("COMPLETE", 2, 4, "run-2"),
    ) == {TASK + "dag-run%2Fload": ("SUCCEEDED", "", 2)}


def test_the_last_try_that_fails_has_failed(source: OpenLineage) -> None:
    told = ends(source, airflow("FAIL", 1, 2, "run-1"), airflow("FAIL", 2, 4, "run-2"))
    assert told == {TASK + "dag-run%2Fload": ("FAILED", "ERROR", 2)}


def test_a_task_that_gives_up_early_is_failed_by_the_end_of_its_dag_run(source: OpenLineage) -> None:
    told = ends(source, airflow("FAIL", 1, 2, "run-1"), dag_end("FAIL", 3, load="failed"))
    assert told[TASK + "dag-run%2Fload"][:2] == ("FAILED", "ERROR")
    assert told[RUN + "dag-run"][:2] == ("FAILED", "ERROR")


def test_skipped_and_upstream_failed_are_told_by_the_end_of_the_dag_run_alone(source: OpenLineage) -> None:
    told = ends(source, dag_end("FAIL", 9, branch="skipped", late="UPSTREAM_FAILED", gone="removed", fine="success"))
    assert told == {
        RUN + "dag-run": ("FAILED", "ERROR", 1),
        TASK + "dag-run%2Fbranch": ("SKIPPED", "", 0),
        TASK + "dag-run%2Flate": ("FAILED", "UPSTREAM_FAILED", 0),
        TASK + "dag-run%2Fgone": ("CANCELLED", "REMOVED", 0),
    }


def test_the_last_word_wins_over_a_complete_from_a_worker_whose_clock_is_ahead(source: OpenLineage) -> None:
    told = ends(source, airflow("COMPLETE", 1, 50, "run-1"), dag_end("COMPLETE", 9, load="skipped"))
    assert told[TASK + "dag-run%2Fload"][:2] == ("SKIPPED", "")


def test_open_words_and_words_nobody_knows_end_no_task(source: OpenLineage) -> None:
    mapped = source.map(dag_end("FAIL", 9, a="running", b="up_for_retry", c=None, d="levitating", e=5), ())
    assert [event.job for event in mapped.events] == [RUN + "dag-run"]
    assert mapped.unknown == ("task state levitating",)


def test_each_mapped_task_instance_is_a_task_of_its_own(source: OpenLineage) -> None:
    (event,) = source.map(airflow("FAIL", 1, 2, "run-1", map_index=3), ()).events
    assert event.job == TASK + "dag-run%2Fload%5B3%5D"


def test_a_task_without_retries_is_a_run_like_any_other(source: OpenLineage) -> None:
    assert ends(source, airflow("FAIL", 1, 2, "run-1", retries=0)) == {RUN + "run-1": ("FAILED", "ERROR", 1)}


def event_of(**fields: Any) -> bytes:
    base = {"eventType": "START", "eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "r"}, "job": {"name": "j"}}
    return json.dumps(base | fields).encode()


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        ("START", "RUNNING"),
        ("RUNNING", "RUNNING"),
        ("COMPLETE", "SUCCEEDED"),
        ("FAIL", "FAILED"),
        ("ABORT", "CANCELLED"),
        ("OTHER", ""),
        ("", ""),
        ("complete", "UNKNOWN"),
        ("EXPLODE", "UNKNOWN"),
    ],
)
def test_each_event_type_becomes_its_phase(source: OpenLineage, kind: str, phase: str) -> None:
    mapped = source.map(event_of(eventType=kind), ())
    assert mapped.events[0].phase == phase
    assert mapped.unknown == ((f"eventType {kind}",) if phase == "UNKNOWN" else ())


def test_row_counts_are_summed_over_the_datasets_that_state_them(source: OpenLineage) -> None:
    outputs = [{"outputFacets": {"outputStatistics": {"rowCount": n, "size": 10}}} for n in (5, 7, "x", -1, True)]
    (event,) = source.map(event_of(outputs=outputs, inputs=[None, {"inputFacets": 3}]), ()).events
    assert event.metrics == {"rows_out": "12", "bytes_out": "50"}


def test_labels_come_from_tags_job_type_and_dbt(source: OpenLineage) -> None:
    job = {
        "name": "j",
        "facets": {
            "tags": {"tags": [{"key": "team", "value": "data"}, {"key": "ü"}, 4]},
            "jobType": {"integration": "DBT", "jobType": "MODEL"},
        },
    }
    run = {"runId": "r", "facets": {"dbt_run": {"invocation_id": "i-1"}, "parent": {"root": {"run": {"runId": "top"}}}}}
    (event,) = source.map(event_of(job=job, run=run), ()).events
    assert event.labels == {"team": "data", "integration": "DBT", "type": "MODEL", "invocation": "i-1"}
    assert event.root == RUN + "top"


@pytest.mark.parametrize(
    "fields",
    [{"run": None}, {"run": []}, {"run": {}}, {"run": {"runId": ""}}, {"run": {"runId": 7}}, {"run": {"runId": None}}],
)
def test_an_event_without_a_run_id_is_rejected_and_none_is_invented(
    source: OpenLineage, fields: dict[str, Any]
) -> None:
    with pytest.raises(Rejected) as refusal:
        source.map(event_of(**fields), ())
    assert refusal.value.code == "NO_RUN"


def test_a_run_id_too_long_for_a_key_is_rejected(source: OpenLineage) -> None:
    with pytest.raises(Rejected) as refusal:
        source.map(event_of(run={"runId": "r" * 600}), ())
    assert refusal.value.code == "KEY_TOO_LONG"


def test_more_tasks_than_the_limit_are_rejected(source: OpenLineage) -> None:
    with pytest.raises(Rejected) as refusal:
        source.map(dag_end("FAIL", 9, **{f"t{n}": "skipped" for n in range(4097)}), ())
    assert refusal.value.code == "TOO_MANY_TASKS"
