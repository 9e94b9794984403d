"""The rules by which canonical events of one job become its state, written down once more as literally as possible.

It shares nothing with the fold: tables of truth are compared through it, so that a source is judged alone. It keeps all
events and sorts them; order of arrival and duplicates cannot matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from finality.core.event import ENDED, Event, phase_rank

ACTIVE = "ACTIVE"


class State(NamedTuple):
    """phase "CONFLICT" = two different endings at the greatest order key; conflict = any two contents at one key."""

    phase: str
    reason: str
    word: str
    conflict: bool
    attempts: int
    start: str
    end: str
    created: str
    metrics: dict[str, str]

    @property
    def wording(self) -> str:
        """The phase in the neutral words of the truth tables."""
        if self.phase in ENDED or self.phase == "CONFLICT":
            return self.phase
        return ACTIVE if self.phase not in ("", "UNKNOWN") else "UNKNOWN"


def order_key(event: Event) -> tuple[int, ...]:
    """A revisioned event is greater than any other; else attempt, occurred time, step of life; UNKNOWN is least."""
    if event.phase == "UNKNOWN":
        return (-1, event.attempt, int(event.at or -1), 0)
    if event.revision:
        return (1, int(event.revision_epoch or 0), int(event.revision), 0)
    return (0, event.attempt, int(event.at or -1), phase_rank(event.phase))


def reduce_job(events: Iterable[Event]) -> State:
    """The state of one job, whatever the order of its events."""
    history = sorted(events, key=order_key)
    contents: dict[tuple[int, ...], list[tuple[str, str, str]]] = defaultdict(list)
    for event in history:
        content = (event.phase, event.reason, event.word)
        if event.phase and content not in contents[order_key(event)]:
            contents[order_key(event)].append(content)
    contents = {key: found for key, found in contents.items() if found}
    conflict = any(len(found) > 1 for found in contents.values())
    phase = reason = word = end = ""
    if contents:
        top = contents[max(contents)]
        ended = sorted(content for content in top if content[0] in ENDED)
        phase, reason, word = (ended or sorted(top))[0]
        if len({content[0] for content in ended}) > 1:
            phase = "CONFLICT"
        if ended:
            last = next(e for e in reversed(history) if e.phase in ENDED)
            end = last.end or last.at
    starts = {e.start for e in history if e.start or (e.phase == "RUNNING" and not e.attempt)}
    numbers = {e.attempt for e in history if e.attempt}
    newest = max(numbers, default=0)
    of_newest = [int(e.start) for e in history if e.start and e.attempt == newest]
    begin = (min(of_newest) if newest else max(of_newest)) if of_newest else ""
    metrics = {name: number for e in history for name, number in e.metrics.items()}
    created = min((int(e.created) for e in history if e.created), default="")
    return State(phase, reason, word, conflict, newest or len(starts), str(begin), end, str(created), metrics)


def reduce_events(events: Iterable[Event]) -> dict[str, State]:
    """States by job key."""
    jobs: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        jobs[event.job].append(event)
    return {job: reduce_job(history) for job, history in jobs.items()}
