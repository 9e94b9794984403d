"""YAML read strictly: every fault with its line, hostile files refused quickly, both parsers alike."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from contract_documents import HEAD, SPECS, STEADY, contract, sample, tree
from hypothesis import given
from hypothesis import strategies as st

from finality.core.contract import MAX_DOCUMENT
from finality.core.contract_yaml import fastest_parser, load_contract

PARSERS = [yaml.SafeLoader, fastest_parser()]

FAULTY = """\
apiVersion: finality.dev/v1alpha2
kind: StatefullJob
metadata: {name: Nightly}
spec:
  selctor: {source: canonical}
  targetState:
    phase: COMPLETED
    metrics:
      accuracy: 0.92
      throughput: ">= 1200 rps"
  limits: {run_time: 1h, latency: 0.8s, retries: "2"}
  settle: 30
  deadline:
  reconcilePolicy: eventually
  predicates:
    - {name: rows, cel: "rows_out >"}
    - {name: rows, cel: "atempts > 1"}
  stages: [Pending, Approved, Pending]
  jobLease: {ttl: 60s, keepAlive: 30s, longestStep: 60s}
  compensations:
    - {on: VIOLATED, action: rerun-step, budget: 0}
  livenessProbe: {httpGet: {url: "ftp://x"}}
  settle: none
"""
EXPECTED = [
    (1, "apiVersion"),
    (2, "kind"),
    (3, "metadata.name"),
    (5, "spec.selctor"),
    (7, "spec.targetState.phase"),
    (9, "spec.targetState.metrics.accuracy"),
    (10, "spec.targetState.metrics.throughput"),
    (11, "spec.limits.run_time"),
    (11, "spec.limits.latency"),
    (11, "spec.limits.retries"),
    (12, "spec.settle"),
    (13, "spec.deadline"),
    (14, "spec.reconcilePolicy"),
    (16, "spec.predicates[0].cel"),
    (17, "spec.predicates[1].cel"),
    (17, "spec.predicates[1]"),
    (18, "spec.stages[2]"),
    (19, "spec.jobLease.ttl"),
    (19, "spec.jobLease.keepAlive"),
    (21, "spec.compensations[0].budget"),
    (22, "spec.livenessProbe.httpGet.url"),
    (23, "spec.settle"),
]


@pytest.mark.parametrize("parser", PARSERS)
def test_every_fault_is_named_once_with_its_line(parser: Any) -> None:
    made, faults = load_contract(FAULTY, "f.yaml", parser)
    assert made is None
    assert sorted((fault.line, fault.path) for fault in faults) == sorted(EXPECTED)
    assert [fault.line for fault in faults] == sorted(fault.line for fault in faults)
    assert all(fault.suggestion for fault in faults)


def test_a_fault_is_one_line_that_says_where_what_and_what_to_write() -> None:
    lines = [fault.render() for fault in load_contract(FAULTY, "f.yaml")[1]]
    assert "f.yaml:5: spec.selctor: is not a known key; did you mean 'selector'?" in lines
    assert "f.yaml:7: spec.targetState.phase: 'COMPLETED' is not allowed here; did you mean 'SUCCEEDED'?" in lines
    assert "f.yaml:11: spec.limits.run_time: is not a known key; did you mean 'runTime'?" in lines
    assert "f.yaml:12: spec.settle: 30 is not a text; add a unit, as in 30s" in lines
    assert "f.yaml:23: spec.settle: is there twice, first on line 12; keep one of them" in lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("name", ["borg.yaml", "nightly.yaml"])
@pytest.mark.parametrize("parser", PARSERS)
def test_the_contracts_that_ship_have_no_fault(name: str, parser: Any) -> None:
    made, faults = load_contract(sample(name), name, parser)
    assert faults == []
    assert made is not None


@pytest.mark.parametrize(
    "scalar",
    ["no", "No", "yes", "on", "off", "y", "TRUE", "~", "010", "0o10", "0x1F", "0b1", "1_000", "+1", "1.", ".5", "12:30",
     "1:2:3", "2020-01-01", "2020-01-01T10:00:00Z", ".inf", "-.INF", ".NaN"],
)  # fmt: skip
@pytest.mark.parametrize("parser", PARSERS)
def test_what_two_readers_read_differently_must_be_quoted(scalar: str, parser: Any) -> None:
    made, faults = load_contract(f"{HEAD}  selector: {{source: a, labels: {{x: {scalar}}}}}\n", "f", parser)
    assert made is None
    assert [(fault.line, fault.path) for fault in faults] == [(5, "spec.selector.labels.x")]
    assert repr(scalar) in faults[0].suggestion
    made, faults = load_contract(f"{HEAD}  selector: {{source: a, labels: {{x: '{scalar}'}}}}\n", "f", parser)
    assert faults == []
    assert made is not None
    assert made.labels == (("x", scalar),)


def test_a_key_that_old_readers_take_for_a_truth_value_is_a_key() -> None:
    text = HEAD + "  selector: {source: a}\n  compensations:\n  - on: VIOLATED\n    action: rerun\n"
    made, faults = load_contract(text, "f")
    assert faults == []
    assert made is not None
    assert made.compensations[0].on == "VIOLATED"


HOSTILE = {
    "alias": ("a: &a [x]\nb: *a\n", "alias"),
    "alias to nothing": ("b: *a\n", "alias"),
    "billion laughs": (
        "a: &a [x, x]\n" + "".join(f"k{at}: &k{at} [{', '.join(['*a'] * 9)}]\n" for at in range(30)),
        "anchor",
    ),
    "alias of itself": ("a: &a [*a]\n", "alias"),
    "tag": (HEAD + "  settle: !!python/object/apply:os.system [x]\n", "tag"),
    "own tag": (HEAD + "  settle: !env HOME\n", "tag"),
    "merge key": (HEAD + "  <<: {settle: none}\n", "known key"),
    "duplicate key": (HEAD + "  settle: 1s\n  settle: 2s\n", "twice"),
    "second document": (HEAD + "  {}\n---\na: b\n", "second document"),
    "key that is a list": ("? [a]\n: b\n", "key"),
    "nothing": ("", "empty"),
    "only a comment": ("# x\n", "empty"),
    "a word": ("hello", "mapping"),
    "a list": ("- a\n", "mapping"),
    "tab": (HEAD + "\tsettle: none\n", "not YAML"),
    "folded by mistake": (HEAD + "  targetState:\n    metrics:\n      a: >= 0.92\n", "not YAML"),
    "nul": (HEAD + "  settle: \x00\n", "character"),
    "half a character": ("a: \ud800", "character"),
    "deep flow": ("[" * 100_000, "deep"),
    "deep flow mapping": ("{a: " * 50_000, "deep"),
    "deep block": ("".join(" " * at + "a:\n" for at in range(600)), "deep"),
    "deep block list": ("- " * 50_000, "deep"),
    "a megabyte": ("#" * 1_000_000, "bytes long"),
    "a megabyte of keys": (HEAD + "".join(f"  k{at}: 1\n" for at in range(100_000)), "bytes long"),
    "many keys": (HEAD + "".join(f"  limit{at}: 1\n" for at in range(15_000)), "more than"),
    "many duplicates": (HEAD + "  settle: 1s\n" * 15_000, "faults"),
    "many labels": (HEAD + "  selector: {labels: {" + ", ".join(f"k{at}: x" for at in range(15_000)) + "}}\n", "items"),
    "many stages": (HEAD + "  stages: [" + ", ".join(["x"] * 60_000) + "]\n", "items"),
    "long text": (HEAD + "  settle: " + "x" * 200_000 + "\n", "characters long"),
    "long key": (HEAD + "  " + "x" * 900 + ": 1\n", "known key"),
    "long number": (HEAD + "  limits: {retries: " + "9" * 100_000 + "}\n", "whole number"),
    "long quoted key": (HEAD + "  ? '" + "x" * 200_000 + "'\n  : 1\n", "known key"),
    "long cel": (HEAD + "  predicates: [{name: a, cel: '" + "(" * 200_000 + "'}]\n", "characters long"),
    "many open quotes": ('"' * 99_999, "YAML"),
    "percent": ("%" * 1000, "YAML"),
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused_quickly_and_clearly(case: str, parser: Any) -> None:
    text, reason = HOSTILE[case]
    begin = time.process_time()
    made, faults = load_contract(text, "f.yaml", parser)
    assert time.process_time() - begin < 10
    assert made is None
    assert 1 <= len(faults) <= 202
    assert any(reason in fault.reason for fault in faults), [fault.render() for fault in faults][:3]
    assert all(len(fault.render()) < 1000 and "\n" not in fault.render() for fault in faults)


@pytest.mark.parametrize("case", HOSTILE)
def test_both_parsers_refuse_alike(case: str) -> None:
    first, second = [load_contract(HOSTILE[case][0], "f", parser)[1] for parser in PARSERS]
    assert [(fault.path, fault.reason) for fault in first] == [(fault.path, fault.reason) for fault in second]


def test_a_file_at_the_limit_is_read() -> None:
    text = HEAD + "  selector: {source: a}\n"
    made, faults = load_contract(text + "#" * (MAX_DOCUMENT - len(text)), "f")
    assert made is not None
    assert faults == []


@pytest.mark.parametrize(
    "text", ["\ufeff" + HEAD + "  {}\n", (HEAD + "  {}\n").replace("\n", "\r\n"), HEAD + "  {}\n...\n"]
)
def test_marks_and_line_ends_of_other_systems_are_fine(text: str) -> None:
    made, faults = load_contract(text, "f")
    assert faults == []
    assert made is not None
    assert made.version == contract({}).version


def test_a_warning_does_not_refuse() -> None:
    made, faults = load_contract(HEAD + "  selector: {source: github}\n  settle: none\n", "f.yaml")
    assert made is not None
    assert [fault.render() for fault in faults] == [
        "f.yaml:6: spec.settle: warning: none, but the source 'github' may reopen a job that has ended; "
        "use a duration such as 30s"
    ]


@STEADY
@given(SPECS)
def test_yaml_and_json_of_one_contract_are_one_version(spec: dict[str, Any]) -> None:
    text = yaml.safe_dump(tree(spec), allow_unicode=True)
    for parser in PARSERS:
        made, faults = load_contract(text, "f", parser)
        assert [fault.render() for fault in faults if not fault.warning] == []
        assert made is not None
        assert made.document == contract(spec).document


@STEADY
@given(st.text(st.sampled_from("ab:-{}[],&*!|>'\"%@`#? \n\t0~\\é"), max_size=60))
def test_any_text_gives_faults_and_never_an_exception(text: str) -> None:
    for parser in PARSERS:
        made, faults = load_contract(text, "f", parser)
        assert made is None
        assert faults
        assert all("\n" not in fault.render() for fault in faults)
