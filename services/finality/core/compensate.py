"""Compensation: commands that may still bring a job to its contract, decided in the fold.

A job that would be final with an outcome that a compensation names waits instead: a command goes out with an
idempotency key, a budget and an expiry. New evidence of the job supersedes the wait. An answer "failed", or no new
evidence until the expiry, counts as a failure: the next command follows after backoff × 2^(n-1). When the budget is
used, the job is final.

A circuit breaker for each (contract, action) opens after as many failures in a row as the contract says, for one
expiry; while it is open no command of that action is given, and the next compensation of the contract is tried
(degrade). After that one command is let through: its failure opens the breaker again.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from finality.core.contract import Compensation, Contract
from finality.core.entries import CommandEntry, Entry
from finality.core.event import Answer
from finality.core.job import Job
from finality.core.state import State
from finality.core.timers import COMMAND

__all__ = ["answered", "order", "superseded", "timed_out"]

_WAITING = "-"  # the backoff before the next command runs
_READY = "+"  # the backoff is over


def order(state: State, job: Job, contract: Contract, outcome: str, emit: Callable[[Entry, Job | None], None]) -> bool:
    """Give a command, or begin the wait before it. False when nothing is left to try."""
    extra = job.more()
    ready = extra.command == _READY
    extra.command = ""
    for compensation in contract.compensations:
        given = extra.budgets.get(compensation.action, 0)
        if compensation.on != outcome or given >= compensation.budget:
            continue
        if _is_open(state, contract, compensation):
            extra.breaker = compensation.action
            continue
        if given and not ready:
            extra.command = _WAITING
            wait = compensation.backoff * 2 ** min(given - 1, 20)
            extra.command_timer = state.timers.start(state.log_time, job.key, COMMAND, max(wait, 1))
            return True
        extra.breaker = ""
        extra.budgets[compensation.action] = given + 1
        extra.command = _command_id(job, contract, compensation, given + 1)
        extra.command_timer = state.timers.start(state.log_time, job.key, COMMAND, compensation.expires)
        emit(
            CommandEntry(
                compensation.action,
                given + 1,
                compensation.budget,
                (contract.name, contract.version),
                state.epoch,
                str(compensation.expires),
                extra.command,
                job.key,
                str(state.log_time),
            ),
            job,
        )
        return True
    return False


def answered(state: State, job: Job, contract: Contract, answer: Answer) -> None:
    """An executor answered. "ok" closes the breaker and goes on waiting for evidence; "failed" ends the wait."""
    extra = job.more()
    if len(extra.command) <= 1 or answer.command != extra.command:
        return
    compensation = _of_command(job, contract)
    if answer.ok:
        if compensation is not None:
            state.set_breaker(_breaker_key(contract, compensation), 0, 0)
        return
    _fail(state, contract, compensation)
    extra.command = ""
    extra.command_timer = 0


def timed_out(state: State, job: Job, contract: Contract) -> None:
    """The timer of a command, or of the wait before one, is due; afterwards `conclude` looks at the job again."""
    extra = job.more()
    extra.command_timer = 0
    if extra.command == _WAITING:
        extra.command = _READY
        return
    _fail(state, contract, _of_command(job, contract))
    extra.command = ""


def superseded(state: State, job: Job) -> None:
    """New evidence of the job arrived: nothing is waited for any more."""
    extra = job.more()
    extra.command = ""
    extra.command_timer = 0


def _command_id(job: Job, contract: Contract, compensation: Compensation, attempt: int) -> str:
    """Idempotency key: the same command at both sites and after every refold."""
    text = "\0".join([job.key, contract.name, contract.version, compensation.action, str(attempt)])
    return sha256(b"finality/command/1\0" + text.encode()).hexdigest()[:32]


def _of_command(job: Job, contract: Contract) -> Compensation | None:
    """The rule whose command is waited for, None when a newer version of the contract no longer has it."""
    extra = job.more()
    for compensation in contract.compensations:
        given = extra.budgets.get(compensation.action, 0)
        if given and _command_id(job, contract, compensation, given) == extra.command:
            return compensation
    return None


def _breaker_key(contract: Contract, compensation: Compensation) -> str:
    return f"b/{contract.tenant}/{contract.name}/{compensation.action}"


def _is_open(state: State, contract: Contract, compensation: Compensation) -> bool:
    failures, until = state.breakers.get(_breaker_key(contract, compensation), (0, 0))
    return failures >= compensation.breaker and state.log_time < until


def _fail(state: State, contract: Contract, compensation: Compensation | None) -> None:
    if compensation is None:
        return
    key = _breaker_key(contract, compensation)
    failures = state.breakers.get(key, (0, 0))[0] + 1
    until = state.log_time + compensation.expires if failures >= compensation.breaker else 0
    state.set_breaker(key, failures, until)
