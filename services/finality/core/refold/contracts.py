"""Contracts, read a second time: shape, one way of writing, version, selection.

The shape is a table of small functions; each takes a value and gives its canonical form or raises `BadJson`. Which of
several faults a person should read first is no question here: a contract is taken or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from typing import Any

from finality.core.cel import Predicate, compile_predicate
from finality.core.refold.events import ENDED
from finality.core.refold.quantities import TEN_YEARS, Bound, duration, read_bound, short_time
from finality.core.refold.reading import BadJson, Shape, is_text, is_whole, last_of_equals, list_of, map_of, shaped
from finality.core.refold.writing import canonical

__all__ = ["Contract", "built_in", "compiled", "most_specific"]


def _word(pattern: str, longest: int) -> Shape:
    compiled_pattern = re.compile(pattern)

    def check(value: Any) -> str:
        text = is_text(value)
        if len(text) > longest or not compiled_pattern.fullmatch(text):
            raise BadJson("is not allowed here")
        return text

    return check


def _one_of(*words: str) -> Shape:
    def check(value: Any) -> str:
        if is_text(value) not in words:
            raise BadJson("is none of the known words")
        return str(value)

    return check


def _between(low: int, high: int) -> Shape:
    def check(value: Any) -> int:
        if not low <= is_whole(value) <= high:
            raise BadJson("is out of range")
        return int(value)

    return check


def _time(value: Any, zero: str | None = None, none: bool = False) -> str:
    """A duration; zero: what nothing is called, None = refused; none: the word `none` is allowed."""
    text = is_text(value)
    if none and text == "none":
        return text
    length = duration(text) if len(text) <= 64 else 0
    if not length and zero is None:
        raise BadJson("is zero or too long a text")
    return short_time(length) if length else str(zero)


def _bound(value: Any) -> str:
    text = is_text(value)
    if len(text) > 80:
        raise BadJson("is too long")
    return read_bound(text).text


def _at_most(count: int, shape: Shape) -> Shape:
    def check(value: Any) -> Any:
        found = shape(value)
        if len(found) > count:
            raise BadJson("has too many items")
        return found

    return check


def _map(keys: Shape, values: Shape, count: int) -> Shape:
    def check(value: Any) -> Any:
        found = _at_most(count, map_of(values))(value)
        for key in found:
            keys(key)
        return found

    return check


def _level(needed: dict[str, Shape], extra: dict[str, Shape], defaults: dict[str, Any]) -> Shape:
    def check(value: Any) -> dict[str, Any]:
        return {**defaults, **shaped(value, needed, extra)}

    return check


_longer = partial(_time, zero=None)
_pause = partial(_time, zero="0s")
_settle = partial(_time, zero="none", none=True)
_name = _word("[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)
_plain = _word("[A-Za-z0-9][-A-Za-z0-9_.:/]*", 128)
_any_text = _word("(?s:.*)", 256)

_SELECTOR = _level(
    {},
    {
        "source": _plain,
        "kind": _plain,
        "job": _word("(?s:.+)", 256),
        "labels": _map(_word("[!-~]+", 128), _any_text, 16),
    },
    {"labels": {}},
)
_TARGET = _level(
    {}, {"phase": _one_of(*ENDED), "metrics": _map(_plain, _bound, 32)}, {"phase": "SUCCEEDED", "metrics": {}}
)
_LIMITS = _level({}, {"runTime": _longer, "latency": _longer, "retries": _between(0, 1_000_000)}, {})
_ORDERING = _level(
    {},
    {"revisions": _one_of("contiguous", "any"), "holdMax": _between(1, 4096), "holdFor": _longer},
    {"revisions": "any"},
)
_PREDICATE = _level(
    {"name": _word("[A-Za-z_][A-Za-z0-9_]*", 63), "cel": _word("(?s:.*)", 1024)},
    {},
    {},
)
_LEASE = _level({"ttl": _longer, "keepAlive": _longer, "longestStep": _longer}, {}, {})
_HTTP = _level(
    {"url": _word(r"https?://[^\s/]+[^\s]*", 2048)},
    {"period": _longer, "failureThreshold": _between(1, 1000)},
    {"period": "10s", "failureThreshold": 3},
)
_COMPENSATION = _level(
    {"on": _one_of("VIOLATED", "EXPIRED", "UNPROVEN"), "action": _name},
    {"backoff": _pause, "budget": _between(1, 1000), "expires": _longer, "breaker": _between(1, 1000)},
    {"backoff": "10s", "budget": 1, "expires": "5m", "breaker": 5},
)
_METADATA = _level({"name": _name}, {"tenant": _word("[A-Za-z0-9][-A-Za-z0-9_.]*", 63)}, {"tenant": "default"})
_SPEC_DEFAULTS: dict[str, Any] = {
    "selector": {"labels": {}},
    "targetState": {"phase": "SUCCEEDED", "metrics": {}},
    "limits": {},
    "settle": "30s",
    "reconcilePolicy": "eventual",
    "ordering": {"revisions": "any"},
    "predicates": [],
    "stages": [],
    "follow": "pinned",
    "compensations": [],
}
_SPEC = _level(
    {},
    {
        "selector": _SELECTOR,
        "targetState": _TARGET,
        "limits": _LIMITS,
        "deadline": _longer,
        "settle": _settle,
        "reconcilePolicy": _one_of("eventual", "strict"),
        "ordering": _ORDERING,
        "predicates": _at_most(16, list_of(_PREDICATE)),
        "stages": _at_most(64, list_of(_plain)),
        "cascade": _level({"parent": _one_of("root")}, {}, {}),
        "follow": _one_of("pinned", "latest"),
        "jobLease": _LEASE,
        "livenessProbe": _level({"httpGet": _HTTP}, {}, {}),
        "compensations": _at_most(16, list_of(_COMPENSATION)),
    },
    _SPEC_DEFAULTS,
)
_DOCUMENT = _level(
    {
        "apiVersion": _one_of("finality.dev/v1alpha1"),
        "kind": _one_of("StatefulJob"),
        "metadata": _METADATA,
        "spec": _SPEC,
    },
    {},
    {},
)


class Contract:
    """One version of a contract; times in ns, 0 or None = none. expected: item to text."""

    def __init__(self, document: dict[str, Any], predicates: dict[str, Predicate]) -> None:
        self.bytes = canonical(document)
        self.version = sha256(self.bytes).hexdigest()[:12]
        self.tenant: str = document["metadata"]["tenant"]
        self.name: str = document["metadata"]["name"]
        spec = self.spec = document["spec"]
        limits, ordering = spec["limits"], spec["ordering"]
        self.target: str = spec["targetState"]["phase"]
        self.run_time = _ns(limits.get("runTime"))
        self.latency = _ns(limits.get("latency"))
        self.retries: int | None = limits.get("retries")
        self.deadline = _ns(spec.get("deadline"))
        self.settle = 0 if spec["settle"] == "none" else duration(spec["settle"])
        self.strict: bool = spec["reconcilePolicy"] == "strict"
        self.contiguous: bool = ordering["revisions"] == "contiguous"
        self.hold_max: int | None = ordering.get("holdMax")
        self.hold_for = _ns(ordering.get("holdFor"))
        self.stages: list[str] = spec["stages"]
        self.cascade = "cascade" in spec
        self.follows: bool = spec["follow"] == "latest"
        self.lease = duration(spec["jobLease"]["ttl"]) if "jobLease" in spec else None
        self.bounds: dict[str, Bound] = {
            name: read_bound(text) for name, text in spec["targetState"]["metrics"].items()
        }
        self.predicates = predicates
        self.compensations: list[dict[str, Any]] = [
            {**row, "backoff": duration(row["backoff"]), "expires": duration(row["expires"])}
            for row in spec["compensations"]
        ]
        self.needs_labels = self.follows or any(predicate.needs_labels for predicate in predicates.values())
        self.expected = self._expected()

    def _expected(self) -> dict[str, str]:
        items = {"phase": self.target}
        for name, limit in (("runTime", self.run_time), ("latency", self.latency)):
            if limit is not None:
                items[name] = "<= " + short_time(limit)
        if self.retries is not None:
            items["retries"] = f"<= {self.retries}"
        if self.stages:
            items["stage"] = self.stages[-1]
        items |= {f"metrics.{name}": bound.text for name, bound in self.bounds.items()}
        items |= {f"predicates.{name}": predicate.source for name, predicate in self.predicates.items()}
        return items

    def selects(self, source: str, kind: str, name: str, labels: dict[str, str]) -> bool:
        """The job is one that the selector means."""
        selector = self.spec["selector"]
        return (
            selector.get("source", source) == source
            and selector.get("kind", kind) == kind
            and all(labels.get(key) == value for key, value in selector["labels"].items())
            and ("job" not in selector or fnmatchcase(name, selector["job"]))
        )

    @property
    def rank(self) -> tuple[bool, int, int, bool, bool, bool]:
        """How specific the selector is."""
        selector = self.spec["selector"]
        pattern: str | None = selector.get("job")
        exact = pattern is not None and not any(sign in pattern for sign in "*?[")
        literal = len(_SETS.sub("", pattern)) if pattern is not None else 0
        return (
            exact,
            literal,
            len(selector["labels"]),
            "kind" in selector,
            "source" in selector,
            pattern is not None,
        )


_SETS = re.compile(r"\[!?+\]?+[^\]]*\]|[*?\[]")  # what does not stand for itself in a pattern


def _ns(text: str | None) -> int | None:
    return duration(text) if text is not None else None


def compiled(tree: Any) -> Contract:
    """The contract in a document that `document_of` read. Raises ValueError."""
    document = _DOCUMENT(last_of_equals(tree))
    spec = document["spec"]
    if document["metadata"]["name"] == "default":
        raise BadJson("the name is taken")
    predicates = {row["name"]: compile_predicate(row["cel"]) for row in spec["predicates"]}
    if sum(len(canonical(row["cel"])) for row in spec["predicates"]) > 32_768:
        raise BadJson("the predicates do not fit into an entry")
    if "jobLease" in spec:
        ttl, keep, step = [duration(spec["jobLease"][name]) for name in ("ttl", "keepAlive", "longestStep")]
        if 2 * ttl < 3 * step or 3 * keep > ttl:
            raise BadJson("the lease's times do not fit")
    pairs = [(row["on"], row["action"]) for row in spec["compensations"]]
    rows: tuple[list[Any], ...] = (spec["stages"], [row["name"] for row in spec["predicates"]], pairs)
    if any(len(set(items)) < len(items) for items in rows):
        raise BadJson("something is named twice")
    return Contract(document, predicates)


def built_in(tenant: str, settle: int) -> Contract:
    """The contract of jobs that no other one selects. settle: ns."""
    rule = short_time(min(settle, TEN_YEARS)) if settle > 0 else "none"
    spec = {**_SPEC_DEFAULTS, "settle": rule}
    contract = Contract({"metadata": {"name": "default", "tenant": tenant}, "spec": spec}, {})
    contract.version = ""
    return contract


def most_specific(
    contracts: Iterable[Contract], source: str, kind: str, name: str, labels: dict[str, str]
) -> Contract | None:
    """The contract that selects a job, None when none does."""
    fitting = [one for one in contracts if one.selects(source, kind, name, labels)]
    by_name: Callable[[Contract], str] = lambda one: one.name  # noqa: E731
    return max(sorted(fitting, key=by_name), key=lambda one: one.rank, default=None)
