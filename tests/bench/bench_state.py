"""Whether the fold stays as quick and as small when there is much to remember.

The same events of a few thousand jobs are folded into a state of 10,000 and of 1,000,000 open jobs, as events that
make no entry, one, or two. The jobs that only fill the state are made from the same first event by the job's own code,
without going through acceptance; those that are measured go through the whole fold.

Memory is what Python's allocator gave out, from 15,000 jobs opened and ended by real records.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc

from bench.bench_rows import Row, Table
from finality.core.event import Event
from finality.core.fold import Fold
from finality.core.genesis import decode_genesis
from finality.core.job import Job
from finality.core.records import COMMAND, EVENT
from support.borg_history import Written, command, event_records, genesis, written

__all__ = ["memory", "sizes"]

SECOND = 1_000_000_000
_TOUCHED = 20_000
HELPED = {
    "apiVersion": "finality.dev/v1alpha1",
    "kind": "StatefulJob",
    "metadata": {"name": "bench"},
    "spec": {
        "selector": {"source": "bench"},
        "targetState": {"phase": "SUCCEEDED"},
        "limits": {"runTime": "1h"},
        "settle": "none",
        "compensations": [{"on": "VIOLATED", "action": "rerun", "backoff": "10s", "budget": 1}],
    },
}


def _key(number: int) -> str:
    return f"default/bench/default/job/{number * 7919 % 10_000_019:020}"


def _event(number: int, phase: str, at: int) -> Event:
    time_ns = str(at * SECOND)
    return Event(
        at=time_ns,
        created=time_ns if phase == "PENDING" else "",
        job=_key(number),
        phase=phase,
        precision="s",
        start=time_ns if phase == "RUNNING" else "",
        word=phase.title(),
    )


class _Full:
    """A fold with so many open jobs, evenly mixed with those that are measured."""

    def __init__(self, jobs: int) -> None:
        document = decode_genesis(genesis(digest_every=1_000_000_000))
        self.fold = Fold(document)
        self._position = 1
        self._offset = 0
        self._step(COMMAND, None, command(1, HELPED).value or b"", ())
        self._numbers = range(0, jobs, max(jobs // _TOUCHED, 1))[:_TOUCHED]
        measured = set(self._numbers)
        state = self.fold.state
        contract = next(iter(state.contracts.values()))
        for number in range(jobs):
            event = _event(number, "PENDING", 1)
            if number in measured:
                self._feed(written(event))
                continue
            job = Job(event.job, contract)
            job.merge(event, SECOND)
            job.signature = "pending PENDING phase=UNMET runTime=UNKNOWN"
            state.jobs[event.job] = job
        state.digest()
        assert len(state.jobs) == jobs

    def _step(self, kind: bytes, key: bytes | None, value: bytes, headers: object) -> int:
        self._position += 1
        return len(self.fold.step(self._position, kind, key, value, headers))  # type: ignore[arg-type]

    def _feed(self, one: Written) -> None:
        (record,) = event_records([one], self._offset)
        self._offset += 1
        self._step(EVENT, record.key, record.value or b"", record.headers)

    def round(self, phase: str, at: int) -> tuple[float, float]:
        """One event for each measured job: (µs/event, entries/event)."""
        records = event_records([written(_event(number, phase, at)) for number in self._numbers], self._offset)
        self._offset += len(records)
        gc.collect()
        made = 0
        begin = time.process_time_ns()
        for record in records:
            made += self._step(EVENT, record.key, record.value or b"", record.headers)
        spent = (time.process_time_ns() - begin) / 1000
        self.fold.state.digest()
        return spent / len(records), made / len(records)


def sizes(bare: float, many: int = 1_000_000) -> Table:
    """µs per event by entries per event, in a small and a large state."""
    rows = []
    for jobs in (10_000, many):
        gc.collect()
        full = _Full(jobs)
        gc.freeze()  # as the services do
        found: dict[int, list[float]] = {0: [], 1: [], 2: []}
        at = 1
        for _ in range(3):
            for entries, phase in ((1, "RUNNING"), (0, "RUNNING"), (1, "PAUSED")):
                at += 1
                cost, made = full.round(phase, at)
                assert made == entries, f"{made} entries an event, not {entries}"
                found[entries].append(cost)
        cost, made = full.round("FAILED", at + 1)
        assert made == 2, f"{made} entries an event, not 2"
        found[2].append(cost)
        for entries, costs in found.items():
            cost = statistics.median(costs)
            rows.append(Row(f"{entries} entries/event, {jobs:,} open jobs", cost, "µs/event", cost / bare))
        gc.unfreeze()
        del full
    return Table("Fold alone (decode, check, fold, encode), without acceptance and hashes", rows)


def memory(jobs: int = 15_000) -> Table:
    """Bytes of an open job and of a tombstone, keys and dictionary slots included."""
    gc.collect()
    tracemalloc.start()
    fold = Fold(decode_genesis(genesis(digest_every=1_000_000_000)))
    position, found = 1, []
    for phase, at in (("PENDING", 1), ("RUNNING", 2), ("SUCCEEDED", 3)):
        before = tracemalloc.get_traced_memory()[0] if phase == "PENDING" else 0
        for number in range(jobs):
            position += 1
            one = written(_event(number, phase, at))
            fold.step(position, EVENT, one.key, one.value, ())
        fold.state.digest()
        gc.collect()
        found.append((tracemalloc.get_traced_memory()[0] - before) / jobs)
        if phase == "PENDING":
            base = before
    tracemalloc.stop()
    assert len(fold.state.tombstones) == jobs
    rest = base / jobs
    rows = [
        Row("an open job, 47 characters of key", found[1] - rest, "bytes"),
        Row("a tombstone, 47 characters of key", found[2] - rest, "bytes"),
    ]
    return Table("Memory", rows)
