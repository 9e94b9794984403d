"""Runs a service of the product as a process that kills or pauses itself at a named step.

The service is built by the product's own wiring; only its `Probe` is ours. So the process dies exactly between two
steps, which a signal from outside could never hit. Usage:

    launch.py reconciler|ingest|projector --config FILE [--replica r1] [--slot 0/1] [--boot ID] [--lease-ms N]
              [--at STEP:N:kill|stop]...

`--at block.append:3:kill` sends SIGKILL to this very process when it stands at that step for the third time; `stop`
sends SIGSTOP, and whoever sends SIGCONT lets it go on from there. It prints `STEP N` before it does so. A process whose
parent is gone ends, so that a killed test run leaves nothing behind.

Exit codes are those of the command `finality`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from finality.cli.process import patiently, run_loop
from finality.cli.services import Loop
from finality.cli.wiring import ingest_of, open_site, projector_of, reconciler_of
from finality.core.errors import FinalityError
from finality.core.ports import Probe
from finality.settings import load_context
from finality.workers.reconciler import ReconcilerOptions

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Trap(NamedTuple):
    """What happens at the `count`-th time of a step."""

    step: str
    count: int
    number: signal.Signals

    @classmethod
    def of(cls, text: str) -> Trap:
        """From `STEP:N:kill` or `STEP:N:stop`."""
        step, count, what = text.split(":")
        return cls(step, int(count), SIGNALS[what])


class TrappedProbe:
    """A probe with traps. say: a line before the process is hit."""

    def __init__(self, traps: list[Trap], say: Callable[[str], None]) -> None:
        self._traps = {(trap.step, trap.count): trap.number for trap in traps}
        self._seen: Counter[str] = Counter()
        self._say = say

    def at(self, step: str, partition: int) -> None:
        """See `Probe.at`."""
        self._seen[step] += 1
        number = self._traps.get((step, self._seen[step]))
        if number is not None:
            self._say(f"{step} {self._seen[step]}")
            os.kill(os.getpid(), number)


def say(line: str) -> None:
    """One line to standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def guarded(step: Callable[[], int]) -> Callable[[], int]:
    """The step, ending the process when its parent has gone."""
    parent = os.getppid()

    def run() -> int:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return step()

    return run


def build(chosen: argparse.Namespace, probe: Probe) -> Loop:
    """The service by the product's own wiring."""
    site = open_site(load_context(chosen.config), "primary")
    if chosen.service == "ingest":
        return ingest_of(site, (), probe)
    if chosen.service == "projector":
        return projector_of(site, chosen.slot, probe)
    options = ReconcilerOptions(lease_ms=chosen.lease_ms, renew_ms=chosen.lease_ms // 3)
    return reconciler_of(site, chosen.replica, chosen.slot, probe, chosen.boot, options)


def main(words: list[str]) -> int:
    """Run one service until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("service", choices=("reconciler", "ingest", "projector"))
    parser.add_argument("--config", required=True)
    parser.add_argument("--replica", default="r1")
    parser.add_argument("--slot", default="0/1")
    parser.add_argument("--boot", default="")
    parser.add_argument("--lease-ms", type=int, default=5_000)
    parser.add_argument("--at", type=Trap.of, action="append", default=[])
    chosen = parser.parse_args(words)
    probe = TrappedProbe(chosen.at, say)
    try:
        loop = patiently(lambda: build(chosen, probe), say)
        say("ready")
        run_loop(guarded(loop.step), loop.close, say)
    except FinalityError as error:
        say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
