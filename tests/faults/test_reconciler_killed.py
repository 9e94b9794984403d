"""The reconciler killed with -9 at every named step of publishing, under load, one death after another.

Each process comes up on what the one before it left, folds from genesis, and is killed at the next step. The last one
is left alone. The log must be the one that an undisturbed fold of the same input gives.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from support.fault_case import Case
from support.workload import Workload, borg_rows

STEPS = [
    "leader.append:1",
    "leader.appended:1",
    "leader.acknowledged:1",
    "leader.landed:1",
    "block.append:2",
    "block.appended:3",
    "block.acknowledged:1",
    "block.landed:2",
    "ballots.exchange:40",
    "ballots.exchanged:60",
    "tick.append:2",
]


def test_what_every_killed_reconciler_left_is_completed(case: Callable[..., Case]) -> None:
    work = Workload(borg_rows(500))
    here = case()
    load = here.feed_load(work, each=3)
    for step in STEPS:
        killed = here.launch("reconciler", "--lease-ms", "1000", "--at", f"{step}:kill")
        killed.says("ready")
        killed.ends(-signal.SIGKILL, meanwhile=load.step)
        assert step.replace(":", " ") in killed.said
        assert not load.is_done, f"the load was over before {step}"
    here.launch("reconciler", "--lease-ms", "1000")
    load.each = 50
    here.await_outcomes(work, load)
    verdict = here.judge(work)
    assert len(verdict.writers) > 2, "of the killed ones more than two had led"
