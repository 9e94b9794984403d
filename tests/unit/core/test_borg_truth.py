"""The truth about all 54,042 Borg jobs, worked out from the table by a few lines of its own, job by job.

The fold has to say the same of every job: in file order, shuffled, doubled, in one partition and in eight.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from typing import NamedTuple

import pytest

from finality.core.canonical import encode
from finality.core.fold import Fold
from finality.core.genesis import decode_genesis
from finality.core.inputlog import Home
from finality.core.jobkey import partition_of
from finality.core.records import COMMAND, EVENT, GENESIS, KIND
from finality.core.refold import Refold
from finality.core.replica import Replica
from support.borg_history import CONTRACT, SAMPLE, Written, command, event_records, genesis, head, sample_events

HOUR = 3_600_000_000  # microseconds
SUBMIT, SCHEDULE, FINISH, KILL = "0", "1", "4", "5"
ENDINGS = "23456"


class Truth(NamedTuple):
    """What is to be said of a job: its outcome (OPEN before the end), whether it succeeded, its run time in µs."""

    outcome: str
    succeeded: bool
    run_time: int | None


def truth() -> dict[str, Truth]:
    """By job key, from the rows alone."""
    rows: dict[str, list[tuple[int, bool, str]]] = {}
    for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines():
        time, _, ident, code, _ = line.split(",")
        known = time not in ("0", str(2**63 - 1))
        rows.setdefault(ident, []).append((int(time) if known else -1, code in ENDINGS, code))
    return {f"default/google-borg/default/job/{ident}": _judge(seen) for ident, seen in rows.items()}


def _judge(seen: list[tuple[int, bool, str]]) -> Truth:
    last = max(row for row in seen if row[2] in SUBMIT + SCHEDULE + ENDINGS)
    time, ended, code = last
    starts = [row[0] for row in seen if row[2] == SCHEDULE and row[0] >= 0]
    run_time = time - max(starts) if starts and time >= 0 else None
    if not ended:
        return Truth("OPEN", False, None)
    if code == KILL:
        return Truth("CANCELLED", False, run_time)
    if code != FINISH:
        return Truth("VIOLATED", False, run_time)
    if run_time is None or run_time < 0:
        return Truth("UNPROVEN", True, run_time)
    return Truth("SATISFIED" if run_time <= HOUR else "VIOLATED", True, run_time)


@pytest.fixture(scope="module")
def expected() -> dict[str, Truth]:
    """The truth, with the figures that people know of this table."""
    table = truth()
    figures = Counter((row.outcome, row.succeeded) for row in table.values())
    assert len(table) == 54_042
    assert figures.pop(("SATISFIED", True)) == 28_770
    assert figures.pop(("VIOLATED", True)) == 937
    assert figures.pop(("UNPROVEN", True)) == 75
    assert figures.pop(("OPEN", False)) == 4_008
    assert sum(figures.values()) == 20_252
    return table


@pytest.fixture(scope="module")
def events() -> list[Written]:
    """All events of the table, as the source maps them."""
    return sample_events()


def told(events: list[Written], partitions: int) -> dict[str, Truth]:
    """What folds of so many partitions say of each job in the end."""
    first = decode_genesis(genesis(digest_every=1_000_000))
    folds = [Fold(first) for _ in range(partitions)]
    positions = [2] * partitions
    contract = encode({"document": CONTRACT, "epoch": 1, "number": 1, "op": "contract"})
    for fold in folds:
        fold.step(2, COMMAND, None, contract, ())
    said: dict[str, bytes] = {}
    for key, value in events:
        number = partition_of(key, partitions)
        positions[number] += 1
        for made in folds[number].step(positions[number], EVENT, key, value, ()):
            if made.kind in ("outcome", "amendment"):
                said[key.decode()] = made.entry
    found = {job: _read(entry) for job, entry in said.items()}
    for fold in folds:
        found |= dict.fromkeys(fold.state.jobs, Truth("OPEN", False, None))
    return found


def _read(entry: bytes) -> Truth:
    document = json.loads(entry)
    begin, end = document.get("start"), document.get("end")
    run_time = (int(end) - int(begin)) // 1000 if begin and end else None
    succeeded = document["phase"] == "SUCCEEDED"
    if succeeded and document["outcome"] == "VIOLATED":
        assert document["delta"] == {"runTime": "UNMET"}
    if document["outcome"] == "UNPROVEN":
        assert document["delta"] == {"runTime": "UNKNOWN"}
    return Truth(document["outcome"], succeeded, run_time)


@pytest.mark.parametrize(("order", "partitions"), [("file", 1), ("shuffled", 8), ("doubled", 1)], ids=str)
def test_every_job_ends_as_the_table_says(
    expected: dict[str, Truth], events: list[Written], order: str, partitions: int
) -> None:
    """Outcome, phase and run time of each job by its key, whatever the order and however often it is told."""
    if order == "shuffled":
        events = random.Random(1).sample(events, len(events))
    elif order == "doubled":
        events = [event for event in events for _ in range(2)]
    found = told(events, partitions)
    assert found.keys() == expected.keys()
    wrong = {job: (found[job], row) for job, row in expected.items() if found[job] != row}
    assert wrong == {}


def test_the_slow_fold_says_the_same_of_five_thousand_jobs(expected: dict[str, Truth], events: list[Written]) -> None:
    """The first 5,000 jobs of the table in both folds: the same chain, and the truth."""
    first = genesis()
    jobs = {event.key for event in events[:5_000]}
    for event in events:
        if len(jobs) == 5_000:
            break
        jobs.add(event.key)
    records = head(first, CONTRACT) + event_records([event for event in events if event.key in jobs])
    slow = Refold(first, 0, "primary", 1)
    fast = Replica(first, 0, Home("primary", 1))
    said: dict[str, Truth] = {}
    for record in records:
        fast.feed(record)
        for row in slow.feed_input(record.key, record.value, record.headers):
            entry = json.loads(row["entry"])
            if entry["kind"] in ("outcome", "amendment"):
                said[entry["job"]] = _read(row["entry"])
    assert (slow.chain, slow.index) == (fast.chain, fast.number)
    names = [job.decode() for job in jobs]
    assert {job: said.get(job, Truth("OPEN", False, None)) for job in names} == {job: expected[job] for job in names}


def test_the_records_of_this_test_are_those_of_ingest() -> None:
    """Genesis and contract come first, with their kinds in a header."""
    first = genesis()
    assert [dict(record.headers)[KIND] for record in head(first, CONTRACT)] == [GENESIS, COMMAND]
    assert head(first, CONTRACT)[1] == command(1, CONTRACT)
