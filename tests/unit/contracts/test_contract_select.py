"""Which contract a job gets: the most specific one, and always the same one."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any

import pytest
from contract_documents import STEADY, contract
from hypothesis import given
from hypothesis import strategies as st

from finality.core.contract import Contract, select
from finality.core.glob import Glob


def _named(name: str, **selector: Any) -> Contract:
    return contract({"selector": selector}, name)


RULES = [
    _named("all"),
    _named("source", source="openlineage"),
    _named("kind", kind="run"),
    _named("labels", labels={"team": "data"}),
    _named("more-labels", labels={"team": "data", "tier": "1"}),
    _named("glob", job="prod.*"),
    _named("longer-glob", job="prod.daily.*"),
    _named("exact", job="prod.daily.etl"),
    _named("elsewhere", job="test.*"),
]


@pytest.mark.parametrize(
    ("source", "kind", "name", "labels", "chosen"),
    [
        ("slurm", "job", "x", {}, "all"),
        ("openlineage", "job", "x", {}, "source"),
        ("openlineage", "run", "x", {}, "kind"),
        ("slurm", "job", "x", {"team": "data"}, "labels"),
        ("slurm", "job", "x", {"team": "data", "tier": "1"}, "more-labels"),
        ("slurm", "job", "x", {"team": "other", "tier": "1"}, "all"),
        ("slurm", "job", "prod.x", {"team": "data"}, "glob"),
        ("slurm", "job", "prod.daily.x", {}, "longer-glob"),
        ("slurm", "job", "prod.daily.etl", {}, "exact"),
    ],
)
def test_the_most_specific_selector_wins(
    source: str, kind: str, name: str, labels: dict[str, str], chosen: str
) -> None:
    found = select(RULES, source, kind, name, labels)
    assert found is not None
    assert found.name == chosen
    assert found is select(reversed(RULES), source, kind, name, labels)


def test_among_equals_the_first_name_wins_in_any_order() -> None:
    rules = [_named(name, kind="run") for name in ("b", "a", "c")]
    assert {found.name for order in permutations(rules) if (found := select(order, "s", "run", "", {}))} == {"a"}


def test_no_contract_selects_what_none_is_for() -> None:
    assert select([_named("x", source="slurm")], "github", "run", "x", {}) is None
    assert select([], "github", "run", "x", {}) is None


@STEADY
@given(st.text("ab.*?[]!-]^\\", max_size=10), st.text("ab.-]^\\\n", max_size=10))
def test_a_glob_means_what_fnmatch_means(pattern: str, name: str) -> None:
    assert Glob(pattern).matches(name) == fnmatchcase(name, pattern)


@STEADY
@given(st.text(max_size=6), st.text(max_size=6), st.text(max_size=6))
def test_a_glob_around_any_text_finds_it(before: str, middle: str, after: str) -> None:
    quoted = "".join(f"[{char}]" if char in "*?[" else char for char in middle)
    assert Glob(f"*{quoted}*").matches(before + middle + after)


@pytest.mark.parametrize("pattern", ["*a" * 100 + "*b", "*?" * 100 + "b", "*[a-z]" * 40 + "!", "*" * 200 + "b"])
def test_a_hostile_glob_costs_bounded_time(pattern: str) -> None:
    begin = time.process_time()
    assert not Glob(pattern[:256]).matches("a" * 60_000 + "c")
    assert time.process_time() - begin < 2
