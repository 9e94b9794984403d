"""Slurm accounts reach the truth of each job; states, exit codes and start times are not taken for one another."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from finality.core.errors import UsageError
from finality.core.event import Event
from finality.sources.base import Reading, SourceSettings
from finality.sources.slurm import COLUMNS, Slurm
from support.mapped_files import DATA
from support.reduce_events import State, reduce_events
from support.sourced import Given, deliveries, events_of, give, give_file, table

FOLDER = DATA / "slurm"
SOURCE = Slurm(SourceSettings())
IN_UTC = Slurm(SourceSettings(zone="UTC"))
ROWS = list(SOURCE.read(FOLDER / "sacct.log"))
TRUTH = table(FOLDER / "expected.tsv")
EVENTS = events_of(give(SOURCE, reading) for reading in ROWS)
KEY = "default/slurm/birch/job/"


def row(**cells: str) -> bytes:
    """A row with some cells changed."""
    base = dict(zip(COLUMNS, ROWS[1].value.decode().split("|"), strict=True))
    return "|".join((base | cells)[name] for name in COLUMNS).encode()


def mapped(source: Slurm = SOURCE, **cells: str) -> Given:
    return give(source, Reading(row(**cells)))


def event(source: Slurm = SOURCE, **cells: str) -> Event:
    (only,) = mapped(source, **cells).events
    return only


def completion(**fields: object) -> Given:
    """A message of a job completion plugin."""
    base = {
        "jobid": 4711,
        "cluster": "hpc1",
        "job_name": "sweep",
        "state": "COMPLETED",
        "exit_code": "0:0",
        "@submit": "2026-11-30T19:00:00",
        "@start": "2026-11-30T19:01:00",
        "@end": "2026-11-30T19:09:30",
        "elapsed": 510,
    }
    return give(SOURCE, Reading(json.dumps(base | fields).encode()))


def states(source: Slurm, readings: list[Reading]) -> dict[str, State]:
    return reduce_events(events_of(give(source, reading) for reading in readings))


@pytest.mark.parametrize("source", [SOURCE, IN_UTC], ids=["zone unknown", "zone UTC"])
def test_every_made_up_row_reaches_its_truth_in_any_order(source: Slurm) -> None:
    truth = {KEY + one["job_id"]: (one["expected"], one["reason"], one["elapsed_s"]) for one in TRUTH}
    assert len(truth) == 40
    for how, readings in deliveries(ROWS):
        found = states(source, readings)
        assert {
            job: (state.phase, state.reason, state.metrics["elapsed_s"]) for job, state in found.items()
        } == truth, how
        assert not any(state.conflict for state in found.values()), how


def test_cancelled_by_a_user_is_cancelled() -> None:
    own = [reading for reading in ROWS if b"|CANCELLED by 7" in reading.value]
    assert len(own) == 7
    assert {(e.phase, e.word) for e in events_of(give(SOURCE, r) for r in own)} == {("CANCELLED", "CANCELLED")}


def test_a_job_cancelled_before_it_ran_has_no_start_though_the_row_has_one() -> None:
    ran = {KEY + one["job_id"]: one["ran"] == "yes" for one in TRUTH}
    assert list(ran.values()).count(False) == 5
    for one in events_of(give(IN_UTC, reading) for reading in ROWS):
        assert bool(one.start) == ran[one.job]
        assert one.end


def test_jobs_with_no_elapsed_time_are_the_ones_that_never_ran_and_some_that_failed() -> None:
    still = [one for one in EVENTS if one.metrics["elapsed_s"] == "0"]
    assert Counter(one.phase for one in still) == {"CANCELLED": 5, "FAILED": 5}


def test_an_exit_code_of_zero_is_not_a_success() -> None:
    zero = Counter(one.word for one in EVENTS if one.metrics["exit_code"] == "0")
    assert zero == {"COMPLETED": 22, "CANCELLED": 7, "PREEMPTED": 2}
    assert {one.metrics["exit_code"] for one in EVENTS if one.word == "TIMEOUT"} == {"1"}
    assert {one.metrics["exit_code"] for one in EVENTS if one.word == "FAILED"} == {"1", "2", "29"}


def test_a_flag_bit_in_the_requested_memory_means_per_cpu() -> None:
    assert event(ReqMem="2147485648Mn").metrics["requested_mb_per_cpu"] == "2000"
    assert event(ReqMem="48000Mn").metrics["requested_mb_per_node"] == "48000"
    assert event(ReqMem="62.50Gn").metrics["requested_mb_per_node"] == "64000"
    assert event(ReqMem="4000Mc").metrics["requested_mb_per_cpu"] == "4000"
    assert not [name for name in event(ReqMem="48000M").metrics if name.startswith("requested")]


def test_eight_days_of_run_time_are_seconds() -> None:
    assert EVENTS[0].metrics["elapsed_s"] == str((7 * 24 + 12) * 3600 + 30 * 60 + 39)
    assert event(Timelimit="Partition_Limit").metrics.get("limit_s") is None


def test_local_times_are_unknown_without_a_zone_and_exact_with_one() -> None:
    assert (event().at, event().precision, event().start, event().created) == ("", "none", "", "")
    berlin = Slurm(SourceSettings(zone="Europe/Berlin"))
    assert int(event(IN_UTC).at) - int(event(berlin).at) == 3600 * 10**9
    assert event(IN_UTC).precision == "s"
    twice = event(berlin, End="2024-10-27T02:30:00")
    assert twice.at == ""  # that hour happened twice
    with pytest.raises(UsageError, match="Atlantis"):
        Slurm(SourceSettings(zone="Atlantis/Poseidonis"))


def test_a_requeued_job_keeps_its_id_and_its_last_start_counts() -> None:
    rows = [
        row(State="PREEMPTED", Start="2024-03-01T08:00:20", End="2024-03-01T08:10:20"),
        row(State="RUNNING", Start="2024-03-01T09:00:00", End="Unknown"),
        row(State="COMPLETED", Start="2024-03-01T09:00:00", End="2024-03-01T10:00:00"),
    ]
    for how, readings in deliveries([Reading(one) for one in rows]):
        (state,) = states(IN_UTC, readings).values()
        assert (state.phase, state.attempts, state.conflict) == ("SUCCEEDED", 2, False), how
        assert int(state.end) - int(state.start) == 3600 * 10**9
    (open_,) = states(IN_UTC, [Reading(one) for one in rows[:2]]).values()
    assert (open_.phase, open_.attempts) == ("RUNNING", 2)


@pytest.mark.parametrize(
    ("state", "phase", "reason"),
    [
        ("PENDING", "PENDING", ""),
        ("RUNNING", "RUNNING", ""),
        ("COMPLETING", "RUNNING", ""),
        ("RESIZING", "RUNNING", ""),
        ("SUSPENDED", "PAUSED", ""),
        ("REQUEUED", "RETRYING", ""),
        ("OUT_OF_MEMORY", "FAILED", "OOM"),
        ("NODE_FAIL", "FAILED", "NODE_LOST"),
        ("BOOT_FAIL", "FAILED", "BOOT_FAIL"),
        ("DEADLINE", "FAILED", "DEADLINE"),
        ("REVOKED", "CONTINUED", ""),
        ("CANCELLED+", "CANCELLED", "USER"),
    ],
)
def test_states_that_the_rows_lack(state: str, phase: str, reason: str) -> None:
    assert (event(State=state).phase, event(State=state).reason) == (phase, reason)


def test_an_unknown_state_is_kept_and_counted_and_no_ending() -> None:
    given = mapped(State="DREAMING by 7")
    assert (given.events[0].phase, given.events[0].word) == ("UNKNOWN", "DREAMING")
    assert given.unknown == ("state:DREAMING",)


def test_steps_and_array_tasks_have_keys_of_their_own() -> None:
    step = event(JobID="50102.batch")
    assert (step.job, step.parent) == ("default/slurm/birch/step/50102.batch", KEY + "50102")
    assert event(JobID="4700_11").job == KEY + "4700_11"
    assert event(JobID="4800+1").job == KEY + "4800+1"
    assert mapped(JobID="4700_[3-9%2]") == Given(())


def test_a_name_may_hold_a_bar() -> None:
    assert event(JobName="a|b|c").name == "a|b|c"


def test_the_line_of_titles_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|State|Cluster|Restarts|NodeList|Start|End|\n"
        "7|FAILED|birch|2|n1|2024-03-01T08:00:00|2024-03-01T09:00:00|\n8|RUNNING|birch\n"
    )
    one, two = give_file(IN_UTC, path)
    assert (one.events[0].job, one.events[0].phase, one.events[0].attempt) == (KEY + "7", "FAILED", 3)
    assert two.code == "BAD_COLUMNS"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"1|2|3", "BAD_COLUMNS"),
        (row(JobID="abc"), "NO_ID"),
        (row(JobID="", JobIDRaw=""), "NO_ID"),
        (row(State=""), "NO_STATE"),
        (row().replace(b"mesh", b"me\xffsh"), "NOT_UTF8"),
        (row() + b"x" * (5 << 20), "TOO_LARGE"),
    ],
    ids=["columns", "id", "no id", "no state", "bytes", "size"],
)
def test_rows_that_cannot_be_read_are_rejected(value: bytes, code: str) -> None:
    assert give(SOURCE, Reading(value)).code == code


def test_completion_messages_are_in_utc_whatever_the_setting() -> None:
    (one,) = completion().events
    assert (one.job, one.phase) == ("default/slurm/hpc1/job/4711", "SUCCEEDED")
    assert int(one.end) - int(one.start) == 510 * 10**9
    (oom,) = completion(state="OUT_OF_MEMORY", exit_code="0:125", array_job_id=4700, array_task_id=11).events
    assert (oom.job, oom.reason, oom.metrics["exit_signal"]) == ("default/slurm/hpc1/job/4700_11", "OOM", "125")


def test_a_job_cancelled_while_pending_has_unknown_times_in_its_message() -> None:
    (one,) = completion(**{"state": "CANCELLED", "@start": "Unknown", "@end": "Unknown"}).events
    assert (one.phase, one.start, one.end, one.precision) == ("CANCELLED", "", "", "none")


def test_message_and_row_of_one_job_agree() -> None:
    cells = {"JobID": "4711", "Cluster": "hpc1", "Submit": "2026-11-30T19:00:00", "Start": "2026-11-30T19:01:00"}
    one = event(IN_UTC, End="2026-11-30T19:09:30", Elapsed="00:08:30", **cells)
    (other,) = completion().events
    for name in ("job", "at", "start", "end", "created", "phase", "reason", "word"):
        assert getattr(one, name) == getattr(other, name), name


def test_a_named_instance_keeps_clusters_of_one_name_apart() -> None:
    named = Slurm(SourceSettings(instance="lab"))
    assert event(named).job == "default/slurm/lab:birch/job/50102"


@pytest.mark.outside_data
def test_every_job_of_the_xdmod_dump_has_the_ending_of_its_state(outside_data: Path) -> None:
    path = outside_data / "slurm-xdmod" / "sacct-pozidriv.log.gz"
    words = {"COMPLETED": "SUCCEEDED", "CANCELLED": "CANCELLED"}
    truth = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            cells = line.rstrip("\n").split("|")
            truth["default/slurm/pozidriv/job/" + cells[0]] = words.get(cells[16].split(" ")[0], "FAILED")
    readings = list(SOURCE.read(path))
    found = states(SOURCE, readings + readings[::-1])
    assert {job: state.phase for job, state in found.items()} == truth
    assert Counter(state.word for state in found.values()) == {
        "COMPLETED": 10_134,
        "FAILED": 1_007,
        "CANCELLED": 468,
        "PREEMPTED": 86,
        "TIMEOUT": 9,
    }


@pytest.mark.outside_data
def test_anomalies_of_the_xdmod_dump_are_read_as_counted(outside_data: Path) -> None:
    path = outside_data / "slurm-xdmod" / "sacct-pozidriv.log.gz"
    found = events_of(give_file(IN_UTC, path))
    assert len(found) == len({one.job for one in found}) == 11_704
    assert sum(1 for one in found if not one.start) == 419
    assert sum(1 for one in found if one.metrics["elapsed_s"] == "0") == 1_031
    assert sum(1 for one in found if one.metrics.get("requested_mb_per_cpu")) == 10_626
    for one in found:
        assert not one.start or int(one.end) - int(one.start) == int(one.metrics["elapsed_s"]) * 10**9
    assert max(int(one.metrics["elapsed_s"]) for one in found) == (7 * 24 + 20) * 3600 + 39 * 60 + 39
