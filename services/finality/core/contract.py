"""A contract, compiled: which jobs it selects, what they owe, and by when.

A contract's identity is the canonical JSON of its normalised document: comparators in ASCII, durations and numbers in
canonical text, defaults written out. So two ways of writing one contract are one version, and a later change of a
default cannot change an old one. The version is the first 12 hex digits of the SHA-256 of those bytes.

The built-in contract `default` (SUCCEEDED, nothing else) belongs to jobs that no other contract selects. Its version is
"": it comes from genesis and not from a document that somebody applied.

Leaves out: how YAML is read (`contract_yaml`), what a job has to show for it (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from finality.core.canonical import encode
from finality.core.cel import Predicate
from finality.core.contract_check import Check, ContractError, Fault
from finality.core.contract_model import API_VERSION, BUILT_IN, KIND, Document, Metadata, Selector, Spec
from finality.core.event import PHASES
from finality.core.glob import Glob
from finality.core.quantity import MAX_DURATION, Bound, format_duration, parse_bound, parse_duration

__all__ = [
    "MAX_DOCUMENT",
    "Compensation",
    "Contract",
    "ContractError",
    "Fault",
    "JobLease",
    "Probe",
    "compile_contract",
    "contract_of_tree",
    "default_contract",
    "select",
]

MAX_DOCUMENT = 262_144  # bytes

Verdicts = tuple[dict[str, str], dict[str, str]]


class JobLease(NamedTuple):
    """Times of a job lease, ns."""

    ttl: int
    keep_alive: int
    longest_step: int


class Compensation(NamedTuple):
    """What is ordered when a job would end as `on`. backoff, expires: ns. budget: how many times.

    breaker: consecutive failures that open it.
    """

    on: Literal["VIOLATED", "EXPIRED", "UNPROVEN"]
    action: str
    backoff: int
    budget: int
    expires: int
    breaker: int


class Probe(NamedTuple):
    """Liveness probe by HTTP. period: ns."""

    url: str
    period: int
    failure_threshold: int


class Contract:
    """One version of one contract. Immutable: nobody assigns to it, and copies are the same object.

    Times in ns. settle: 0 = none. hold_max, hold_for: None = the genesis parameter. expected: item to its text, sorted.
    items: each key of `expected` as (item, group, name). owes_times_only: nothing but a phase and durations is owed.
    needs_labels: evaluation looks at the job's labels or name, so the fold must keep them.
    verdicts: what `evaluate` says of each phase when nothing but the phase is owed, else None.
    """

    __slots__ = (
        "bounds",
        "cascade",
        "compensations",
        "contiguous",
        "deadline",
        "document",
        "expected",
        "follow_latest",
        "hold_for",
        "hold_max",
        "items",
        "job_lease",
        "kind",
        "labels",
        "latency",
        "name",
        "names",
        "needs_labels",
        "owes_times_only",
        "predicates",
        "probe",
        "retries",
        "run_time",
        "settle",
        "source",
        "specificity",
        "stages",
        "strict",
        "target_phase",
        "tenant",
        "verdicts",
        "version",
    )

    def __init__(self, document: Document, predicates: Mapping[str, Predicate]) -> None:
        spec = document.spec
        self.tenant = document.metadata.tenant
        self.name = document.metadata.name
        self.document = _canonical(document)
        self.version = sha256(self.document).hexdigest()[:12]
        self.target_phase: str = spec.target_state.phase
        self.run_time = _duration(spec.limits.run_time)
        self.latency = _duration(spec.limits.latency)
        self.retries = spec.limits.retries
        self.deadline = _duration(spec.deadline)
        self.settle = 0 if spec.settle == "none" else parse_duration(spec.settle)
        self.strict = spec.reconcile_policy == "strict"
        self.contiguous = spec.ordering.revisions == "contiguous"
        self.hold_max = spec.ordering.hold_max
        self.hold_for = _duration(spec.ordering.hold_for)
        self.stages = spec.stages
        self.cascade = spec.cascade is not None
        self.follow_latest = spec.follow == "latest"
        self.bounds: dict[str, Bound] = {
            name: parse_bound(text) for name, text in sorted(spec.target_state.metrics.items())
        }
        self.predicates: dict[str, Predicate] = {row.name: predicates[row.cel] for row in spec.predicates}
        self._read_actions(spec)
        self._read_selector(spec.selector)
        self.expected = _expected(self)
        self.items = tuple([(item, *item.partition(".")[::2]) for item in self.expected])
        self.owes_times_only = self.expected.keys() <= {"phase", "runTime", "latency"}
        self.verdicts = _verdicts(self.target_phase) if len(self.expected) == 1 else None
        self.needs_labels = self.follow_latest or any(row.needs_labels for row in self.predicates.values())

    def _read_actions(self, spec: Spec) -> None:
        lease, probe = spec.job_lease, spec.liveness_probe
        self.job_lease: JobLease | None = None
        if lease is not None:
            times = (lease.ttl, lease.keep_alive, lease.longest_step)
            self.job_lease = JobLease(*[parse_duration(text) for text in times])
        self.probe: Probe | None = None
        if probe is not None:
            http = probe.http_get
            self.probe = Probe(http.url, parse_duration(http.period), http.failure_threshold)
        self.compensations = tuple(
            Compensation(
                row.on, row.action, parse_duration(row.backoff), row.budget, parse_duration(row.expires), row.breaker
            )
            for row in spec.compensations
        )

    def _read_selector(self, selector: Selector) -> None:
        self.source = selector.source
        self.kind = selector.kind
        self.names = Glob(selector.job) if selector.job is not None else None
        self.labels = tuple(sorted(selector.labels.items()))
        self.specificity = (
            self.names is not None and self.names.exact,
            self.names.literal if self.names is not None else 0,
            len(self.labels),
            self.kind is not None,
            self.source is not None,
            self.names is not None,
        )

    def selects(self, source: str, kind: str, name: str, labels: Mapping[str, str]) -> bool:
        """True when a job of this source, kind, name and labels is selected."""
        if self.source is not None and self.source != source:
            return False
        if self.kind is not None and self.kind != kind:
            return False
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.names is None or self.names.matches(name)

    def __copy__(self) -> Contract:
        return self

    def __deepcopy__(self, memo: object) -> Contract:
        return self


def compile_contract(document: bytes) -> Contract:
    """A contract from JSON bytes (canonical or not: the contract's own `document` is). Raises `ContractError`."""
    if len(document) > MAX_DOCUMENT:
        raise ContractError([Fault((), f"is {len(document)} bytes long", f"use at most {MAX_DOCUMENT}")])
    try:
        tree = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ContractError([Fault((), "is not JSON", "apply the contract from its YAML file")]) from None
    contract, faults = contract_of_tree(tree)
    if contract is None:
        raise ContractError([fault for fault in faults if not fault.warning])
    return contract


def contract_of_tree(tree: Any) -> tuple[Contract | None, list[Fault]]:
    """A contract from a plain tree of dicts, lists and scalars, None when a fault refuses it; faults and warnings."""
    check = Check()
    document = check.document(tree)
    return (None if document is None else Contract(document, check.predicates)), check.faults


def default_contract(tenant: str, settle: int) -> Contract:
    """The built-in contract of a tenant: SUCCEEDED, for every job that no other selects. Never fails.

    settle: ns, 0 = none, at most ten years. tenant: as it stands in job keys, not checked.
    """
    settle = min(settle, MAX_DURATION)
    spec = Spec(settle=format_duration(settle) if settle > 0 else "none")
    document = Document(api_version=API_VERSION, kind=KIND, metadata=Metadata(name=BUILT_IN, tenant=tenant), spec=spec)
    contract = Contract(document, {})
    contract.version = ""
    return contract


def select(
    contracts: Iterable[Contract], source: str, kind: str, name: str, labels: Mapping[str, str]
) -> Contract | None:
    """The most specific of the contracts that select a job, None when none does.

    More specific is, in this order: a whole job name before a glob; more literal characters in it; more labels; a kind;
    a source; any glob. Among equals the contract whose name comes first.
    """
    best: Contract | None = None
    for contract in contracts:
        if contract.selects(source, kind, name, labels) and (
            best is None
            or contract.specificity > best.specificity
            or (contract.specificity == best.specificity and contract.name < best.name)
        ):
            best = contract
    return best


def _canonical(document: Document) -> bytes:
    return encode(_without_none(msgspec.to_builtins(document)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def _duration(text: str | None) -> int | None:
    return None if text is None else parse_duration(text)


def _expected(contract: Contract) -> dict[str, str]:
    """Every item that the contract asks for, and what it must be."""
    items = {"phase": contract.target_phase}
    if contract.run_time is not None:
        items["runTime"] = f"<= {format_duration(contract.run_time)}"
    if contract.latency is not None:
        items["latency"] = f"<= {format_duration(contract.latency)}"
    if contract.retries is not None:
        items["retries"] = f"<= {contract.retries}"
    if contract.stages:
        items["stage"] = contract.stages[-1]
    for name, bound in contract.bounds.items():
        items[f"metrics.{name}"] = bound.text
    for name, predicate in contract.predicates.items():
        items[f"predicates.{name}"] = predicate.source
    return dict(sorted(items.items()))


def _verdicts(target: str) -> dict[str, Verdicts]:
    """For each phase, no phase (""), and CONFLICT: actual and delta of a contract that asks for nothing but a phase."""
    table: dict[str, Verdicts] = {phase: ({"phase": phase}, {"phase": "UNMET"}) for phase in PHASES}
    table[target] = ({"phase": target}, {})
    table["CONFLICT"] = ({"phase": "CONFLICT"}, {"phase": "UNKNOWN"})
    table[""] = ({"phase": "MISSING"}, {"phase": "UNKNOWN"})
    return table
