"""A small piece of the Borg trace, what it must come to, and a load that sends it little by little.

Outcomes are known twice: from the rows alone (`finality.lab.truth`, turned into outcomes of the built-in contract
here), and from folding the very events in one go without any fault. A test of faults compares with the first; a unit
test holds the second against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from finality.core.event import Event, encode_event
from finality.core.records import Coordinate
from finality.lab.truth import truth_of_rows, unpack_rows
from finality.sources.base import Source
from finality.sources.registry import source_by_name

__all__ = ["SOURCE", "Load", "Outcome", "Workload", "borg_rows"]

SOURCE = "google-borg"
Outcome = tuple[str, str]  # phase and outcome under the contract `default`; both "" while it is open

_OUTCOMES = {"SUCCEEDED": "SATISFIED", "FAILED": "VIOLATED", "CANCELLED": "CANCELLED", "INCONCLUSIVE": "VIOLATED"}


@cache
def _all_rows() -> tuple[bytes, ...]:
    return tuple(unpack_rows((files("finality") / "data" / "borg-jobs.csv.gz").read_bytes()))


def borg_rows(jobs: int, part: int = 0) -> list[bytes]:
    """All rows of about that many jobs, in the trace's order. part: another number gives other jobs."""
    every = 54_042 // jobs
    return [row for row in _all_rows() if int(row.split(b",")[2]) // 5 % every == part % every]


class Workload:
    """Rows, the events that they become, and the outcomes that they must come to, by job key."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        self.rows = list(rows)
        source: Source = source_by_name(SOURCE)
        self._source = source
        self.events: list[Event] = [source.map(row, ()).events[0] for row in rows]
        self.outcomes: dict[str, Outcome] = {}
        keys = {row.split(b",")[2].decode(): event.job for row, event in zip(rows, self.events, strict=True)}
        for ident, truth in truth_of_rows(rows).items():
            outcome = _OUTCOMES.get(truth.phase, "")
            self.outcomes[keys[ident]] = (truth.phase if outcome else "", outcome)

    def events_of(self, value: bytes) -> list[bytes]:
        """The canonical bytes of every event of a raw record."""
        return [encode_event(event) for event in self._source.map(value, ()).events]

    def coordinates(self, raw: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Coordinate, bytes]]:
        """(coordinate, event) of the records of one raw partition, given as (offset, value)."""
        for offset, value in raw:
            for ordinal, event in enumerate(self.events_of(value)):
                yield Coordinate(offset, ordinal), event


class Load:
    """Sends items little by little: `step` sends the next `each`; made to be called while one waits for something."""

    def __init__(self, items: Sequence[bytes], send: Callable[[Sequence[bytes]], object], each: int) -> None:
        self._items = items
        self._send = send
        self.each = each
        self.sent = 0

    @property
    def is_done(self) -> bool:
        """Everything was sent."""
        return self.sent >= len(self._items)

    def step(self, limit: int = -1) -> None:
        """Send the next few, at most up to `limit` altogether."""
        until = min(self.sent + self.each, len(self._items) if limit < 0 else limit)
        if until > self.sent:
            self._send(self._items[self.sent : until])
            self.sent = until

    def finish(self) -> None:
        """Send all that is left."""
        while not self.is_done:
            self.step()
