"""The fold's evidence of Kubernetes, Slurm, GitHub and Temporal jobs is what the rules say, in any order of records."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from finality.core.contract import default_contract
from finality.core.event import Event
from finality.core.job import NO_TIME, Job
from finality.sources.base import SourceSettings
from finality.sources.registry import source_by_name
from support.mapped_files import DATA, map_file, orders
from support.reduce_events import reduce_events

FILES = [
    ("kubernetes", "kubernetes/objects.ndjson.gz"),
    ("github", "github-actions/run-polls.ndjson.gz"),
    ("github", "github-actions/webhooks.ndjson.gz"),
    ("temporal", "temporal/histories.ndjson.gz"),
    ("slurm", "slurm/sacct.log"),
]
CONFLICTS = [
    "ansiblejob/09fa0d39-a170-4c37-a3b0-6e140e029868",
    "check-run/128620228",
    "exechooksrun/9bfcda95-2731-47dc-8eb2-6e83ae19da00",
    "run/6804432015",
]
CONTRADICTED = [
    *CONFLICTS,
    "job/f3fe3a46-f60a-11e8-aa53-42010a80021b",
    "sparkapplication/bfee52b0-74ca-4465-8005-f6643097ed64",
]


def read(name: str, file: str) -> list[Event]:
    settings = SourceSettings(zone="Europe/Berlin") if name == "slurm" else SourceSettings()
    return map_file(source_by_name(name, settings), DATA / file).events


def fold(events: Iterable[Event]) -> dict[str, Job]:
    """Evidence of every job."""
    contract = default_contract("default", 0)
    jobs: dict[str, Job] = {}
    for event in events:
        job = jobs.setdefault(event.job, Job(event.job, contract))
        job.merge(event, int(event.at) if event.at else NO_TIME)
    return jobs


def short(key: str) -> str:
    return key.split("/", 3)[3]


def told(job: Job) -> tuple[str, ...]:
    times = ["" if time == NO_TIME else str(time) for time in (job.start, job.end)]
    return ("CONFLICT", *times) if job.conflict else (job.phase, job.reason, job.word, *times)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_the_fold_and_the_rules_written_down_once_more_agree(name: str, file: str) -> None:
    events = read(name, file)
    expected = {
        key: (
            ("CONFLICT", state.start, state.end)
            if state.phase == "CONFLICT"
            else (state.phase, state.reason, state.word, state.start, state.end)
        )
        for key, state in reduce_events(events).items()
    }
    for order, mixed in orders(events):
        assert {key: told(job) for key, job in fold(mixed).items()} == expected, order


def test_the_fold_finds_the_described_contradictions_and_no_other() -> None:
    jobs = {short(key): job for name, file in FILES for key, job in fold(read(name, file)).items()}
    assert sorted(key for key, job in jobs.items() if job.conflict) == CONFLICTS
    assert sorted(key for key, job in jobs.items() if job.rivals) == sorted(CONTRADICTED)
