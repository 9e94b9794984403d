"""Google Borg traces: every job and task ends as the trace says, in any order of its records."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from finality.core.errors import Rejected, UsageError
from finality.sources.base import SourceSettings
from finality.sources.google_borg import GoogleBorg
from support.mapped_files import DATA, SHIPPED, MappedFile, map_file, orders
from support.reduce_events import State, reduce_events

JOBS = SHIPPED / "borg-jobs.csv.gz"
RARE = DATA / "google-borg-2011" / "job-events-rare.csv"
TASKS = DATA / "google-borg-2011" / "task-events.csv.gz"

Rows = list[list[str]]
History = dict[str, list[tuple[int, int]]]

PHASE_OF_CODE = {
    0: "PENDING",
    1: "RUNNING",
    2: "FAILED",
    3: "FAILED",
    4: "SUCCEEDED",
    5: "CANCELLED",
    6: "INCONCLUSIVE",
}


def rows_of(path: Path) -> Rows:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [line.split(",") for line in text.splitlines()]


def job_of(row: list[str]) -> str:
    return f"default/google-borg/default/job/{row[2]}"


def task_of(row: list[str]) -> str:
    return f"default/google-borg/default/task/{row[2]}-{row[3]}"


def histories(rows: Rows, key: Callable[[list[str]], str], code: int) -> History:
    """The published rule: group, sort by (timestamp, code)."""
    found: History = defaultdict(list)
    for row in rows:
        found[key(row)].append((int(row[0]), int(row[code])))
    return {name: sorted(events) for name, events in found.items()}


def truth(history: History) -> dict[str, tuple[str, int]]:
    """Phase of the last code that is no update, and the number of SCHEDULE events."""
    told = {}
    for name, events in history.items():
        codes = [code for _, code in events if code < 7]
        told[name] = (PHASE_OF_CODE[codes[-1]], codes.count(1))
    return told


def answers(states: dict[str, State]) -> dict[str, tuple[str, int]]:
    return {name: (state.phase, state.attempts) for name, state in states.items()}


@pytest.fixture(scope="module")
def source() -> GoogleBorg:
    return GoogleBorg(SourceSettings())


@pytest.fixture(scope="module")
def jobs(source: GoogleBorg) -> MappedFile:
    return map_file(source, JOBS)


@pytest.fixture(scope="module")
def rare(source: GoogleBorg) -> MappedFile:
    return map_file(source, RARE)


@pytest.fixture(scope="module")
def tasks(source: GoogleBorg) -> MappedFile:
    return map_file(source, TASKS)


@pytest.fixture(scope="module")
def job_history() -> History:
    return histories(rows_of(JOBS), job_of, 3)


@pytest.fixture(scope="module")
def task_history() -> History:
    return histories(rows_of(TASKS), task_of, 5)


@pytest.fixture(scope="module")
def task_states(tasks: MappedFile) -> dict[str, State]:
    return reduce_events(tasks.events)


def last_codes(history: History) -> dict[int, int]:
    return dict(Counter([code for _, code in events if code < 7][-1] for events in history.values()))


def test_all_54042_jobs_end_as_the_trace_says_in_any_order(jobs: MappedFile, job_history: History) -> None:
    expected = truth(job_history)
    assert len(expected) == 54_042
    assert last_codes(job_history) == {4: 29_782, 5: 19_570, 3: 670, 2: 9, 6: 3, 1: 4_007, 0: 1}
    assert (len(jobs.events), jobs.rejected, jobs.unknown) == (158_120, {}, {})
    for order, events in orders(jobs.events, seeds=(1,)):
        assert answers(reduce_events(events)) == expected, order


def test_no_job_of_the_trace_is_in_conflict(jobs: MappedFile) -> None:
    assert not any(state.conflict for state in reduce_events(jobs.events).values())


def test_jobs_running_before_the_trace_have_an_unknown_time_and_not_the_year_1970(
    jobs: MappedFile, job_history: History
) -> None:
    early = {name for name, events in job_history.items() if events[0][0] == 0}
    assert len(early) == 3_986
    untimed = [event for event in jobs.events if not event.at]
    assert {event.job for event in untimed} == early
    assert all(event.precision == "none" and not event.start and not event.created for event in untimed)


def test_submit_and_schedule_in_one_microsecond_is_running_and_not_pending(
    jobs: MappedFile, job_history: History
) -> None:
    twins = set()
    for name, events in job_history.items():
        begins = [time for time, code in events if code < 2]
        if len(set(begins)) < len(begins):
            twins.add(name)
    assert len(twins) == 4_699
    starts = [e for e in jobs.events if e.job in twins and e.phase in ("PENDING", "RUNNING")]
    assert {state.phase for state in reduce_events(starts).values()} == {"RUNNING"}


def test_job_ids_over_32_bits_stay_exact(job_history: History) -> None:
    wide = [name for name in job_history if int(name.rsplit("/", 1)[1]) > 2**32]
    assert len(wide) == 53_328


def test_the_3_events_with_missing_info_1_say_so_in_word_and_reason(jobs: MappedFile) -> None:
    marked = [event for event in jobs.events if "missing-info" in event.word]
    assert [(e.word, e.reason, e.phase) for e in marked] == [("LOST missing-info 1", "LOST", "INCONCLUSIVE")] * 3


def test_job_6253771429_failed_was_submitted_again_and_finished(jobs: MappedFile, rare: MappedFile) -> None:
    assert sum(event.word == "FAIL" for event in jobs.events) == 671
    key = "default/google-borg/default/job/6253771429"
    for mapped in (jobs, rare):
        events = [event for event in mapped.events if event.job == key]
        assert sorted(event.phase for event in events if event.phase in ("FAILED", "SUCCEEDED")) == [
            "FAILED",
            "SUCCEEDED",
        ]
        assert reduce_events(events)[key][:1] == ("SUCCEEDED",)
        assert reduce_events(events)[key].attempts == 2


def test_all_45_rare_jobs_end_as_the_trace_says_in_any_order(rare: MappedFile) -> None:
    history = histories(rows_of(RARE), job_of, 3)
    assert last_codes(history) == {4: 1, 5: 3, 2: 22, 6: 16, 1: 3}
    assert (len(history), len(rare.events), rare.rejected) == (45, 141, {})
    for order, events in orders(rare.events):
        assert answers(reduce_events(events)) == truth(history), order


def test_22_jobs_are_evicted_and_16_lost_ones_are_inconclusive(rare: MappedFile) -> None:
    found = Counter((state.phase, state.reason) for state in reduce_events(rare.events).values())
    assert found["FAILED", "EVICTED"] == 22
    assert found["INCONCLUSIVE", "LOST"] == 16
    assert sum(event.word == "LOST missing-info 1" for event in rare.events) == 16


def test_3_events_of_2_jobs_were_inferred_from_a_snapshot(rare: MappedFile) -> None:
    inferred = [event for event in rare.events if event.reason == "INFERRED"]
    assert sorted((event.word, event.phase) for event in inferred) == [
        ("KILL missing-info 0", "CANCELLED"),
        ("SCHEDULE missing-info 0", "RUNNING"),
        ("SUBMIT missing-info 0", "PENDING"),
    ]
    assert len({event.job for event in inferred}) == 2


@pytest.mark.parametrize(("job", "updates"), [(5421027443, 1), (5434353066, 1), (6295919957, 4)])
def test_a_job_whose_last_record_is_an_update_still_runs(rare: MappedFile, job: int, updates: int) -> None:
    events = [event for event in rare.events if event.job.endswith(f"/{job}")]
    last = max(events, key=lambda event: int(event.at or 0))
    assert (last.word, last.phase) == ("UPDATE_RUNNING", "")
    assert sum(event.word == "UPDATE_RUNNING" for event in events) == updates
    assert reduce_events(events)[events[0].job].phase == "RUNNING"


def test_job_6377830001_without_task_records_is_a_job_like_others(rare: MappedFile) -> None:
    assert "default/google-borg/default/job/6377830001" in {event.job for event in rare.events}


def test_all_25006_tasks_end_as_the_trace_says_in_any_order(tasks: MappedFile, task_history: History) -> None:
    expected = truth(task_history)
    assert last_codes(task_history) == {4: 14_490, 5: 2_805, 3: 31, 1: 7_635, 0: 45}
    assert (len(expected), len(tasks.events), tasks.rejected) == (25_006, 77_776, {})
    for order, events in orders(tasks.events, seeds=(1,)):
        assert answers(reduce_events(events)) == expected, order


def test_tasks_of_1324_jobs_name_their_job_as_parent_and_root(tasks: MappedFile) -> None:
    assert len({event.parent for event in tasks.events}) == 1_324
    assert all(
        event.parent == event.root == job_of(["", "", event.job.rsplit("/", 1)[1].split("-")[0]])
        for event in tasks.events
    )


def test_7581_tasks_begin_without_a_submit_and_3684_of_them_with_their_finish(
    task_history: History, task_states: dict[str, State]
) -> None:
    cut = [name for name, events in task_history.items() if events[0][1] != 0]
    finished = [name for name in cut if task_history[name][0][1] == 4]
    assert (len(cut), len(finished)) == (7_581, 3_684)
    alone = [task_states[name] for name in finished if len(task_history[name]) == 1]
    assert {(state.phase, state.start, state.created) for state in alone} == {("SUCCEEDED", "", "")}


def test_4524_tasks_are_never_scheduled_and_have_no_attempt(task_states: dict[str, State]) -> None:
    assert sum(state.attempts == 0 for state in task_states.values()) == 4_524


def test_436_tasks_have_more_than_one_attempt(task_states: dict[str, State]) -> None:
    assert sum(state.attempts > 1 for state in task_states.values()) == 436


def test_even_finish_is_left_again_so_no_ending_is_final_by_its_word(
    tasks: MappedFile, task_history: History, task_states: dict[str, State]
) -> None:
    left: Counter[int] = Counter()
    reopened = set()
    for name, events in task_history.items():
        for (_, code), _following in pairwise(events):
            if 2 <= code <= 6:
                left[code] += 1
                reopened.add(name)
    assert left == {5: 5_366, 2: 2_500, 3: 470, 4: 61}
    assert len(reopened) == 2_894
    assert {task_states[name].phase for name in reopened} >= {"RUNNING", "SUCCEEDED"}


def test_task_515042969_24_has_196_attempts_195_kills_and_still_runs(
    tasks: MappedFile, task_states: dict[str, State]
) -> None:
    key = "default/google-borg/default/task/515042969-24"
    assert (task_states[key].phase, task_states[key].attempts) == ("RUNNING", 196)
    assert sum(event.job == key and event.word == "KILL" for event in tasks.events) == 195


def test_an_empty_machine_id_changes_nothing(source: GoogleBorg) -> None:
    whole = b"5611824441,,6251812952,1761,1306108,4,fJYeclskJqPWsAT6TX=,0,2,0.02499,0.07959,0.0003862,1"
    assert source.map(whole, ()) == source.map(whole.replace(b"1306108", b""), ())


def test_one_row_in_full(source: GoogleBorg) -> None:
    (event,) = source.map(b"5611824441,2,6251812952,1,user,3,label,logical", ()).events
    assert event.job == "default/google-borg/default/job/6251812952"
    assert (event.at, event.start, event.precision) == ("5611824441000", "5611824441000", "us")
    assert (event.phase, event.word, event.reason) == ("RUNNING", "SCHEDULE missing-info 2", "UNSEEN")
    assert (event.name, event.labels) == ("label", {"class": "3"})


def test_the_time_after_the_trace_is_unknown(source: GoogleBorg) -> None:
    (event,) = source.map(b"9223372036854775807,,1,5,0", ()).events
    assert (event.at, event.precision, event.phase) == ("", "none", "CANCELLED")


def test_a_code_that_nobody_knows_is_kept_and_ends_nothing(source: GoogleBorg) -> None:
    mapped = source.map(b"1,,1,9,0", ())
    assert (mapped.events[0].phase, mapped.events[0].word, mapped.unknown) == ("UNKNOWN", "code 9", ("code 9",))


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"1",
        b"1,,1,4",
        b"1,,1,4,0,0",
        b"x,,1,4,0",
        b"1,,,4,0",
        b"1,,1,,0",
        b"1,,1,4,",
        b"-1,,1,4,0",
        b"1.5,,1,4,0",
        b"1,,01,4,0",
        b"1,x,1,4,0",
        b"9223372036854775808,,1,4,0",
        b"1,,1,4,u,0,\xff,l",
        b"1,,1,4,0\x00",
        b"," * 5000,
    ],
)
def test_a_row_that_breaks_the_format_is_rejected(source: GoogleBorg, row: bytes) -> None:
    with pytest.raises(Rejected) as refusal:
        source.map(row, ())
    assert refusal.value.code == "BAD_ROW"


def test_a_tenant_too_long_for_keys_is_a_wrong_setting() -> None:
    with pytest.raises(UsageError, match="google-borg"):
        GoogleBorg(SourceSettings(tenant="t" * 480))
