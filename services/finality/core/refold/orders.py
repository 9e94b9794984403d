"""Compensations: commands that are given before a job may end badly, their answers, and circuit breakers."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from finality.core.refold.contracts import Contract
from finality.core.refold.jobs import Job
from finality.core.refold.world import World

__all__ = ["Orders"]


class Orders:
    """Commands of all jobs."""

    def __init__(self, world: World) -> None:
        self.world = world

    def give(self, job: Job, outcome: str) -> bool:
        """Give a command, or begin the wait before it. False when nothing is left to try."""
        job.rare = True
        waited, job.command = job.command == "+", ""
        contract, world = job.contract, self.world
        for rule in contract.compensations:
            action = rule["action"]
            given = job.budgets.get(action, 0)
            if rule["on"] != outcome or given >= rule["budget"]:
                continue
            failures, until = world.breakers.get(_breaker(contract, action), (0, 0))
            if failures >= rule["breaker"] and world.log_time < until:
                job.breaker = action
                continue
            if given and not waited:
                job.command = "-"
                wait = rule["backoff"] * 2 ** min(given - 1, 20)
                job.timers["command"] = world.start(job.key, "command", max(1, wait))
                return True
            job.breaker = ""
            job.budgets[action] = given + 1
            job.command = _command_id(job, action, given + 1)
            job.timers["command"] = world.start(job.key, "command", rule["expires"])
            entry = {
                "action": action,
                "attempt": given + 1,
                "budget": rule["budget"],
                "contract": [contract.name, contract.version],
                "epoch": world.epoch,
                "expires_after": str(rule["expires"]),
                "id": job.command,
                "job": job.key,
                "kind": "command",
                "time": str(world.log_time),
            }
            world.say("command", entry, job)
            return True
        return False

    def answered(self, job: Job, answer: dict[str, Any]) -> None:
        """An executor answered."""
        job.rare = True
        if job.command in ("", "-") or answer["command"] != job.command:
            return
        rule = self._ordered(job)
        if not answer["ok"]:
            self.failed(job)
            job.timers["command"] = 0
        elif rule is not None:
            self.world.breakers[_breaker(job.contract, rule["action"])] = (0, 0)

    def _ordered(self, job: Job) -> dict[str, Any] | None:
        """The rule whose command is waited for, None when a newer contract no longer has it."""
        for rule in job.contract.compensations:
            given = job.budgets.get(rule["action"], 0)
            if given and _command_id(job, rule["action"], given) == job.command:
                return rule
        return None

    def failed(self, job: Job) -> None:
        """The command that was waited for did not help."""
        rule = self._ordered(job)
        job.command = ""
        if rule is not None:
            key = _breaker(job.contract, rule["action"])
            failures = self.world.breakers.get(key, (0, 0))[0] + 1
            until = self.world.log_time + rule["expires"] if failures >= rule["breaker"] else 0
            self.world.breakers[key] = (failures, until)


def _breaker(contract: Contract, action: str) -> str:
    return f"b/{contract.tenant}/{contract.name}/{action}"


def _command_id(job: Job, action: str, attempt: int) -> str:
    parts = ["finality/command/1", job.key, job.contract.name, job.contract.version, action, str(attempt)]
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
