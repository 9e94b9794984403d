"""A job with everything that was ever said of it, and its state item.

Evidence is worked out from all observations whenever somebody asks (and kept until the next observation). What else a
job holds depends on the order of records, as timers and leases must: it stands in plain fields.

A timer is 0 (not running), negative (waits for a tick, for that long) or positive (due at that log time).
"""

from __future__ import annotations

import zlib
from typing import Any

from finality.core.refold.contracts import Contract
from finality.core.refold.events import contents_of, read_event
from finality.core.refold.evidence import Evidence, Observation
from finality.core.refold.writing import canonical

__all__ = ["CASCADED", "DELETED", "EXPIRED", "LEASE_LOST", "MANY", "PASSED_GAP", "Job"]

EXPIRED, CASCADED, PASSED_GAP, LEASE_LOST, DELETED, MANY = 1, 2, 4, 8, 16, 32


class Job:
    """See the module's head. final: index of the outcome entry, 0 = none yet. flags: only those that order decides."""

    def __init__(self, key: str, contract: Contract) -> None:
        self.key = key
        self.contract = contract
        self.final = 0
        self.flags: set[int] = set()
        self.signature = ""
        self.timers = dict.fromkeys(("deadline", "settle", "hold", "lease", "command"), 0)
        self.rare = False  # it has the rare part of a state item
        self.labels: dict[str, str] = {}
        self.name = self.parent = self.root = ""
        self.held: list[tuple[int, str]] = []
        self.revisions = (0, -1)
        self.holder = ""
        self.budgets: dict[str, int] = {}
        self.command = ""  # id; "-" before the next one, "+" when that wait is over
        self.breaker = ""
        self._seen: list[Observation] = []
        self._known: set[tuple[str, bool]] = set()
        self._evidence: Evidence | None = Evidence([])
        self._packed = b""
        self.latest: int | None = None  # greatest occurred time when it was packed
        self._stone = b""  # the state item while it is packed

    @property
    def evidence(self) -> Evidence:
        """All that follows from what was observed."""
        if self._evidence is None:
            self._unpack()
            self._evidence = Evidence(self._seen)
        return self._evidence

    def observe(self, event: dict[str, Any], phase_counts: bool = True) -> bool:
        """One more event. True when it changed where the job stands: the last order key, or what is claimed there."""
        before = self.evidence
        self._unpack()
        known = (contents_of(event), phase_counts)
        if known in self._known:
            return False
        self._known.add(known)
        self._seen.append(Observation(event, phase_counts))
        self._evidence = Evidence(self._seen)
        return (before.order, before.rivals) != (self._evidence.order, self._evidence.rivals)

    def pack(self) -> None:
        """Keep what was observed as compressed text: a finished job is rarely asked again."""
        if self._stone:
            return
        self.latest, self._stone = self.evidence.latest, self.item()
        rows = [text + str(int(phase_counts)) for text, phase_counts in self._known]
        self._packed = zlib.compress("\n".join(sorted(rows)).encode(), 1)
        self._seen, self._known, self._evidence = [], set(), None

    def _unpack(self) -> None:
        self._stone = b""
        if self._packed:
            for row in zlib.decompress(self._packed).decode().split("\n"):
                counts = row[-1] == "1"
                self._known.add((row[:-1], counts))
                self._seen.append(Observation(read_event(row[:-1].encode()), counts))
            self._packed = b""

    @property
    def marks(self) -> list[str]:
        """What stands beside an outcome or delta."""
        names = {
            "BREAKER_OPEN": bool(self.breaker),
            "CASCADED": CASCADED in self.flags,
            "CONFLICT": bool(self.evidence.rivals),
            "GAP": PASSED_GAP in self.flags,
            "LEASE_LOST": LEASE_LOST in self.flags,
            "BOUND_MET": self.evidence.bounded,
        }
        return [name for name, holds in names.items() if holds]

    def item(self) -> bytes:
        """The state item."""
        if self._stone:
            return self._stone
        seen = self.evidence
        flags = sum(self.flags) + DELETED * seen.deleted + MANY * seen.bounded
        row = [
            self.final,
            self.contract.name,
            self.contract.version,
            _order(seen.order),
            seen.phase,
            seen.reason,
            seen.word,
            [list(claim) for claim in seen.rivals],
            [str(start) for start in seen.starts],
            _time(seen.end),
            _time(seen.created),
            _time(seen.latest),
            str(self.timers["deadline"]),
            str(self.timers["settle"]),
            self.signature,
            flags,
            self._rare_part(seen) if self.rare or seen.rare else None,
        ]
        return b"j/" + self.key.encode() + b"\0" + canonical(row)

    def _rare_part(self, seen: Evidence) -> list[Any]:
        return [
            [[number, _time(start)] for number, start in sorted(seen.numbered.items())],
            [[name, _order(row[0]), row[1], int(row[2])] for name, row in sorted(seen.metrics.items())],
            seen.conditions,
            seen.parts,
            [list(pair) for pair in sorted(self.labels.items())],
            self.name,
            self.parent,
            self.root,
            [[str(revision), event] for revision, event in self.held],
            str(self.timers["hold"]),
            [self.revisions[0], str(self.revisions[1])],
            self.holder,
            str(self.timers["lease"]),
            [list(pair) for pair in sorted(self.budgets.items())],
            self.command,
            str(self.timers["command"]),
            self.breaker,
        ]


def _time(value: int | None) -> str:
    return "" if value is None else str(value)


def _order(key: tuple[int, int, int]) -> list[Any]:
    return [key[0], key[1], str(key[2])]
