"""Job leases: a job's work permit, granted, kept and released by input records, ended by log time.

Work that needs a lease is refused without one. An expired lease fences its holder: what such a holder claims of the
phase does not count, and is dead-lettered with its cause; what it has done (metrics, parts, conditions) is kept.
"""

from __future__ import annotations

from finality.core.contract import JobLease
from finality.core.event import Event
from finality.core.job import LEASE_LOST, Job
from finality.core.state import State
from finality.core.timers import LEASE

__all__ = ["fold_lease", "lose"]


def fold_lease(state: State, job: Job, terms: JobLease, event: Event) -> tuple[str, bool]:
    """Fold a step of a job lease: (rejection code or "", whether the event's phase counts)."""
    extra = job.more()
    step = event.lease
    if step is not None:
        free = not extra.holder or extra.holder == step.holder
        if not free or (step.op != "grant" and extra.holder != step.holder):
            return "LEASE_REFUSED", False
        extra.holder = "" if step.op == "release" else step.holder
        extra.lease = 0
        if extra.holder:
            job.flags &= ~LEASE_LOST
            extra.lease = state.timers.start(state.log_time, job.key, LEASE, terms.ttl)
    if event.holder and event.holder != extra.holder:
        return "NO_LEASE", False
    return "", True


def lose(job: Job) -> None:
    """The lease ran out."""
    extra = job.more()
    extra.lease = 0
    extra.holder = ""
    job.flags |= LEASE_LOST
