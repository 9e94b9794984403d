"""The fold's own evidence of real jobs says what the truth tables say, in any order of the records."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from finality.core.contract import default_contract
from finality.core.event import ENDED, Event
from finality.core.job import NO_TIME, Job
from finality.sources.registry import source_by_name
from support.mapped_files import DATA, SHIPPED, map_file, orders
from support.reduce_events import reduce_events

FILES = [
    ("openlineage", DATA / "openlineage" / "events.ndjson.gz"),
    ("dbt", DATA / "dbt" / "structured-logs.jsonl.gz"),
    ("google-borg", DATA / "google-borg-2011" / "job-events-rare.csv"),
]


def fold(events: Iterable[Event]) -> dict[str, Job]:
    """Evidence of every job."""
    contract = default_contract("default", 0)
    jobs: dict[str, Job] = {}
    for event in events:
        job = jobs.setdefault(event.job, Job(event.job, contract))
        job.merge(event, int(event.at) if event.at else NO_TIME)
    return jobs


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda part: part.stem if isinstance(part, Path) else part)
def test_the_fold_and_the_rules_written_down_once_more_agree(name: str, path: Path) -> None:
    events = map_file(source_by_name(name), path).events
    expected = {job: (s.phase, s.reason, s.word, s.start, s.end) for job, s in reduce_events(events).items()}
    for order, mixed in orders(events):
        told = {
            key: (
                job.phase,
                job.reason,
                job.word,
                "" if job.start == NO_TIME else str(job.start),
                "" if job.end == NO_TIME else str(job.end),
            )
            for key, job in fold(mixed).items()
        }
        assert told == expected, order


def test_the_fold_finds_no_conflict_in_these_sets() -> None:
    for name, path in FILES:
        jobs = fold(map_file(source_by_name(name), path).events)
        assert [key for key, job in jobs.items() if job.rivals] == []


def test_the_fold_ends_every_openlineage_run_as_the_table_says() -> None:
    jobs = fold(map_file(source_by_name("openlineage"), FILES[0][1]).events)
    with (DATA / "openlineage" / "runs.expected.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            phase = jobs[f"default/openlineage/default/run/{row['runId']}"].phase
            assert (phase if phase in ENDED else "ACTIVE" if phase else "UNKNOWN") == row["expected"]


def test_the_fold_ends_all_54042_borg_jobs_as_the_trace_says() -> None:
    phases = {0: "PENDING", 1: "RUNNING", 2: "FAILED", 3: "FAILED", 4: "SUCCEEDED", 5: "CANCELLED", 6: "INCONCLUSIVE"}
    path = SHIPPED / "borg-jobs.csv.gz"
    last: dict[str, tuple[int, int]] = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        time, _, ident, code, _ = line.split(",")
        if int(code) < 7:
            last[ident] = max(last.get(ident, (0, 0)), (int(time), int(code)))
    expected = {f"default/google-borg/default/job/{ident}": phases[code] for ident, (_, code) in last.items()}
    events = map_file(source_by_name("google-borg"), path).events
    for order, mixed in orders(events, seeds=(7,)):
        assert {key: job.phase for key, job in fold(mixed).items()} == expected, order
