"""Whether a reader is alive: what a replica must show before it leads.

A leader whose consumer is stuck would keep its lease and publish nothing. So a replica is fit to lead only if, within
the last `WINDOW_NS`, it stood at an end that was fetched in that time, or its position moved. (Under a long backlog
nobody stands at the end; moving on is what tells a busy replica from a stuck one.)
"""

from __future__ import annotations

from finality.core.ports import RecordReader

__all__ = ["WINDOW_NS", "Feed"]

WINDOW_NS = 3_000_000_000


class Feed:
    """One partition of one reader, watched."""

    __slots__ = ("_alive_at", "_caught_up_at", "_partition", "_position", "_reader")

    def __init__(self, reader: RecordReader, partition: int) -> None:
        self._reader = reader
        self._partition = partition
        self._position = -1
        self._alive_at = -WINDOW_NS
        self._caught_up_at = -1

    def look(self, now: int) -> None:
        """Take note of where the reader stands; `now`: monotonic ns."""
        position = self._reader.position(self._partition)
        if position != self._position:
            if self._position >= 0:
                self._alive_at = now
            self._position = position
        end = self._reader.end(self._partition)
        if end is not None and position >= end.offset and end.fetched_at > self._caught_up_at:
            self._caught_up_at = end.fetched_at
            self._alive_at = max(self._alive_at, end.fetched_at)

    def is_alive(self, now: int) -> bool:
        """Moved, or stood at a fresh end, within the window."""
        return now - self._alive_at <= WINDOW_NS

    def stood_at_end_of(self, since: int) -> bool:
        """The reader has read to an end that was fetched after `since` (monotonic ns)."""
        return self._caught_up_at > since

    @property
    def position(self) -> int:
        """The next offset."""
        return self._reader.position(self._partition)
