"""The revision barrier of one job: what is held behind a gap, and what passes it.

Where a contract says that a source's revisions are contiguous, an event that jumps ahead is *held* until the missing
ones came, or until the hold's bound (a number, a time) is met: then all held events are merged in order, and the job
carries the mark GAP. Since merging is a join, holding only delays; it never changes what the evidence is in the end.
"""

from __future__ import annotations

from finality.core.contract import Contract
from finality.core.event import Event, decode_event, encode_event
from finality.core.job import NO_TIME, PASSED_GAP, Job
from finality.core.state import State
from finality.core.timers import HOLD

__all__ = ["applied", "hold", "merge_held", "pass_gap"]


def hold(state: State, job: Job, contract: Contract, event: Event) -> bool | None:
    """None: the event passes. True: it is held. False: it is held, and the bound of the number is met."""
    extra = job.more()
    epoch, revision = int(event.revision_epoch or 0), int(event.revision)
    known_epoch, greatest = extra.revisions
    if greatest < 0 or epoch != known_epoch or revision <= greatest + 1:
        return None
    held = (revision, encode_event(event).decode())
    if held not in extra.held:
        extra.held.append(held)
        extra.held.sort()
    bound = contract.hold_max if contract.hold_max is not None else state.parameters.hold_max
    if len(extra.held) > bound:
        return False
    if not extra.hold:
        wait = contract.hold_for if contract.hold_for is not None else int(state.parameters.hold_for)
        extra.hold = state.timers.start(state.log_time, job.key, HOLD, wait)
    return True


def applied(job: Job, event: Event) -> bool:
    """A revision was merged: merge the held ones that now follow. True when the phase moved."""
    extra = job.more()
    moved = False
    epoch, revision = int(event.revision_epoch or 0), int(event.revision)
    known_epoch, greatest = extra.revisions
    if epoch > known_epoch or greatest < 0:
        if extra.held:  # the source began to count again: what it left out will not come
            moved = pass_gap(job)
        extra.revisions = (epoch, revision)
    elif epoch == known_epoch:
        extra.revisions = (epoch, max(greatest, revision))
    while extra.held and extra.held[0][0] <= extra.revisions[1] + 1:
        moved = _merge_first(job) or moved
    if not extra.held:
        extra.hold = 0
    return moved


def pass_gap(job: Job) -> bool:
    """The bound of a gap is met: merge all held events in order, and mark it. True when the phase moved."""
    job.flags |= PASSED_GAP
    moved = merge_held(job)
    job.more().hold = 0
    return moved


def merge_held(job: Job) -> bool:
    """Merge all held events in order. True when the phase moved."""
    extra = job.more()
    moved = False
    while extra.held:
        moved = _merge_first(job) or moved
    return moved


def _merge_first(job: Job) -> bool:
    extra = job.more()
    _, packed = extra.held.pop(0)
    event = decode_event(packed.encode())
    epoch, greatest = extra.revisions
    extra.revisions = (epoch, max(greatest, int(event.revision)))
    return job.merge(event, int(event.at) if event.at else NO_TIME)
