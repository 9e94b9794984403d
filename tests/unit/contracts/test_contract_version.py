"""A contract's identity: the canonical bytes of what it says, however it was written."""

from __future__ import annotations

import copy
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from contract_documents import SPECS, STEADY, contract, tree
from hypothesis import given
from hypothesis import strategies as st

from finality.core.canonical import check_domain, encode
from finality.core.contract import (
    Compensation,
    ContractError,
    JobLease,
    Probe,
    compile_contract,
    contract_of_tree,
    default_contract,
)
from finality.core.quantity import MAX_DURATION

FULL: dict[str, Any] = {
    "selector": {"source": "openlineage", "kind": "run", "job": "prod.daily.*", "labels": {"team": "data"}},
    "targetState": {"phase": "SUCCEEDED", "metrics": {"accuracy": "≥ 0.92", "throughput": ">= 1200 req/s"}},
    "limits": {"runTime": "1h", "latency": "800ms", "retries": 2},
    "deadline": "6h",
    "settle": "30s",
    "reconcilePolicy": "strict",
    "ordering": {"revisions": "contiguous", "holdMax": 64, "holdFor": "60s"},
    "predicates": [{"name": "rows", "cel": "rows_out > 0"}],
    "stages": ["Pending", "Validating", "Approved", "Applied"],
    "cascade": {"parent": "root"},
    "follow": "latest",
    "jobLease": {"ttl": "90s", "keepAlive": "30s", "longestStep": "60s"},
    "livenessProbe": {"httpGet": {"url": "http://model/healthz", "period": "10s", "failureThreshold": 3}},
    "compensations": [{"on": "VIOLATED", "action": "rerun-step", "backoff": "10s", "budget": 2}],
}
SECOND = 10**9


def test_everything_that_a_contract_says_is_compiled() -> None:
    made = contract(FULL)
    assert (made.run_time, made.latency, made.deadline) == (3600 * SECOND, 800_000_000, 6 * 3600 * SECOND)
    assert (made.settle, made.retries, made.strict) == (30 * SECOND, 2, True)
    assert (made.contiguous, made.hold_max, made.hold_for) == (True, 64, 60 * SECOND)
    assert (made.stages[0], made.cascade, made.follow_latest, made.needs_labels) == ("Pending", True, True, True)
    assert made.job_lease == JobLease(90 * SECOND, 30 * SECOND, 60 * SECOND)
    assert made.probe == Probe("http://model/healthz", 10 * SECOND, 3)
    assert made.compensations == (Compensation("VIOLATED", "rerun-step", 10 * SECOND, 2, 300 * SECOND, 5),)
    assert list(made.expected) == sorted(made.expected)
    assert made.expected["stage"] == "Applied"


def test_defaults_are_written_out_so_that_a_new_default_cannot_change_an_old_version() -> None:
    made = contract({})
    assert b'"settle":"30s"' in made.document
    assert b'"reconcilePolicy":"eventual"' in made.document
    assert (made.settle, made.strict, made.contiguous, made.hold_max, made.job_lease) == (
        30 * SECOND,
        False,
        False,
        None,
        None,
    )
    assert (made.needs_labels, made.expected) == (False, {"phase": "SUCCEEDED"})


def test_other_ways_of_writing_are_the_same_version_and_other_meanings_are_not() -> None:
    base = contract({"targetState": {"metrics": {"a": ">= 0.92"}}, "limits": {"runTime": "1h"}}).version
    same = contract({"limits": {"runTime": "3600s"}, "settle": "30s", "targetState": {"metrics": {"a": "≥0.9200"}}})
    other = contract({"targetState": {"metrics": {"a": "> 0.92"}}, "limits": {"runTime": "1h"}})
    assert same.version == base
    assert other.version != base


@STEADY
@given(SPECS)
def test_compiling_a_contracts_own_document_gives_the_same_bytes(spec: dict[str, Any]) -> None:
    made = contract(spec)
    again = compile_contract(made.document)
    assert again.document == made.document
    assert made.version == again.version == sha256(made.document).hexdigest()[:12]
    assert again.expected == made.expected
    parsed = msgspec.json.decode(made.document)
    check_domain(parsed)
    assert encode(parsed) == made.document


def test_a_copy_of_a_contract_is_the_contract() -> None:
    made = contract(FULL)
    assert copy.deepcopy([made])[0] is made
    assert copy.copy(made) is made


def test_labels_are_needed_only_where_they_are_looked_at() -> None:
    assert contract({"predicates": [{"name": "a", "cel": "labels.team == 'data'"}]}).needs_labels
    assert contract({"predicates": [{"name": "a", "cel": "name.startsWith('x')"}]}).needs_labels
    assert not contract({"selector": {"labels": {"team": "data"}}}).needs_labels


@pytest.mark.parametrize("tenant", ["default", "a%20b", "~'()*", "x" * 400])
@pytest.mark.parametrize("settle", [0, 1, 30 * SECOND, 2**62])
def test_the_built_in_contract_never_fails(tenant: str, settle: int) -> None:
    made = default_contract(tenant, settle)
    assert (made.name, made.version, made.tenant) == ("default", "", tenant)
    assert made.settle == min(settle, MAX_DURATION)
    assert made.expected == {"phase": "SUCCEEDED"}
    assert made.selects("any", "thing", "at all", {})


def test_nobody_elses_contract_may_be_called_default() -> None:
    with pytest.raises(ContractError, match="built-in"):
        contract({}, "default")


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b" " * 300_000, b'"x"', b"1e999"],
)
def test_bytes_that_are_no_contract_are_refused(document: bytes) -> None:
    with pytest.raises(ContractError) as refusal:
        compile_contract(document)
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 2


JSONS = st.recursive(
    st.one_of(st.integers(), st.text(), st.booleans(), st.floats(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@STEADY
@given(SPECS, JSONS)
def test_any_value_in_any_place_gives_a_contract_or_faults_and_nothing_else(spec: dict[str, Any], junk: Any) -> None:
    for key in ("selector", "limits", "stages", "predicates", "jobLease", "settle", "ordering", "compensations", junk):
        if isinstance(key, str):
            made, faults = contract_of_tree(tree({**spec, key: junk}))
            assert (made is None) == any(not fault.warning for fault in faults)
            assert all("\n" not in fault.render() for fault in faults)
