"""Evidence against a contract: what is missing is never met, and every item has a text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from contract_documents import SPECS, STEADY, contract
from hypothesis import given
from hypothesis import strategies as st

from finality.core.canonical import check_domain, encode
from finality.core.contract import default_contract
from finality.core.evaluate import Evidence, evaluate
from finality.core.event import ENDED, OPEN, PHASES

MODEL = {
    "targetState": {"metrics": {"accuracy": "≥ 0.92", "throughput": ">= 1200 req/s"}},
    "limits": {"runTime": "1h", "latency": "800ms", "retries": 2},
    "predicates": [{"name": "rows", "cel": "rows_out > 0"}],
    "stages": ["Pending", "Validating", "Approved"],
}
GOOD: dict[str, Any] = {
    "phase": "SUCCEEDED",
    "created": 0,
    "start": 100_000_000,
    "end": 800_000_000,
    "attempts": 3,
    "metrics": {"accuracy": "0.920", "throughput": "1200", "rows_out": "1"},
    "stages": 3,
}
NUMBERS = st.one_of(st.none(), st.integers(-(2**62), 2**62))
EVIDENCE = st.builds(
    Evidence,
    phase=st.sampled_from(["", *PHASES]),
    conflict=st.booleans(),
    start=NUMBERS,
    end=NUMBERS,
    created=NUMBERS,
    attempts=st.integers(0, 5),
    metrics=st.dictionaries(
        st.sampled_from(["a", "b", "rows_out"]), st.sampled_from([None, "0", "1", "0.5", "-3", "1e9", "nan", ""])
    ),
    labels=st.dictionaries(st.sampled_from(["x", "y"]), st.text(max_size=3)),
    stages=st.integers(0, 0),
)


@dataclass
class _Lacking:
    field: str
    value: Any
    items: dict[str, str]


def test_the_model_case_is_met_at_its_very_limits() -> None:
    actual, delta = evaluate(contract(MODEL), Evidence(**GOOD))
    assert delta == {}
    assert actual == {
        "latency": "800ms",
        "metrics.accuracy": "0.92",
        "metrics.throughput": "1200 req/s",
        "phase": "SUCCEEDED",
        "predicates.rows": "true",
        "retries": "2",
        "runTime": "700ms",
        "stage": "Approved",
    }


@pytest.mark.parametrize(
    "case",
    [
        _Lacking("phase", "FAILED", {"phase": "UNMET"}),
        _Lacking("phase", "RUNNING", {"phase": "UNMET"}),
        _Lacking("phase", "", {"phase": "UNKNOWN"}),
        _Lacking("conflict", True, {"phase": "UNKNOWN"}),
        _Lacking("start", None, {"runTime": "UNKNOWN"}),
        _Lacking("start", 900_000_000, {"runTime": "UNKNOWN"}),
        _Lacking("created", None, {"latency": "UNKNOWN"}),
        _Lacking("created", -1, {"latency": "UNMET"}),
        _Lacking("end", None, {"latency": "UNKNOWN", "runTime": "UNKNOWN"}),
        _Lacking("attempts", 0, {"retries": "UNKNOWN"}),
        _Lacking("attempts", 4, {"retries": "UNMET"}),
        _Lacking("stages", 2, {"stage": "UNMET"}),
        _Lacking("stages", 0, {"stage": "UNMET"}),
        _Lacking("metrics", {**GOOD["metrics"], "accuracy": "0.9199"}, {"metrics.accuracy": "UNMET"}),
        _Lacking("metrics", {**GOOD["metrics"], "accuracy": None}, {"metrics.accuracy": "UNKNOWN"}),
        _Lacking("metrics", {**GOOD["metrics"], "accuracy": "high"}, {"metrics.accuracy": "ERROR"}),
        _Lacking("metrics", {**GOOD["metrics"], "rows_out": None}, {"predicates.rows": "UNKNOWN"}),
        _Lacking("metrics", {**GOOD["metrics"], "rows_out": "0"}, {"predicates.rows": "UNMET"}),
        _Lacking(
            "metrics",
            {},
            {"metrics.accuracy": "UNKNOWN", "metrics.throughput": "UNKNOWN", "predicates.rows": "UNKNOWN"},
        ),
    ],
    ids=lambda case: f"{case.field}={case.value}"[:60],
)
def test_each_thing_that_is_missing_or_wrong_names_its_item(case: _Lacking) -> None:
    _, delta = evaluate(contract(MODEL), Evidence(**{**GOOD, case.field: case.value}))
    assert delta == case.items


@pytest.mark.parametrize("phase", sorted(OPEN | ENDED))
def test_the_built_in_contract_is_met_by_success_alone(phase: str) -> None:
    actual, delta = evaluate(default_contract("default", 0), Evidence(phase=phase))
    assert actual == {"phase": phase}
    assert delta == ({} if phase == "SUCCEEDED" else {"phase": "UNMET"})


def test_two_different_endings_are_unknown_even_if_the_greatest_is_the_target() -> None:
    assert evaluate(default_contract("t", 0), Evidence("SUCCEEDED", conflict=True)) == (
        {"phase": "CONFLICT"},
        {"phase": "UNKNOWN"},
    )


def _number(text: str | None) -> Decimal | None:
    try:
        return Decimal(text) if text and text not in ("nan", "1e9") else None
    except ArithmeticError:
        return None


@STEADY
@given(SPECS, EVIDENCE)
def test_nothing_is_met_without_the_evidence_for_it(spec: dict[str, Any], evidence: Evidence) -> None:
    owed = contract(spec)
    actual, delta = evaluate(owed, evidence)
    met = owed.expected.keys() - delta.keys()
    assert list(actual) == sorted(owed.expected)
    assert list(delta) == sorted(delta)
    assert set(delta.values()) <= {"UNMET", "UNKNOWN", "ERROR"}
    check_domain([actual, delta, owed.expected])
    if "phase" in met:
        assert (evidence.phase, evidence.conflict) == (owed.target_phase, False)
    if "runTime" in met:
        assert evidence.start is not None
        assert evidence.end is not None
        assert owed.run_time is not None
        assert 0 <= evidence.end - evidence.start <= owed.run_time
    if "latency" in met:
        assert evidence.created is not None
        assert evidence.end is not None
        assert owed.latency is not None
        assert 0 <= evidence.end - evidence.created <= owed.latency
    if "retries" in met:
        assert owed.retries is not None
        assert 0 <= evidence.attempts - 1 <= owed.retries
    assert "stage" not in met
    for item in met:
        if item.startswith("metrics."):
            assert _number(evidence.metrics.get(item.removeprefix("metrics."))) is not None
        if item.startswith("predicates."):
            source = owed.expected[item]
            if "rows_out" in source:
                rows = _number(evidence.metrics.get("rows_out"))
                assert rows is not None
                assert rows > 0
            if "attempts" in source:
                assert evidence.attempts in (1, 2)
                assert (evidence.phase, evidence.conflict) == ("SUCCEEDED", False)
            if "metrics.a" in source and "a" in evidence.metrics:
                assert evidence.metrics["a"] is not None
            if "run_time_ms" in source:
                assert None not in (evidence.start, evidence.end)


@STEADY
@given(SPECS, EVIDENCE)
def test_the_same_evidence_in_another_order_gives_the_same_bytes(spec: dict[str, Any], evidence: Evidence) -> None:
    other = Evidence(**{name: getattr(evidence, name) for name in Evidence.__struct_fields__})
    other.metrics = dict(reversed(evidence.metrics.items()))
    other.labels = dict(reversed(evidence.labels.items()))
    backwards = dict(reversed(spec.items()))
    assert encode(list(evaluate(contract(spec), evidence))) == encode(list(evaluate(contract(backwards), other)))
