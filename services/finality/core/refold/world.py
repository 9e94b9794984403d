"""What the rules of one job see of the partition around it."""

from __future__ import annotations

from typing import Any, Protocol

from finality.core.refold.contracts import Contract
from finality.core.refold.jobs import Job

__all__ = ["World"]


class World(Protocol):
    """The partition around a job."""

    log_time: int
    hold_max: int
    hold_for: int
    open_jobs: dict[str, Job]
    finished: dict[str, Job]
    cascades: dict[str, int]
    breakers: dict[str, tuple[int, int]]

    @property
    def epoch(self) -> int:
        """The epoch in force."""

    def say(self, kind: str, entry: dict[str, Any], job: Job | None) -> None:
        """One entry of this step."""

    def start(self, key: str, what: str, length: int) -> int:
        """Begin a duration (ns); the timer's value."""

    def contract_of(self, tenant: str, name: str) -> Contract | None:
        """Newest version of a contract, None when there is none."""

    def contracts_of(self, tenant: str) -> list[Contract]:
        """Newest versions of all contracts of a tenant."""

    def default_of(self, tenant: str) -> Contract:
        """The built-in contract of a tenant."""
