"""Contracts, read by both implementations: the same documents are taken, with the same version, selection and texts."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from finality.core import contract as fast
from finality.core import quantity
from finality.core.refold import contracts as slow
from finality.core.refold import quantities
from finality.core.refold.reading import document_of
from support.contracts import THEMES, Shape, contract_of
from support.effort import effort
from support.histories import seeds

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**53, 10**30, 1.0, 1.5, "", " ", "0", "0s", "none", "5m", "1h30m", "30m1h", "1.5h"),
    *(
        "90s",
        "3651d",
        "99999999999999999999s",
        "SUCCEEDED",
        "succeeded",
        "default",
        "x" * 300,
        "é",
        "a b",
        "a\n",
        "\u0000",
    ),
    *(
        "> 1",
        ">1ms",
        "=> 1",
        ">= 1 GiB",
        ">= 1 GB",
        "≥ 007.500 %",
        "== -0.0",
        "> 1e3",
        "rows >",
        "phase",
        "1 == 1",
        "x/0 > 1",
    ),
    *([], [[]], {}, {"a": 1}, ["A", "A"], ["A", 1], {"": ""}, {"a": "> 1"}, {"é": "> 1"}, {"parent": "root"}),
)
NAMES = ("n1", "n12", "m", "", "é", "[", "a]", "n*", "prod.daily.x")
GLOBS = (
    "*",
    "n*",
    "n?",
    "n1",
    "[mn]1",
    "[!n]*",
    "[",
    "[]",
    "[]a]",
    "[!]a]*",
    "n[0-9]*",
    "*.daily.*",
    "a[",
    "[]]",
    "?",
    "**",
)


def changed(rng: Random, document: Any) -> Any:
    """The document with one or two of its parts replaced, removed, renamed or added."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        places: list[tuple[Any, Any]] = []
        _walk(document, places)
        owner, key = rng.choice(places)
        dice = rng.random()
        if dice < 0.6:
            owner[key] = rng.choice(ODD)
        elif dice < 0.8:
            del owner[key]
        elif isinstance(owner, dict):
            owner[rng.choice(("more", "spec", "runtime", "runTime", "on", "job", "labels"))] = rng.choice(ODD)
        else:
            owner.append(owner[key])
    return document


def _walk(tree: Any, places: list[tuple[Any, Any]]) -> None:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        places.append((tree, key))
        if isinstance(tree[key], dict | list):
            _walk(tree[key], places)


@effort(120)
@given(seeds)
def test_both_take_the_same_contracts(seed: int) -> None:
    """Sound ones and broken ones; version and canonical bytes are equal."""
    rng = Random(seed)
    document = changed(rng, contract_of(rng, "one", Shape(), rng.choice(THEMES)))
    value = json.dumps(document).encode()
    try:
        one = fast.compile_contract(value)
    except fast.ContractError:
        one = None
    try:
        other = slow.compiled(document_of(value))
    except ValueError:
        other = None
    assert (one is None) == (other is None), document
    if one is not None and other is not None:
        assert (one.document, one.version) == (other.bytes, other.version)
        assert one.expected == other.expected
        assert (one.needs_labels, one.deadline, one.settle) == (other.needs_labels, other.deadline, other.settle)


def test_most_changed_contracts_are_refused_and_many_are_not() -> None:
    """The test above looks at both sides of the border."""
    taken = 0
    for seed in range(150):
        rng = Random(seed)
        document = changed(rng, contract_of(rng, "one", Shape(), rng.choice(THEMES)))
        try:
            fast.compile_contract(json.dumps(document).encode())
            taken += 1
        except fast.ContractError:
            pass
    assert 30 < taken < 120


@effort(120)
@given(seeds)
def test_both_select_the_same_contract(seed: int) -> None:
    """Of several contracts with globs, labels, sources and kinds."""
    rng = Random(seed)
    documents = []
    for number in range(rng.randrange(1, 5)):
        selector: dict[str, Any] = {}
        for key, words in (("source", "ab"), ("kind", "rs"), ("job", GLOBS)):
            if rng.random() < 0.5:
                selector[key] = rng.choice(words)
        if rng.random() < 0.3:
            selector["labels"] = {"team": rng.choice(("red", "blue"))}
        spec = {"selector": selector}
        documents.append({**contract_of(rng, f"c{number}", Shape(timeless=True)), "spec": spec})
    values = [json.dumps(document).encode() for document in documents]
    one = [fast.compile_contract(value) for value in values]
    other = [slow.compiled(document_of(value)) for value in values]
    for name in NAMES:
        job = (rng.choice("ab"), rng.choice("rs"), name, rng.choice(({}, {"team": "red"})))
        chosen, also = fast.select(one, *job), slow.most_specific(other, *job)
        assert (chosen and chosen.name) == (also and also.name), (name, documents)


duration_texts = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["d", "h", "m", "s", "ms", "us", "ns", "w", ""])), max_size=4
).map(lambda parts: "".join([f"{count}{unit}" for count, unit in parts]))
number_texts = st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{1,6})?", fullmatch=True)
bound_texts = st.tuples(
    st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "≤", "≥", "≠", "=", ""]),
    number_texts,
    st.sampled_from(["", "%", "req/s", "B", "KiB", "MiB", "GiB", "ms", "s", "m", "h", "d", "kB", "S"]),
).map(" ".join)


@effort(120)
@given(duration_texts | st.text("0123456789dhmsun ", max_size=8))
def test_durations_agree(text: str) -> None:
    """Taken or refused alike, the same length, the same one text."""
    results: list[object] = []
    for parse, shown in (
        (quantity.parse_duration, quantity.format_duration),
        (quantities.duration, quantities.short_time),
    ):
        try:
            length = parse(text)
            results.append((length, shown(length), shown(-length)))
        except ValueError:
            results.append(None)
    assert results[0] == results[1]


@effort(120)
@given(bound_texts, number_texts)
def test_bounds_agree(text: str, measured: str) -> None:
    """Taken or refused alike, the same text, and the same answer about a measurement."""
    results: list[object] = []
    try:
        bound = quantity.parse_bound(text)
        number = quantity.parse_number(measured)
        results.append((bound.text, bound.holds(number), bound.show(number)))
    except ValueError:
        results.append(None)
    try:
        other = quantities.read_bound(text)
        results.append((other.text, other.holds(measured), other.show(measured)))
    except ValueError:
        results.append(None)
    assert results[0] == results[1]
