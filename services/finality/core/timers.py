"""Durations on log time.

A timer is one integer beside the thing that it ends: 0 not running; negative: waiting to be started, for that many ns;
positive: due at that log time. With ticks a duration starts at the first tick folded after the event that started it,
so that a stale log time never shortens it; in events mode it starts at the event.

Due timers fire in the order (due, job key, kind). Stale heap rows are recognised because the job's own field moved on.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

__all__ = ["CASCADE", "COMMAND", "DEADLINE", "HOLD", "LEASE", "SETTLE", "Timers"]

DEADLINE, SETTLE, HOLD, LEASE, COMMAND, CASCADE = range(6)
KINDS = ("deadline", "settle", "hold", "lease", "command", "cascade")


class Timers:
    """The heap of due timers and the jobs whose timers wait for a tick. Holds no state of its own: both can be rebuilt
    from the jobs."""

    __slots__ = ("_heap", "ticks", "waiting")

    def __init__(self, ticks: bool) -> None:
        self.ticks = ticks
        self.waiting: set[str] = set()
        self._heap: list[tuple[int, str, int]] = []

    def start(self, log_time: int, key: str, kind: int, duration: int) -> int:
        """Start a duration (ns > 0); the value for the job's field."""
        if self.ticks:
            self.waiting.add(key)
            return -duration
        due = log_time + duration
        heappush(self._heap, (due, key, kind))
        return due

    def arm(self, log_time: int, key: str, kind: int, value: int) -> int:
        """A tick was folded: the due time of a waiting timer."""
        due = log_time - value
        heappush(self._heap, (due, key, kind))
        return due

    def restore(self, key: str, kind: int, value: int) -> None:
        """Take over a job's timer after an import. Call `settle` once at the end."""
        if value < 0:
            self.waiting.add(key)
        elif value > 0:
            self._heap.append((value, key, kind))

    def rebuilt(self) -> None:
        """All timers were restored."""
        heapify(self._heap)

    def pop_due(self, log_time: int) -> tuple[int, str, int] | None:
        """The next (due, job key, kind) at or before `log_time`, stale rows included."""
        if self._heap and self._heap[0][0] <= log_time:
            return heappop(self._heap)
        return None
