"""The fast fold and the slow one say the same of every history: entries, chain, input chain, state, digest.

They share no module but the one that binds the CEL library, so an error has to be made twice to go unseen.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from finality.core.inputlog import Home
from finality.core.refold import Refold
from finality.core.replica import Replica
from support.effort import effort
from support.histories import HOME, History, Shape, build, histories


def compare(history: History, states_every: int = 1) -> set[str]:
    """Feed both record by record; which kinds of entries there were."""
    fast = Replica(history.genesis, 0, Home(*HOME))
    slow = Refold(history.genesis, 0, *HOME)
    kinds = set()
    for number, record in enumerate(history.all):
        made = fast.feed(record)
        rows = slow.feed_input(record.key, record.value, record.headers)
        own = list(fast.window)[len(fast.window) - made :]
        assert [row["entry"] for row in rows] == [row.entry for row in own], record
        assert [(row["index"], row["position"], row["ordinal"], row["chain"], row["input_chain"]) for row in rows] == [
            (row.number, row.position, row.ordinal, row.chain.hex(), row.input_chain.hex()) for row in own
        ]
        assert slow.input.position == fast.input.position
        kinds |= {row.kind for row in own}
        fast.window.clear()
        if number % states_every == 0:
            assert sorted(slow.state_items()) == sorted(fast.fold.state.items()), record
    assert (slow.chain, slow.input.chain) == (fast.chain, fast.input.chain)
    return kinds


@effort(80)
@given(histories())
def test_fast_and_slow_agree_on_every_record(history: History) -> None:
    """Byte for byte, after each record."""
    compare(history)


@pytest.mark.parametrize("seed", range(8))
def test_fast_and_slow_agree_on_long_histories(seed: int) -> None:
    """Hundreds of records on few jobs: budgets run out, breakers open, tombstones leave, jobs come back."""
    rng = random.Random(seed)
    shape = Shape(malformed=seed % 3 == 0)
    history = build(rng, [rng.randrange(2**32) for _ in range(250)], shape)
    compare(history, states_every=10)
