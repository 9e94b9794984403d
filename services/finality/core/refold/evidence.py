"""What a job has shown, as a function of the *set* of events that count for it.

The fast fold joins one event after the other into a record. Here nothing is joined: all events of the job are kept and
everything is worked out from all of them again, so that order and repetition cannot matter, by construction.
"""

from __future__ import annotations

from typing import Any

from finality.core.refold.events import ENDED, key_of_order, step_of, time_of

__all__ = ["Evidence", "Observation"]

ATTEMPTS, METRICS, CONDITIONS, PARTS, RIVALS = 256, 64, 64, 4096, 8
Order = tuple[int, int, int]
Claim = tuple[int, str, str, str]  # step, phase, reason, word


class Observation:
    """One event, and whether its phase counts (a holder without a lease may not claim one)."""

    def __init__(self, event: dict[str, Any], phase_counts: bool = True) -> None:
        self.at = time_of(event["at"])
        self.start, self.end = time_of(event["start"]), time_of(event["end"])
        self.created = time_of(event["created"]) if event["created"] else self.at
        self.attempt: int = event["attempt"]
        self.metrics: dict[str, str] = event["metrics"]
        self.conditions: dict[str, bool] = event["conditions"]
        self.parts: list[str] = event["parts"]
        self.deleted: bool = event["deleted"]
        self.order = key_of_order(event)
        self.claim: Claim | None = None
        phase, reason = event["phase"], event["reason"]
        if self.deleted and not phase:
            phase, reason = "CANCELLED", reason or "DELETED"
        if phase and phase_counts:
            self.claim = (step_of(phase), phase, reason, event["word"])

    @property
    def is_rare(self) -> bool:
        """It says something that most jobs never say."""
        return bool(self.attempt or self.metrics or self.conditions or self.parts)


class Evidence:
    """Everything that follows from a job's observations.

    order: the greatest key of a claim. rivals: the different claims there, none when they agree. bounded: something
    had to be left out.
    """

    def __init__(self, seen: list[Observation]) -> None:
        self.created = min([one.created for one in seen if one.created is not None], default=None)
        self.latest = max([one.at for one in seen if one.at is not None], default=None)
        self.deleted = any(one.deleted for one in seen)
        self.rare = any(one.is_rare for one in seen)
        self.bounded = False
        self._claims(seen)
        self._attempts(seen)
        self.metrics: dict[str, tuple[Order, str, bool]] = {}
        self.conditions: list[str] = []
        self.parts: list[str] = []
        if self.rare:
            self._metrics(seen)
            held = {name for one in seen for name, holds in one.conditions.items() if holds}
            self.conditions = self._bound(sorted(held), CONDITIONS)
            self.parts = self._bound(sorted({part for one in seen for part in one.parts}), PARTS)

    def _bound(self, items: list[Any], limit: int) -> list[Any]:
        if len(items) > limit:
            self.bounded = True
        return items[:limit]

    def _claims(self, seen: list[Observation]) -> None:
        claiming = [one for one in seen if one.claim is not None]
        self.order: Order = max([one.order for one in claiming], default=(-2, 0, 0))
        last = [one for one in claiming if one.order == self.order]
        claims = {one.claim for one in last if one.claim is not None}
        self.rivals = _loudest(claims) if len(claims) > 1 else []
        shown = max(claims, default=(0, "", "", ""))
        _, self.phase, self.reason, self.word = shown
        endings = [
            one.end if one.end is not None else one.at
            for one in last
            if one.claim is not None and one.claim[1] in ENDED
        ]
        self.end = min([end for end in endings if end is not None], default=None)

    def _attempts(self, seen: list[Observation]) -> None:
        starts = sorted({one.start for one in seen if not one.attempt and one.start is not None}, reverse=True)
        self.starts: list[int] = sorted(self._bound(starts, ATTEMPTS))
        numbers = sorted({one.attempt for one in seen if one.attempt}, reverse=True)
        self.numbered: dict[int, int | None] = {}
        for number in self._bound(numbers, ATTEMPTS):
            known = [one.start for one in seen if one.attempt == number and one.start is not None]
            self.numbered[number] = min(known, default=None)

    def _metrics(self, seen: list[Observation]) -> None:
        for name in self._bound(sorted({name for one in seen for name in one.metrics}), METRICS):
            saying = [one for one in seen if name in one.metrics]
            order = max(one.order for one in saying)
            values = {one.metrics[name] for one in saying if one.order == order}
            self.metrics[name] = (order, max(values), len(values) > 1)

    @property
    def ended(self) -> bool:
        """The job stands in an ended phase."""
        return self.phase in ENDED

    @property
    def conflict(self) -> bool:
        """Two different endings stand side by side."""
        return len({claim[1] for claim in self.rivals if claim[1] in ENDED}) > 1

    @property
    def attempts(self) -> int:
        """The greatest number of an attempt, or how many starts were seen."""
        return max([len(self.starts), *self.numbered])

    @property
    def start(self) -> int | None:
        """When the last attempt began."""
        if self.numbered:
            return self.numbered[max(self.numbered)]
        return max(self.starts, default=None)

    def reached(self, stages: list[str]) -> list[str]:
        """The stages reached without a hole."""
        found: list[str] = []
        for stage in stages:
            if stage not in self.conditions:
                break
            found.append(stage)
        return found


def _loudest(claims: set[Claim]) -> list[Claim]:
    """At most eight claims in order: the greatest of each phase first, so that no ending is left out for another's
    many words."""
    first = {max(claim for claim in claims if claim[1] == phase) for phase in {claim[1] for claim in claims}}
    chosen = sorted(first, reverse=True)[:RIVALS]
    chosen += sorted(claims - first, reverse=True)[: RIVALS - len(chosen)]
    return sorted(chosen)
