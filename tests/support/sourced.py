"""Records of a file through a source, as ingest would pass them: what each gave, and what was refused."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.sources.base import Reading, Source
from support.mapped_files import SEEDS


class Given(NamedTuple):
    """What one record gave. code: of its rejection, "" = none."""

    events: tuple[Event, ...]
    unknown: tuple[str, ...] = ()
    code: str = ""


def give(source: Source, reading: Reading) -> Given:
    """One record mapped, a rejection kept as its code."""
    try:
        mapped = source.map(reading.value, reading.headers)
    except Rejected as error:
        return Given((), (), error.code)
    return Given(mapped.events, mapped.unknown)


def give_file(source: Source, path: Path) -> list[Given]:
    """Every record of a file mapped, in file order."""
    return [give(source, reading) for reading in source.read(path)]


def events_of(given: Iterable[Given]) -> list[Event]:
    """All events, in order."""
    return [event for one in given for event in one.events]


def deliveries(readings: list[Reading]) -> Iterator[tuple[str, list[Reading]]]:
    """The same records as a topic may bring them: in file order, shuffled by several seeds, each twice."""
    yield "file order", readings
    yield "reversed", readings[::-1]
    for seed in SEEDS:
        shuffled = readings * (1 + seed % 2)
        random.Random(seed).shuffle(shuffled)
        yield f"shuffled by {seed}{' and doubled' if seed % 2 else ''}", shuffled
    yield "each twice in a row", [reading for reading in readings for _ in range(2)]


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a truth table."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))
