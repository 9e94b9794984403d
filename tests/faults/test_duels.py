"""Several reconcilers that each believe to lead: the log's own order decides, and everything else is ignored."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from finality.lab.stack import Stack
from support.fault_case import Case
from support.running import until
from support.workload import Workload, borg_rows


def test_two_processes_of_one_replica_write_one_log(case: Callable[..., Case]) -> None:
    work = Workload(borg_rows(300))
    here = case()
    load = here.feed_load(work, each=3)
    twins = {
        boot: here.launch("reconciler", "--replica", "r1", "--lease-ms", "1500", "--boot", boot)
        for boot in ("twin-1", "twin-2")
    }
    for twin in twins.values():
        twin.says("ready")

    def led_by(boots: set[str]) -> bool:
        here.watch.read()
        return here.watch.blocks > 20 and all(view.tip.boot in boots for view in here.watch.views.values())

    until(lambda: led_by(set(twins)), "twenty blocks", load.step)
    leader = here.watch.views[0].tip.boot
    twins.pop(leader).kill()
    until(lambda: led_by(set(twins)), "the other twin to lead", load.step)
    assert not load.is_done
    load.each = 50
    here.await_outcomes(work, load)
    verdict = here.judge(work)
    assert set(verdict.writers) >= {"twin-1", "twin-2"}


@pytest.mark.parametrize("seconds", [20.0, pytest.param(120.0, marks=pytest.mark.chaos)])
def test_four_that_fight_for_leadership_write_one_log(case: Callable[..., Case], stack1: Stack, seconds: float) -> None:
    work = Workload(borg_rows(int(30 * seconds)))
    here = case()
    base = stack1.redis_url.rpartition("/")[0]
    boots = [f"fighter-{number}" for number in range(4)]
    fighters = [
        here.launch(
            "reconciler", "--lease-ms", "600", "--boot", boot, config=here.context(boot, f"{base}/{10 + number}")
        )
        for number, boot in enumerate(boots)
    ]
    for fighter in fighters:
        fighter.says("ready")
    load = here.feed_load(work, each=2)
    over = time.monotonic() + seconds

    def is_over() -> bool:
        here.watch.read()
        return time.monotonic() > over

    until(is_over, "the end of the fight", load.step, seconds + 30)
    for fighter in fighters:
        assert fighter.code is None, f"{fighter} gave up"
    print(f"fight: {here.watch.terms} terms, {here.watch.blocks} blocks, ignored {dict(here.watch.ignored)}")
    fought = here.watch.ignored.total()
    for fighter in fighters[1:]:
        fighter.signal(signal.SIGKILL)
    load.each = 50
    here.await_outcomes(work, load)
    verdict = here.judge(work)
    assert len(set(verdict.writers) & set(boots)) == 4, "all four had led"
    assert verdict.writers.total() > 8
    assert fought > 0
    assert set(verdict.ignored) <= {"TERM", "PREVIOUS", "FIRST"}
