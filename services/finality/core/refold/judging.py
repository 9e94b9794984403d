"""What a job owes against what it has shown, and the outcome that this is."""

from __future__ import annotations

from typing import Any, NamedTuple

from finality.core.cel import Facts
from finality.core.refold.contracts import Contract
from finality.core.refold.evidence import Evidence
from finality.core.refold.quantities import short_time

__all__ = ["Judgement", "judge"]

_PREDICATE = {
    "true": ("true", ""),
    "false": ("false", "UNMET"),
    "MISSING": ("MISSING", "UNKNOWN"),
    "CONFLICT": ("CONFLICT", "UNKNOWN"),
    "ERROR": ("ERROR", "ERROR"),
}


class Judgement(NamedTuple):
    """actual: item to what is there; delta: item to what is wrong with it; stages: those reached."""

    actual: dict[str, str]
    delta: dict[str, str]
    stages: list[str]


def judge(contract: Contract, seen: Evidence, labels: dict[str, str], name: str, fenced: bool) -> Judgement:
    """Look at every item of the contract."""
    stages = seen.reached(contract.stages)
    pairs: dict[str, tuple[str, str]] = {"phase": _phase(contract, seen)}
    for item, limit, begin in (
        ("runTime", contract.run_time, seen.start),
        ("latency", contract.latency, seen.created),
    ):
        if limit is not None:
            pairs[item] = _length(limit, begin, seen.end)
    if contract.retries is not None:
        retries = seen.attempts - 1
        met = retries <= contract.retries
        pairs["retries"] = (str(retries), "" if met else "UNMET") if retries >= 0 else ("MISSING", "UNKNOWN")
    if contract.stages:
        pairs["stage"] = (stages[-1] if stages else "NONE", "" if len(stages) == len(contract.stages) else "UNMET")
    for metric, bound in contract.bounds.items():
        pairs["metrics." + metric] = _metric(bound, seen.metrics.get(metric))
    if contract.predicates:
        facts = _facts(seen, labels, name, fenced)
        for title, predicate in contract.predicates.items():
            pairs["predicates." + title] = _PREDICATE[predicate.judge(facts)]
    actual = {item: shown for item, (shown, _) in pairs.items()}
    delta = {item: verdict for item, (_, verdict) in sorted(pairs.items()) if verdict}
    return Judgement(actual, delta, stages)


def _phase(contract: Contract, seen: Evidence) -> tuple[str, str]:
    if seen.conflict:
        return ("CONFLICT", "UNKNOWN")
    if not seen.phase:
        return ("MISSING", "UNKNOWN")
    return (seen.phase, "" if seen.phase == contract.target else "UNMET")


def _length(limit: int, begin: int | None, end: int | None) -> tuple[str, str]:
    if begin is None or end is None:
        return ("MISSING", "UNKNOWN")
    length = end - begin
    if length < 0:
        return (short_time(length), "UNKNOWN")
    return (short_time(length), "" if length <= limit else "UNMET")


def _metric(bound: Any, known: tuple[Any, str, bool] | None) -> tuple[str, str]:
    if known is None:
        return ("MISSING", "UNKNOWN")
    _, text, contested = known
    if contested:
        return ("CONFLICT", "UNKNOWN")
    return (bound.show(text), "" if bound.holds(text) else "UNMET")


def _facts(seen: Evidence, labels: dict[str, str], name: str, fenced: bool) -> Facts:
    numbers = {"parts": float(len(seen.parts))}
    if seen.attempts:
        numbers |= {"attempts": float(seen.attempts), "retries": float(seen.attempts - 1)}
    for title, begin in (("run_time_ms", seen.start), ("latency_ms", seen.created)):
        if begin is not None and seen.end is not None and seen.end >= begin:
            numbers[title] = (seen.end - begin) / 1_000_000
    metrics = {name: float(text) for name, (_, text, contested) in seen.metrics.items() if not contested}
    contested = frozenset([name for name, row in seen.metrics.items() if row[2]])
    texts = {"name": name, "phase": seen.phase, "reason": seen.reason, "word": seen.word}
    return Facts(texts, numbers, fenced, labels, metrics, seen.conflict, contested)
