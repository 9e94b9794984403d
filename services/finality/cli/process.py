"""A long-running service as a process: signals, exit codes, a line when it is ready.

SIGTERM and SIGINT only set a flag (an exception out of a client's poll would drop fetched records); the loop ends after
the step at hand.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from finality.core.errors import Disposition, FinalityError

__all__ = ["SystemClock", "patiently", "run_loop"]

T = TypeVar("T")

_BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class SystemClock:
    """The machine's clocks. Monotonic time runs on while the machine sleeps, where the platform has such one."""

    def __init__(self) -> None:
        self._which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall_ns(self) -> int:
        """Wall clock, ns UTC."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """A clock that never goes back, ns."""
        return time.clock_gettime_ns(self._which)


class _Stop:
    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def patiently(build: Callable[[], T], warn: Callable[[str], None], limit_s: float = 120.0) -> T:
    """What `build` makes, tried again while a dependency is away: services and brokers start in any order.

    Raises the last error when `limit_s` is over, and at once one that waiting does not heal.
    """
    deadline = time.monotonic() + limit_s
    failures = 0
    while True:
        try:
            return build()
        except FinalityError as error:
            if error.disposition is not Disposition.RETRY or time.monotonic() > deadline:
                raise
            warn(f"waiting: {error}")
            time.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
            failures += 1


def run_loop(step: Callable[[], int], close: Callable[[], None], warn: Callable[[str], None]) -> None:
    """Run `step` until SIGTERM or SIGINT, then `close`. Dependencies that are away are waited for, with backoff; any
    other error ends the process."""
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop.ask)
    signal.signal(signal.SIGINT, stop.ask)
    failures = 0
    gc.freeze()  # what was built so far stays; and the loops make no cycles, so looking for them may be rare
    gc.set_threshold(50_000, 50, 100)
    try:
        while not stop.asked:
            try:
                step()
                failures = 0
            except FinalityError as error:
                if error.disposition is not Disposition.RETRY:
                    raise
                warn(f"waiting: {error}")
                time.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
                failures += 1
    finally:
        close()
