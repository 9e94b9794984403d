"""Three brokers, each killed with -9 in turn and started again, under load on the whole line: nothing is lost.

The raw topic, the input and the log lie on the same cluster; ingest and three voters run throughout. A process that a
supervisor would start again (ingest ends when it is in doubt) is started again here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from finality.kafka.connection import open_admin
from finality.lab.stack import Stack
from support.fault_case import Case
from support.running import Running, until
from support.workload import Workload, borg_rows


@pytest.fixture
def whole(stack3: Stack, tmp_path: Path) -> Iterator[Case]:
    """A case on three brokers, all of which are running when it is over."""
    here = Case(tmp_path, stack3.primary.bootstrap, stack3.redis_url, voters=("r1", "r2", "r3"))
    try:
        yield here
    finally:
        for broker in stack3.brokers():
            broker.start(deadline_s=120)
        here.close()


def _in_sync(here: Case) -> bool:
    """Every partition of the case has three replicas in sync."""
    topics = open_admin(here.kafka, "test").list_topics(timeout=30).topics
    partitions = [
        row
        for name, topic in topics.items()
        if name.startswith(here.namespace + ".")
        for row in topic.partitions.values()
    ]
    return bool(partitions) and all(len(row.isrs) == 3 for row in partitions)


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.chaos)])
def test_each_broker_dies_in_turn_and_nothing_is_lost(whole: Case, stack3: Stack, rounds: int) -> None:
    here = whole
    work = Workload(borg_rows(1_000 * rounds))
    load = here.raw_load(work, each=1)
    voters = [here.launch("reconciler", "--replica", name) for name in ("r1", "r2", "r3")]
    ingest: list[Running] = [here.launch("ingest")]
    for one in (*voters, *ingest):
        one.says("ready")

    def drip() -> None:
        load.step(limit=len(work.rows) - 200)  # the last ones come when all brokers are back
        if ingest[-1].code is not None:
            assert ingest[-1].code == 3, f"{ingest[-1]} ended"
            ingest.append(here.launch("ingest"))

    def more_blocks() -> bool:
        here.watch.read()
        return here.watch.blocks >= wanted

    wanted = 20
    until(more_blocks, "the first blocks", drip)
    silences = []
    for broker in stack3.brokers() * rounds:
        until(lambda: _in_sync(here), "three replicas in sync", drip)
        here.watch.longest_silence_s = 0.0
        broker.kill()
        wanted = here.watch.blocks + 20
        until(more_blocks, lambda: f"blocks without {broker.name}; {voters[0]}; {ingest[-1]}", drip)  # noqa: B023
        broker.start(deadline_s=120)
        wanted = here.watch.blocks + 5
        until(more_blocks, "blocks after its return", drip)
        silences.append(here.watch.longest_silence_s)
    until(lambda: _in_sync(here), "three replicas in sync", drip)
    for voter in voters:
        assert voter.code is None, f"{voter} gave up"
    load.each = 100
    here.await_outcomes(work, load)
    print(f"longest silence by broker killed: {', '.join(f'{row:.1f} s' for row in silences)}; ingest x{len(ingest)}")
    verdict = here.judge(work)
    print(f"ignored {dict(verdict.ignored)}, dropped {dict(verdict.dropped)}")
