"""Everything that can go wrong, and what to do about it.

One root class. Each error carries a *disposition* (what the running service does) and an *exit code* (what the process
tells its caller). Foreign exceptions never cross a room's border: `kafka/` and `ledger/` translate theirs by one table
each. An error that nobody classified is never retried.

Messages are one line for people: what, where, what to do.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "DependencyError",
    "Disposition",
    "Failed",
    "Fenced",
    "FinalityError",
    "IntegrityFault",
    "Rejected",
    "Retry",
    "UsageError",
]


class Disposition(StrEnum):
    """What a service does when it meets the error."""

    RETRY = "retry"  # the same call again, later
    DROP_BATCH = "drop_batch"  # forget what was in flight, go on from what was read back
    REJECT = "reject"  # this record is dead-lettered, its neighbours go on
    FENCE = "fence"  # another process owns this; step down
    HALT = "halt"  # stop, page, never restart automatically


class FinalityError(Exception):
    """Root of all errors. `exit_code`: see the command table (0 done … 5 fenced)."""

    disposition = Disposition.HALT
    exit_code = 1


class Failed(FinalityError):
    """The command did its work and the answer is no (exit 1)."""


class UsageError(FinalityError):
    """Wrong usage, settings or document (exit 2)."""

    exit_code = 2


class DependencyError(FinalityError):
    """Kafka, Redis, Java or a file cannot be reached (exit 3)."""

    disposition = Disposition.RETRY
    exit_code = 3


class Retry(DependencyError):
    """A dependency failed in a way that the same call may survive later."""


class Fenced(FinalityError):
    """Another process took over (exit 5)."""

    disposition = Disposition.FENCE
    exit_code = 5


class Rejected(FinalityError):
    """One record cannot be mapped or folded. `code` is hashed and public; `detail` is for people only."""

    disposition = Disposition.REJECT

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class IntegrityFault(FinalityError):
    """Data contradicts what was proved before (exit 4). `name` is stable: LOG_SHRUNK, CHAIN_DIFFERS, …"""

    exit_code = 4

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
