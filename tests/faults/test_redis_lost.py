"""Redis killed, restarted empty, and wiped again and again under load: publishing goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import redis

from finality.lab.stack import Stack
from support.fault_case import Case
from support.running import until
from support.workload import Workload, borg_rows


def test_a_redis_that_dies_and_forgets_is_survived(case: Callable[..., Case], stack1: Stack) -> None:
    server = stack1.redis
    assert server is not None
    work = Workload(borg_rows(500))
    here = case(voters=("r1", "r2", "r3"))
    load = here.feed_load(work, each=2)
    voters = [here.launch("reconciler", "--replica", name, "--lease-ms", "1500") for name in ("r1", "r2", "r3")]
    for voter in voters:
        voter.says("ready")

    def more_blocks(count: int) -> Callable[[], bool]:
        wanted = here.watch.blocks + count

        def came() -> bool:
            here.watch.read()
            return here.watch.blocks >= wanted

        return came

    until(more_blocks(10), "the first blocks", load.step)
    client = redis.Redis.from_url(stack1.redis_url)
    for _ in range(5):
        client.flushall()
        until(more_blocks(2), "blocks after FLUSHALL", load.step)
    server.kill()
    try:
        here.watch.read()
        assert not load.is_done
        for _ in range(30):
            load.step()
        here.flush()
    finally:
        server.start(deadline_s=90)
    until(more_blocks(2), "blocks after the restart", load.step)
    for voter in voters:
        assert voter.code is None, f"{voter} gave up"
    load.each = 50
    here.await_outcomes(work, load)
    print(f"redis: {here.watch.terms} terms, longest silence {here.watch.longest_silence_s:.1f} s")
    here.judge(work)
