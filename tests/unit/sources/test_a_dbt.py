"""dbt's structured logs: every node and invocation ends as the shipped tables say, in any order of the lines."""

from __future__ import annotations

import csv
import json
from collections import Counter
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest

from finality.core.errors import Rejected
from finality.sources.base import NOTHING, Mapped, SourceSettings
from finality.sources.dbt import Dbt
from finality.sources.times import iso
from support.mapped_files import DATA, MappedFile, map_file, orders
from support.reduce_events import State, reduce_events

LOGS = DATA / "dbt" / "structured-logs.jsonl.gz"
NODE = "default/dbt/default/node/"
INVOCATION = "default/dbt/default/invocation/"


def table(name: str) -> list[dict[str, str]]:
    with (DATA / "dbt" / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def node_key(row: dict[str, str]) -> str:
    return NODE + quote(f"{row['invocation_id']}/{row['unique_id']}", safe="")


@pytest.fixture(scope="module")
def source() -> Dbt:
    return Dbt(SourceSettings())


@pytest.fixture(scope="module")
def mapped(source: Dbt) -> MappedFile:
    return map_file(source, LOGS)


@pytest.fixture(scope="module")
def states(mapped: MappedFile) -> dict[str, State]:
    return reduce_events(mapped.events)


def test_all_39_node_executions_and_12_invocations_end_as_the_tables_say_in_any_order(mapped: MappedFile) -> None:
    expected = {node_key(row): row["expected"] for row in table("nodes.expected.tsv")}
    assert Counter(expected.values()) == {"SUCCEEDED": 36, "FAILED": 3}
    expected |= {INVOCATION + row["invocation_id"]: row["command_expected"] for row in table("streams.expected.tsv")}
    assert (len(expected), len(mapped.lines), mapped.rejected, mapped.unknown) == (39 + 12, 1_569, {}, {})
    for order, events in orders(mapped.events):
        assert {job: state.wording for job, state in reduce_events(events).items()} == expected, order


def test_times_and_figures_of_each_node_are_those_of_the_table(states: dict[str, State]) -> None:
    for row in table("nodes.expected.tsv"):
        state = states[node_key(row)]
        assert state.start == iso(row["node_started_at"] + "Z")[0]
        assert state.end == iso(row["node_finished_at"] + "Z")[0]
        assert state.word == row["native_status"]
        assert Decimal(state.metrics["execution_time_s"]) == Decimal(row["execution_time_s"])
        assert state.metrics["failures"] == row["num_failures"]
        assert state.attempts == 1


def test_the_7_lines_after_a_nodes_end_with_status_none_say_nothing(source: Dbt, mapped: MappedFile) -> None:
    late: Counter[str] = Counter()
    for number, reading in enumerate(source.read(LOGS), 1):
        line = json.loads(reading.value)
        if line["data"].get("node_info", {}).get("node_status") == "None":
            late[line["info"]["name"]] += 1
            assert mapped.lines[number] == NOTHING
    assert late == {"RunResultError": 3, "RunResultFailure": 2, "SQLCompiledPath": 2}


def test_lines_after_command_completed_change_nothing_in_all_streams_but_the_first(mapped: MappedFile) -> None:
    followed = 0
    for row in table("streams.expected.tsv"):
        numbers = range(int(row["first_line"]), int(row["last_line"]) + 1)
        told = [(n, line) for n in numbers if isinstance(line := mapped.lines[n], Mapped) and line.events]
        last, line = told[-1]
        assert line.events[0].job == INVOCATION + row["invocation_id"]
        followed += last < numbers[-1]
    assert followed == 11


def test_the_orders_model_succeeds_in_two_invocations_and_errors_in_one(states: dict[str, State]) -> None:
    orders_model = [state for job, state in states.items() if job.endswith("model.jaffle_shop.orders")]
    assert Counter((state.phase, state.reason) for state in orders_model) == {
        ("SUCCEEDED", ""): 2,
        ("FAILED", "ERROR"): 1,
    }


def test_11_of_25_node_ids_occur_in_more_than_one_invocation(states: dict[str, State]) -> None:
    seen = Counter(job.rsplit("%2F", 1)[1] for job in states if job.startswith(NODE))
    assert (len(seen), sum(times > 1 for times in seen.values())) == (25, 11)


def test_invocation_bafba111_fails_with_19_of_its_20_nodes_fine(states: dict[str, State]) -> None:
    invocation = "bafba111-8366-4a41-b03b-2b9243c64d42"
    nodes = Counter(state.phase for job, state in states.items() if job.startswith(NODE + invocation))
    assert nodes == {"SUCCEEDED": 19, "FAILED": 1}
    assert states[INVOCATION + invocation].phase == "FAILED"


def test_78_failures_are_those_of_the_two_failed_tests_and_not_of_the_errored_model(states: dict[str, State]) -> None:
    failed = [state for job, state in states.items() if job.startswith(NODE) and state.phase == "FAILED"]
    assert sorted((state.reason, state.metrics["failures"]) for state in failed) == [
        ("ERROR", "0"),
        ("TEST_FAILED", "78"),
        ("TEST_FAILED", "78"),
    ]


def test_rows_affected_of_minus_one_is_unknown(mapped: MappedFile) -> None:
    assert all(not text.startswith("-") for event in mapped.events for text in event.metrics.values())
    assert any(event.metrics.get("rows_affected") == "100.0" for event in mapped.events)


def test_the_hand_made_first_stream_is_read_like_the_others(mapped: MappedFile) -> None:
    events = [event for number in range(1, 5) for event in mapped.of_line(number)]
    assert [event.phase for event in events] == ["RUNNING", "RUNNING", "SUCCEEDED", "SUCCEEDED"]


def test_nodes_name_their_invocation_as_parent_and_their_type_as_label(mapped: MappedFile) -> None:
    (event,) = mapped.of_line(3)
    assert event.parent == event.root == INVOCATION + "11111111-1111-4111-8111-111111111111"
    assert (event.name, event.labels) == ("model.jaffle_shop.stg_locations", {"resource": "model"})


def finished(status: Any) -> bytes:
    return json.dumps(
        {
            "info": {"name": "NodeFinished", "invocation_id": "i", "ts": "2026-01-01T00:00:00Z"},
            "data": {"node_info": {"unique_id": "model.a.b"}, "run_result": {"status": status}},
        }
    ).encode()


@pytest.mark.parametrize(
    ("status", "phase", "reason"),
    [
        ("success", "SUCCEEDED", ""),
        ("pass", "SUCCEEDED", ""),
        ("warn", "SUCCEEDED", "WARNING"),
        ("error", "FAILED", "ERROR"),
        ("runtime error", "FAILED", "ERROR"),
        ("fail", "FAILED", "TEST_FAILED"),
        ("skipped", "SKIPPED", ""),
        ("partial success", "FAILED", "PARTIAL_SUCCESS"),
        ("no-op", "SKIPPED", "NO_OP"),
    ],
)
def test_each_result_status_becomes_its_phase(source: Dbt, status: str, phase: str, reason: str) -> None:
    (event,) = source.map(finished(status), ()).events
    assert (event.phase, event.reason, event.word) == (phase, reason, status)


@pytest.mark.parametrize("status", ["exploded", "None", "", None, 5])
def test_a_status_that_nobody_knows_is_counted_and_ends_nothing(source: Dbt, status: Any) -> None:
    mapped = source.map(finished(status), ())
    assert mapped.events[0].phase == "UNKNOWN"
    assert len(mapped.unknown) == 1


def test_a_command_completed_without_success_ends_nothing(source: Dbt) -> None:
    line = {"info": {"name": "CommandCompleted", "invocation_id": "i", "ts": ""}, "data": {"success": "true"}}
    mapped = source.map(json.dumps(line).encode(), ())
    assert (mapped.events[0].phase, mapped.unknown) == ("UNKNOWN", ("success missing",))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"10:00:00  Running with dbt=1.11.0", "BAD_JSON"),
        (b"{}", "NOT_DBT"),
        (b'{"info":{"name":"NodeFinished"}}', "NO_ID"),
        (b'{"info":{"name":"CommandCompleted"}}', "NO_ID"),
        (b"[]", "NOT_AN_OBJECT"),
    ],
)
def test_a_line_that_breaks_the_format_is_rejected(source: Dbt, line: bytes, code: str) -> None:
    with pytest.raises(Rejected) as refusal:
        source.map(line, ())
    assert refusal.value.code == code
