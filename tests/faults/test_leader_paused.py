"""The leader stopped by SIGSTOP just before it appends a block, for longer than its lease, and then let go on.

Three voters, quorum two, as separate processes. While the leader stands still, another one takes over. What the old
leader still appends when it wakes up is ignored by every reader; then it follows, and votes again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from finality.core.attested import Block, decode_log_record
from support.fault_case import Case
from support.running import until
from support.workload import Workload, borg_rows

PAUSE_S = 15.0
VOTERS = ("r1", "r2", "r3")


def test_what_a_leader_sends_after_a_pause_is_ignored(case: Callable[..., Case]) -> None:
    work = Workload(borg_rows(400))
    here = case(voters=VOTERS, partitions=1)
    load = here.feed_load(work, each=1)

    def drip() -> None:
        load.step(limit=len(work.rows) - 100)  # the last ones come when the sleeper is needed again

    def led_by(prefix: str) -> bool:
        here.watch.read()
        return here.watch.views[0].tip.boot.startswith(prefix)

    sleeper = here.launch("reconciler", "--replica", "r1", "--boot", "sleeper", "--at", "block.append:25:stop")
    until(lambda: led_by("sleeper"), lambda: f"{sleeper} to lead")
    others = [here.launch("reconciler", "--replica", voter, "--boot", f"other-{voter}") for voter in VOTERS[1:]]
    for one in others:
        one.says("ready")
    sleeper.stands_still(meanwhile=drip)
    stopped = time.monotonic()
    until(lambda: led_by("other"), "another to take over", drip)
    term, blocks = here.watch.views[0].tip.term, here.watch.blocks
    until(lambda: led_by("other") and here.watch.blocks > blocks + 5, "blocks of the new term", drip)
    until(lambda: time.monotonic() - stopped > PAUSE_S, "the end of the pause", drip)
    ignored = here.watch.views[0].ignored["TERM"]
    sleeper.signal(signal.SIGCONT)

    def was_ignored() -> bool:
        here.watch.read()
        return here.watch.views[0].ignored["TERM"] > ignored

    until(was_ignored, "the late block to be ignored", drip)
    for one in (sleeper, *others):
        assert one.code is None, f"{one} gave up"
    others[0].kill()  # now the quorum needs the sleeper's vote
    load.each = 50
    here.await_outcomes(work, load)
    assert sleeper.code is None, f"{sleeper} gave up"
    late = [
        record
        for record in here.records("log", 0)
        if isinstance(block := decode_log_record(record.value), Block)
        and block.term < term
        and record.offset > here.first_offset_of(term)
    ]
    assert late, "the sleeper appended nothing under its old term"
    verdict = here.judge(work)
    assert verdict.ignored["TERM"] >= len(late)
