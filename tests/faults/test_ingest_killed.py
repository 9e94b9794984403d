"""Ingest killed with -9 at every named step, under load; the next one loses nothing, and repeats are dropped.

The cases run side by side, since a consumer group takes ten seconds to give up a dead member.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from support.fault_case import Case
from support.workload import Load, Workload, borg_rows

STEPS = ("ingest.append:90", "ingest.flush:3", "ingest.commit:2", "ingest.committed:3")


def test_a_killed_ingest_loses_nothing(case: Callable[..., Case]) -> None:
    works = [Workload(borg_rows(200, part)) for part in range(len(STEPS))]
    cases = [case(log_time="events") for _ in STEPS]
    loads: list[Load] = []
    for here, work, step in zip(cases, works, STEPS, strict=True):
        load = here.raw_load(work, each=4)
        killed = here.launch("ingest", "--at", f"{step}:kill")
        killed.says("ready")
        killed.ends(-signal.SIGKILL, meanwhile=load.step)
        assert step.replace(":", " ") in killed.said
        assert not load.is_done, f"the load was over before {step}"
        loads.append(load)
    for here in cases:
        here.launch("ingest")
        here.launch("reconciler", "--lease-ms", "1500")
    dropped = {}
    for here, work, load, step in zip(cases, works, loads, STEPS, strict=True):
        here.await_outcomes(work, load)
        dropped[step] = here.judge(work).dropped
    print(f"dropped on the way: {dropped}")
    assert dropped["ingest.commit:2"]["repeat"] > 0, "what was acknowledged and not committed comes twice"
    assert dropped["ingest.committed:3"]["repeat"] == 0
    assert all(counts["gap"] == 0 for counts in dropped.values())
