"""A bad network between two of three replicas and Redis, by a seeded schedule: delay, loss, resets, silence."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from finality.lab.stack import Stack
from support.fault_case import Case
from support.proxy import FaultProxy, Mode, Schedule
from support.running import until
from support.workload import Workload, borg_rows

VOTERS = ("r1", "r2", "r3")


@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, 12.0), pytest.param(2, 90.0, marks=pytest.mark.chaos)], ids=["short", "long"]
)
def test_a_bad_network_to_redis_is_survived(
    case: Callable[..., Case], stack1: Stack, seed: int, seconds: float
) -> None:
    work = Workload(borg_rows(int(30 * seconds)))
    here = case(voters=VOTERS)
    load = here.feed_load(work, each=1)
    address = urlsplit(stack1.redis_url)
    assert address.port is not None
    turns = iter(Schedule(seed, longest_s=1.5))
    with FaultProxy(address.port) as proxy:
        bad = here.context("bad-network", f"redis://127.0.0.1:{proxy.port}{address.path}")
        voters = [
            here.launch("reconciler", "--replica", name, "--lease-ms", "1500", config=bad if name != "r3" else None)
            for name in VOTERS
        ]
        for voter in voters:
            voter.says("ready")
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            turn = next(turns)
            proxy.mode = turn.mode
            ends = time.monotonic() + turn.seconds

            def is_over(ends: float = ends) -> bool:
                here.watch.read()
                return time.monotonic() > ends

            until(is_over, "the end of a turn", load.step)
        proxy.mode = Mode.CALM
        load.each = 50
        here.await_outcomes(work, load)
        for voter in voters:
            assert voter.code is None, f"{voter} gave up"
        print(f"bad network: {proxy.connections} connections, {here.watch.terms} terms")
        here.stop()
    here.judge(work)
