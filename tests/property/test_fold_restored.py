"""A fold that is stopped and restored at any record goes on as if nothing had happened; surroundings do not matter."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from finality.core.fold import Fold, Made
from finality.core.genesis import Genesis, decode_genesis
from finality.core.records import KIND, Record
from finality.core.state import State
from support.effort import effort
from support.histories import History, Shape, build, histories, seeds
from support.refold_digest import everything

TESTS = Path(__file__).parents[1]


def step(fold: Fold, position: int, record: Record) -> list[tuple[int, int, bytes]]:
    """One record; its entries."""
    kind = dict(record.headers)[KIND] or b""
    made: list[Made] = fold.step(position, kind, record.key, record.value, record.headers)
    return [(row.index, row.ordinal, row.entry) for row in made]


def restored(genesis: Genesis, fold: Fold, order: random.Random | None = None) -> Fold:
    """A new fold from the exported items of another, in any order."""
    items = list(fold.state.items())
    if order is not None:
        order.shuffle(items)
    return Fold(genesis, State.restore(genesis, items, fold.state.index))


@effort(25)
@given(histories(), seeds)
def test_restoring_at_every_record_changes_nothing(history: History, seed: int) -> None:
    """Entries, then the state with its digest, equal those of a fold that was never stopped."""
    genesis = decode_genesis(history.genesis)
    order = random.Random(seed)
    straight, stopped = Fold(genesis), Fold(genesis)
    for position, record in enumerate(history.records, 2):
        assert step(stopped, position, record) == step(straight, position, record)
        assert sorted(stopped.state.items()) == sorted(straight.state.items())
        stopped = restored(genesis, stopped, order)
        assert sorted(stopped.state.items()) == sorted(straight.state.items())
    assert stopped.state.digest() == straight.state.digest()


@pytest.mark.parametrize("seed", range(2))
def test_a_history_cut_at_every_place_goes_on_alike(seed: int) -> None:
    """For every place: restore once there, and fold the rest."""
    rng = random.Random(seed)
    history = build(rng, [rng.randrange(2**32) for _ in range(40)], Shape())
    genesis = decode_genesis(history.genesis)
    whole = Fold(genesis)
    entries = [step(whole, position, record) for position, record in enumerate(history.records, 2)]
    expected = whole.state.digest()
    first = Fold(genesis)
    for cut, record in enumerate(history.records):
        second = restored(genesis, first)
        rest = [step(second, position, one) for position, one in enumerate(history.records[cut:], cut + 2)]
        assert rest == entries[cut:]
        assert second.state.digest() == expected
        step(first, cut + 2, record)


SURROUNDINGS = (
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/Caracas", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
)


@pytest.mark.parametrize("surroundings", SURROUNDINGS, ids=lambda row: row["TZ"])
def test_hash_seed_zone_and_locale_do_not_matter(surroundings: dict[str, str]) -> None:
    """Another process, other surroundings: the same bytes from both folds."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, **surroundings, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(TESTS / "support" / "refold_digest.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip() == everything(6, 120)
