"""Files through sources, for tests: events, rejections and unknown words, and the orders in which to give them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.sources.base import Mapped, Source

DATA = Path(__file__).parents[1] / "data"
SHIPPED = Path(__file__).parents[2] / "services" / "finality" / "data"
SEEDS = (1, 2, 3, 4, 5)


class MappedFile(NamedTuple):
    """lines: what each record (from 1) gave, a code where it was rejected."""

    lines: dict[int, Mapped | str]
    events: list[Event]
    rejected: Counter[str]
    unknown: Counter[str]

    def of_line(self, number: int) -> tuple[Event, ...]:
        """Events of one record."""
        mapped = self.lines[number]
        assert isinstance(mapped, Mapped), mapped
        return mapped.events


def map_file(source: Source, path: Path) -> MappedFile:
    """Every record of a file through one source."""
    lines: dict[int, Mapped | str] = {}
    rejected: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    events: list[Event] = []
    for number, reading in enumerate(source.read(path), 1):
        try:
            mapped = source.map(reading.value, reading.headers)
        except Rejected as refusal:
            lines[number] = refusal.code
            rejected[refusal.code] += 1
            continue
        lines[number] = mapped
        events += mapped.events
        unknown.update(mapped.unknown)
    return MappedFile(lines, events, rejected, unknown)


def orders(events: list[Event], seeds: tuple[int, ...] = SEEDS) -> Iterator[tuple[str, list[Event]]]:
    """The same events in file order, backwards, shuffled, and shuffled with each one twice."""
    yield "file order", events
    yield "backwards", events[::-1]
    for seed in seeds:
        mixed = list(events)
        random.Random(seed).shuffle(mixed)
        yield f"shuffled {seed}", mixed
        doubled = events * 2
        random.Random(seed).shuffle(doubled)
        yield f"doubled {seed}", doubled
