"""What a job owes against what it has shown.

For each item of `contract.expected` there is an *actual* text, and for each item that is not met a verdict:

    UNMET    known, and not what is owed
    UNKNOWN  missing or contradictory, so nobody can say
    ERROR    cannot be computed

Nothing that is missing is ever met. Actual texts: a phase; durations as `1h30m`; retries as an integer; metrics as a
decimal with the bound's base unit (`0.8 s`); predicates `true` or `false`; the last stage reached, NONE before the
first. Instead of a value: MISSING, CONFLICT (contradictory evidence), ERROR. A negative duration is shown and UNKNOWN,
since two clocks disagree.

Arithmetic is on integers and scaled integers; the texts are hashed. Only predicates compute with doubles, and of those
only the truth value is kept.

Leaves out: when an item is due, and what outcome follows.
"""

from __future__ import annotations

import msgspec

from finality.core.cel import Facts, Predicate
from finality.core.contract import Contract
from finality.core.quantity import Bound, format_duration, parse_number

__all__ = ["Evidence", "evaluate"]

_MISSING = ("MISSING", "UNKNOWN")
_CONFLICT = ("CONFLICT", "UNKNOWN")
_ERROR = ("ERROR", "ERROR")
_PREDICATE = {
    "true": ("true", ""),
    "false": ("false", "UNMET"),
    "MISSING": _MISSING,
    "CONFLICT": _CONFLICT,
    "ERROR": _ERROR,
}


class Evidence(msgspec.Struct, gc=False):
    """What is known of a job. Times in ns, None = unknown.

    phase: of the greatest order key. conflict: two different endings stand there. start, end: of the last attempt.
    attempts: 0 = unknown. metrics: decimal texts, None = contradictory. stages: how many of the contract's stages are
    reached in sequence. parts: sub-results done. fenced: a job lease ran out.
    """

    phase: str
    conflict: bool = False
    start: int | None = None
    end: int | None = None
    created: int | None = None
    attempts: int = 0
    metrics: dict[str, str | None] = {}
    labels: dict[str, str] = {}
    name: str = ""
    reason: str = ""
    word: str = ""
    stages: int = 0
    parts: int = 0
    fenced: bool = False


def evaluate(contract: Contract, evidence: Evidence) -> tuple[dict[str, str], dict[str, str]]:
    """(actual, delta): item to text for every item of `contract.expected`, and item to verdict for those not met.

    Both are sorted by item. They are shared between calls: nobody changes them.
    """
    verdicts = contract.verdicts
    if verdicts is not None:
        return verdicts["CONFLICT" if evidence.conflict else evidence.phase]
    actual: dict[str, str] = {}
    delta: dict[str, str] = {}
    facts: Facts | None = None
    for item, group, name in contract.items:
        if group == "metrics":
            text, verdict = _metric(contract.bounds[name], name, evidence)
        elif group == "predicates":
            facts = facts or _facts(evidence)
            text, verdict = _predicate(contract.predicates[name], facts)
        else:
            text, verdict = _plain(contract, item, evidence)
        actual[item] = text
        if verdict:
            delta[item] = verdict
    return actual, delta


def _plain(contract: Contract, item: str, evidence: Evidence) -> tuple[str, str]:
    if item == "phase":
        if evidence.conflict:
            return _CONFLICT
        if not evidence.phase:
            return _MISSING
        return evidence.phase, "" if evidence.phase == contract.target_phase else "UNMET"
    if item == "runTime":
        return _duration(contract.run_time, evidence.start, evidence.end)
    if item == "latency":
        return _duration(contract.latency, evidence.created, evidence.end)
    if item == "retries":
        if evidence.attempts < 1 or contract.retries is None:
            return _MISSING
        retries = evidence.attempts - 1
        return str(retries), "" if retries <= contract.retries else "UNMET"
    if item == "stage":
        reached = evidence.stages
        shown = contract.stages[reached - 1] if reached else "NONE"
        return shown, "" if reached >= len(contract.stages) else "UNMET"
    raise AssertionError(f"no rule for item {item}")


def _duration(limit: int | None, begin: int | None, end: int | None) -> tuple[str, str]:
    if limit is None or begin is None or end is None:
        return _MISSING
    length = end - begin
    if length < 0:
        return format_duration(length), "UNKNOWN"
    return format_duration(length), "" if length <= limit else "UNMET"


def _metric(bound: Bound, name: str, evidence: Evidence) -> tuple[str, str]:
    if name not in evidence.metrics:
        return _MISSING
    text = evidence.metrics[name]
    if text is None:
        return _CONFLICT
    try:
        measured = parse_number(text)
    except ValueError:
        return _ERROR
    return bound.show(measured), "" if bound.holds(measured) else "UNMET"


def _predicate(predicate: Predicate, facts: Facts) -> tuple[str, str]:
    return _PREDICATE[predicate.judge(facts)]


def _facts(evidence: Evidence) -> Facts:
    texts = {"name": evidence.name, "phase": evidence.phase, "reason": evidence.reason, "word": evidence.word}
    numbers: dict[str, float] = {"parts": float(evidence.parts)}
    if evidence.attempts > 0:
        numbers["attempts"] = float(evidence.attempts)
        numbers["retries"] = float(evidence.attempts - 1)
    for name, begin in (("run_time_ms", evidence.start), ("latency_ms", evidence.created)):
        if begin is not None and evidence.end is not None and evidence.end >= begin:
            numbers[name] = (evidence.end - begin) / 1_000_000
    metrics: dict[str, float] = {}
    contested: set[str] = set()
    for name, text in evidence.metrics.items():
        if text is None:
            contested.add(name)
            continue
        try:
            number = parse_number(text)
        except ValueError:
            continue
        metrics[name] = number.digits / 10**number.places
    return Facts(texts, numbers, evidence.fenced, evidence.labels, metrics, evidence.conflict, frozenset(contested))
