"""Canonical bytes are those of RFC 8785, by an independent encoder, for every document that is hashed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from finality.core.canonical import check_domain, encode
from finality.core.entries import RANKS
from finality.core.event import decode_event, encode_event
from finality.core.refold.events import contents_of, read_event
from finality.core.refold.writing import canonical
from finality.core.replica import Replica
from support.effort import effort
from support.histories import HOME, JOBS, Shape, build, event_of, seeds

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.text(st.characters(max_codepoint=127), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@effort(120)
@given(documents)
def test_both_encoders_write_rfc_8785(document: Any) -> None:
    """Any document of the restricted domain."""
    check_domain(document)
    expected = rfc8785.dumps(document)
    assert encode(document) == expected
    assert canonical(document) == expected


@effort(80)
@given(seeds)
def test_events_have_one_form(seed: int) -> None:
    """The event codec, the slow fold's own, and RFC 8785 agree (metric and label names of ASCII)."""
    event = event_of(random.Random(seed), Shape(), JOBS[0])
    event["metrics"] = {name.replace("é", "e"): value for name, value in event.get("metrics", {}).items()}
    value = json.dumps(event).encode()
    form = encode_event(decode_event(value))
    assert contents_of(read_event(value)).encode() == form
    assert rfc8785.dumps(json.loads(form)) == form


def test_entries_and_items_are_canonical() -> None:
    """Whatever the fold says or exports is in canonical form already."""
    kinds = set()
    for seed in range(5):
        rng = random.Random(seed)
        history = build(rng, [rng.randrange(2**32) for _ in range(150)], Shape())
        replica = Replica(history.genesis, 0, HOME)
        for record in history.all:
            replica.feed(record)
        for row in replica.window:
            kinds.add(row.kind)
            document = json.loads(row.entry)
            check_domain(document)
            assert rfc8785.dumps(document) == row.entry
        for item in replica.fold.state.items():
            body = item.partition(b"\0")[2]
            assert rfc8785.dumps(json.loads(body)) == body
    assert kinds == set(RANKS)


@pytest.mark.parametrize("value", [1.5, {"é": 1}, 2**53, [{"a": (1, -(2**53))}], {1: 2}, b"x"])
def test_what_is_outside_of_the_domain_is_named(value: Any) -> None:
    """Fractions, keys beyond ASCII, long integers and foreign types have no canonical form here."""
    with pytest.raises(ValueError, match=r"^\$"):
        check_domain(value)
