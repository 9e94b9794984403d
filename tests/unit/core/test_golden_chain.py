"""The bytes of history: the fold of recorded input gives the very chain that it gave when it was written down.

A change of any hashed byte is a new fold version, never an accident. `tests/golden/borg_chain.txt` holds the figures;
this file run as a program writes them again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from finality.core.fold import Fold
from finality.core.records import Record
from finality.core.replica import Replica
from finality.core.state import State
from support.borg_history import (
    CONTRACT,
    HOME,
    Told,
    Written,
    event_records,
    genesis,
    head,
    sample_events,
    tell,
)
from support.varied_history import varied_records

GOLDEN = Path(__file__).parents[2] / "golden" / "borg_chain.txt"
VARIED = {"log_time": "ticks", "digest_every": 500, "memory": str(3600 * 10**9), "hold_for": str(15 * 10**9)}
CONTRACTS = {"borg-contract": CONTRACT, "borg-default": None}


def fold(first: bytes, records: list[Record]) -> Told:
    """A history through a new replica."""
    return tell(Replica(first, 0, HOME), first, records)


def fold_restored(first: bytes, records: list[Record], every: int) -> Told:
    """The same with a fold that is thrown away and restored from its items after every `every` records."""
    replica = Replica(first, 0, HOME)
    for number, record in enumerate(records, 1):
        replica.feed(record)
        if number % every == 0:
            state = replica.fold.state
            restored = State.restore(replica.genesis, list(state.items()), state.index)
            replica.fold = Fold(replica.genesis, restored)
    return tell(replica, first, [])


def varied() -> tuple[bytes, list[Record]]:
    """The crooked history and its genesis."""
    first = genesis(**VARIED)
    return first, head(first) + varied_records(7, 6_000)


def lines(name: str, told: Told) -> Iterator[str]:
    """What is written down of a history."""
    yield f"{name} chain {told.chain}"
    yield f"{name} digest {told.digest}"
    yield f"{name} entries {told.entries}"
    for kind, count in sorted(told.kinds.items()):
        yield f"{name} kind {kind} {count}"
    for outcome, count in sorted(told.outcomes.items()):
        yield f"{name} outcome {outcome} {count}"


def expected(name: str) -> list[str]:
    """The lines of one history."""
    return [line for line in GOLDEN.read_text().splitlines() if line.startswith(name + " ")]


@pytest.fixture(scope="module")
def events() -> list[Written]:
    return sample_events()


@pytest.fixture(scope="module")
def told(events: list[Written]) -> Told:
    """The sample in file order, against its contract."""
    first = genesis()
    return fold(first, head(first, CONTRACT) + event_records(events))


def test_the_sample_gives_the_chain_that_was_written_down(told: Told) -> None:
    assert list(lines("borg-contract", told)) == expected("borg-contract")


def test_so_it_does_against_the_built_in_contract(events: list[Written]) -> None:
    first = genesis()
    assert list(lines("borg-default", fold(first, head(first) + event_records(events)))) == expected("borg-default")


def test_a_fold_restored_again_and_again_gives_the_same_chain(events: list[Written]) -> None:
    first = genesis()
    told = fold_restored(first, head(first, CONTRACT) + event_records(events), 64_999)
    assert list(lines("borg-contract", told)) == expected("borg-contract")


@pytest.mark.parametrize("every", [7_000_000, 307])
def test_the_crooked_history_gives_the_chain_that_was_written_down(every: int) -> None:
    first, records = varied()
    assert list(lines("varied", fold_restored(first, records, every))) == expected("varied")


def test_records_handed_out_twice_give_the_entries_of_one(events: list[Written]) -> None:
    first = genesis(digest_every=10**9)
    records = event_records(events[:20_000])
    doubled = [record for pair in zip(records, records, strict=True) for record in pair]
    once, twice = Replica(first, 0, HOME), Replica(first, 0, HOME)
    tell(once, first, head(first, CONTRACT) + records)
    tell(twice, first, head(first, CONTRACT) + doubled)
    assert [row.entry for row in twice.window] == [row.entry for row in once.window]
    assert twice.fold.counts["source_repeat"] == len(records)


def write() -> None:
    """Write the golden file again."""
    first, records = varied()
    made = list(lines("varied", fold(first, records)))
    first = genesis()
    for name, contract in CONTRACTS.items():
        made += lines(name, fold(first, head(first, contract) + event_records(sample_events())))
    GOLDEN.write_text("\n".join(sorted(made)) + "\n")


if __name__ == "__main__":
    sys.exit(write())
