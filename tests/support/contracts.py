"""What a generated history is about, and contracts of every shape for it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

PREDICATES = (
    *("rows > 1", "has(metrics.rows) && metrics.rows < 3", "run_time_ms >= 0", "phase == 'SUCCEEDED'"),
    *("labels.team == 'red'", "name.matches('^n[0-9]')", "!fenced", "attempts < 3 || parts > 1", "size(labels) > 0"),
    *("word.contains('a') && reason != ''", "latency_ms < 1 && retries == 0"),
)


@dataclass
class Shape:
    """What may be in a history. timeless: neither clocks nor order may matter (see `any_order`)."""

    timeless: bool = False
    malformed: bool = True
    records: int = 40


@dataclass(frozen=True)
class Theme:
    """What a history is mostly about. spec: parts of most contracts; fields: event fields that are often there;
    ticks: share of ticks; focus: share of events of one job."""

    spec: dict[str, Any]
    fields: frozenset[str] = frozenset()
    ticks: float = 0.18
    focus: float = 0.5


_HELP = {"action": "act0", "backoff": "2ns", "budget": 4, "expires": "3ns", "breaker": 3}
_MEASURED = frozenset({"metrics", "revision", "start"})
THEMES = (
    Theme({}),
    Theme({}),
    Theme(
        {"settle": "none", "compensations": [{"on": "VIOLATED", **_HELP}], "targetState": {"phase": "CANCELLED"}},
        frozenset({"answers"}),
        ticks=0.5,
        focus=0.7,
    ),
    Theme(
        {
            "deadline": "4ns",
            "compensations": [{"on": "EXPIRED", **_HELP}, {"on": "VIOLATED", **_HELP, "action": "act1"}],
        },
        ticks=0.5,
        focus=0.8,
    ),
    Theme(
        {"reconcilePolicy": "strict", "deadline": "3ns", "settle": "3ns"}, frozenset({"revision", "word"}), focus=0.8
    ),
    Theme(
        {"ordering": {"revisions": "contiguous", "holdMax": 3}}, frozenset({"revision", "phase"}), ticks=0.3, focus=0.8
    ),
    Theme({"cascade": {"parent": "root"}, "follow": "latest", "selector": {}}, ticks=0.3, focus=0.2),
    Theme(
        {"jobLease": {"ttl": "6ns", "keepAlive": "2ns", "longestStep": "4ns"}}, frozenset({"lease", "holder"}), 0.3, 0.8
    ),
    Theme({"selector": {}, "targetState": {"metrics": {"rows": "<= 2"}}, "settle": "none"}, _MEASURED, focus=0.9),
    Theme(
        {"limits": {"runTime": "2ns", "latency": "4ns", "retries": 1}, "settle": "none"},
        frozenset({"phase", "start", "end", "created"}),
    ),
)
_TIMELESS = (
    "reconcilePolicy",
    "cascade",
    "selector",
    "targetState",
    "limits",
    "settle",
)  # parts of a theme that have no rule of time


def contract_of(rng: Random, name: str, shape: Shape, theme: Theme = THEMES[0]) -> dict[str, Any]:
    """A sound contract document of any shape; without rules of time for timeless histories."""
    spec: dict[str, Any] = {}

    def sometimes(chance: float, key: str, value: Any) -> None:
        if rng.random() < chance:
            spec[key] = value

    selector: dict[str, Any] = {}
    for key, words in (("source", "abc"), ("kind", ("run", "step")), ("job", ("n*", "n1", "*", "[mn]?", "[!n]*"))):
        if rng.random() < 0.3:
            selector[key] = rng.choice(words)
    if rng.random() < 0.15:
        selector["labels"] = {"team": "red"}
    sometimes(0.7, "selector", selector)
    target: dict[str, Any] = {"phase": rng.choice(("SUCCEEDED", "SUCCEEDED", "FAILED", "CANCELLED"))}
    if rng.random() < 0.4:
        bounds = (">= 1", "≤ 2", "< 1.50", "!= 2", "== 1500 ms", "> 0 %")
        target["metrics"] = {key: rng.choice(bounds) for key in ("rows", "loss")[: rng.randrange(1, 3)]}
    sometimes(0.8, "targetState", target)
    limits = {"runTime": rng.choice(("2ns", "1h")), "latency": "4ns", "retries": rng.randrange(2)}
    sometimes(0.5, "limits", {key: limits[key] for key in limits if rng.random() < 0.5})
    sometimes(0.3, "stages", ["A", "B", "C"][: rng.randrange(1, 4)])
    chosen = rng.sample(PREDICATES, rng.randrange(1, 3))
    sometimes(0.3, "predicates", [{"name": f"p{at}", "cel": cel} for at, cel in enumerate(chosen)])
    sometimes(0.35, "reconcilePolicy", "strict")
    sometimes(0.3, "cascade", {"parent": "root"})
    spec["settle"] = "none" if shape.timeless else rng.choice(("none", "none", "0s", "3ns", "7ns"))
    if not shape.timeless:
        sometimes(0.4, "deadline", rng.choice(("4ns", "12ns")))
        sometimes(0.25, "jobLease", {"ttl": "6ns", "keepAlive": "2ns", "longestStep": "4ns"})
        holding = {"revisions": "contiguous", "holdMax": rng.randrange(1, 4), "holdFor": rng.choice(("3ns", "8ns"))}
        sometimes(0.45, "ordering", {key: holding[key] for key in holding if key == "revisions" or rng.random() < 0.6})
        sometimes(0.2, "follow", "latest")
        sometimes(0.2, "livenessProbe", {"httpGet": {"url": "http://m/h"}})
        sometimes(0.5, "compensations", [_compensation(rng, at) for at in range(rng.randrange(1, 4))])
    if rng.random() < 0.7:
        spec |= {key: deepcopy(part) for key, part in theme.spec.items() if not shape.timeless or key in _TIMELESS}
    metadata = {"name": name} if rng.random() < 0.9 or shape.timeless else {"name": name, "tenant": "other"}
    return {"apiVersion": "finality.dev/v1alpha1", "kind": "StatefulJob", "metadata": metadata, "spec": spec}


def _compensation(rng: Random, at: int) -> dict[str, Any]:
    return {
        "on": rng.choice(("VIOLATED", "VIOLATED", "EXPIRED", "UNPROVEN")),
        "action": f"act{at}",
        "backoff": rng.choice(("0s", "2ns", "5ns")),
        "budget": rng.randrange(1, 4),
        "expires": rng.choice(("4ns", "9ns")),
        "breaker": rng.randrange(1, 4),
    }
