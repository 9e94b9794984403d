"""From a job's evidence to its outcome: pure functions of the two, so that order never matters.

An outcome is SATISFIED, VIOLATED, EXPIRED, CANCELLED or UNPROVEN. Unknown is never satisfied: an item that cannot be
computed makes the outcome UNPROVEN, unless another item is certainly unmet.
"""

from __future__ import annotations

from finality.core.contract import Contract
from finality.core.evaluate import Evidence, evaluate
from finality.core.event import ENDED
from finality.core.job import CASCADED, EXPIRED, LEASE_LOST, MANY, NO_TIME, PASSED_GAP, Job

__all__ = ["OUTCOMES", "evidence_of", "judge", "marks_of", "outcome_of", "reached_stages"]

OUTCOMES = ("SATISFIED", "VIOLATED", "EXPIRED", "CANCELLED", "UNPROVEN")


def evidence_of(job: Job, contract: Contract) -> Evidence:
    """What a contract is evaluated against."""
    start, end, created = job.start, job.end, job.created
    extra = job.extra
    evidence = Evidence(
        job.phase,
        bool(job.rivals) and job.conflict,
        None if start == NO_TIME else start,
        None if end == NO_TIME else end,
        None if created == NO_TIME else created,
        job.attempts,
    )
    if contract.predicates:
        evidence.reason, evidence.word = job.reason, job.word
        evidence.fenced = bool(job.flags & LEASE_LOST)
    if extra is not None:
        evidence.metrics = {name: None if row[2] else row[1] for name, row in extra.metrics.items()}
        evidence.labels = extra.labels
        evidence.name = extra.name
        evidence.parts = len(extra.parts)
        if contract.stages:
            evidence.stages = len(reached_stages(job, contract))
    return evidence


def judge(job: Job, contract: Contract) -> tuple[dict[str, str], dict[str, str]]:
    """Actual and delta of a job: see `evaluate`."""
    verdicts = contract.verdicts
    if verdicts is not None:
        return verdicts["CONFLICT" if job.rivals and job.conflict else job.phase]
    return evaluate(contract, evidence_of(job, contract))


def reached_stages(job: Job, contract: Contract) -> tuple[str, ...]:
    """The stages reached without a hole: a job moves through every stage whose condition holds, in one step."""
    held = job.extra.conditions if job.extra else ()
    reached = []
    for stage in contract.stages:
        if stage not in held:
            break
        reached.append(stage)
    return tuple(reached)


def marks_of(job: Job) -> tuple[str, ...]:
    """What a reader should know beside the outcome, as codes in a fixed order."""
    flags = job.flags
    if not flags and not job.rivals and job.extra is None:
        return ()
    marks = []
    if job.extra is not None and job.extra.breaker:
        marks.append("BREAKER_OPEN")
    if flags & CASCADED:
        marks.append("CASCADED")
    if job.rivals:
        marks.append("CONFLICT")
    if flags & PASSED_GAP:
        marks.append("GAP")
    if flags & LEASE_LOST:
        marks.append("LEASE_LOST")
    if flags & MANY:
        marks.append("BOUND_MET")
    return tuple(marks)


def outcome_of(job: Job, contract: Contract, delta: dict[str, str], flags: int) -> str:
    """The outcome that the evidence gives if it is final now."""
    contradictory = contract.strict and job.rivals
    if job.phase not in ENDED:
        if flags & CASCADED:
            return "CANCELLED"
        return "EXPIRED" if flags & EXPIRED and not contradictory else "UNPROVEN"
    if contradictory:
        return "UNPROVEN"
    if flags & EXPIRED and not _in_time(job, contract):
        return "EXPIRED"
    if job.phase == "CANCELLED" and contract.target_phase != "CANCELLED" and "phase" in delta:
        return "CANCELLED" if delta["phase"] == "UNMET" else "UNPROVEN"
    if not delta:
        return "SATISFIED"
    return "VIOLATED" if "UNMET" in delta.values() else "UNPROVEN"


def _in_time(job: Job, contract: Contract) -> bool:
    """Late evidence of an ending that itself was in time; unknown times are not in time."""
    if contract.deadline is None or NO_TIME in (job.end, job.created):
        return False
    took: int = job.end - job.created
    return took <= contract.deadline
