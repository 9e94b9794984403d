"""A history that uses every field of an event and every rule of the fold, drawn from a seed by a generator of our own.

The Borg sample is large and plain; this one is small and crooked: gaps, ties, conflicts, leases, families, stages,
metrics, answers, ticks, repeats, records that no fold can take. It stands for nothing real and holds only bytes still.
"""

from __future__ import annotations

from typing import Any

from finality.core.canonical import encode
from finality.core.event import PHASES
from finality.core.records import CAUSE, KIND, REJECTED, TICK, Record
from support.borg_history import Written, command, event_records

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
BASE = {"apiVersion": "finality.dev/v1alpha1", "kind": "StatefulJob"}
ORDERED = {
    "selector": {"source": "a", "kind": "run"},
    "targetState": {"phase": "SUCCEEDED", "metrics": {"rows": ">= 10"}},
    "limits": {"retries": 1, "latency": "5m"},
    "deadline": "10m",
    "settle": "30s",
    "ordering": {"revisions": "contiguous", "holdMax": 3, "holdFor": "20s"},
}
FAMILY = {
    "selector": {"source": "b"},
    "targetState": {"phase": "SUCCEEDED"},
    "cascade": {"parent": "root"},
    "stages": ["Pending", "Applied"],
    "settle": "none",
    "predicates": [{"name": "whole", "cel": "parts > 1"}],
}
HELPED = {
    "selector": {"source": "c"},
    "targetState": {"phase": "SUCCEEDED"},
    "reconcilePolicy": "strict",
    "deadline": "5m",
    "jobLease": {"ttl": "90s", "keepAlive": "30s", "longestStep": "60s"},
    "compensations": [{"on": "VIOLATED", "action": "rerun", "backoff": "10s", "budget": 2}],
}
CONTRACTS = [
    {**BASE, "metadata": {"name": n}, "spec": s}
    for n, s in (("ordered", ORDERED), ("family", FAMILY), ("helped", HELPED))
]


class Draw:
    """Numbers from a seed, the same in every version of Python (Knuth's MMIX generator, upper bits)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit

    def one_in(self, count: int) -> bool:
        """True once in `count` times."""
        return self.below(count) == 0


def varied_records(seed: int, events: int) -> list[Record]:
    """Contracts, then events with ticks between them."""
    draw = Draw(seed)
    now = START
    records = [command(number, document) for number, document in enumerate(CONTRACTS, 1)]
    sent = 0
    while sent < events:
        batch = [Written(b"k", encode(_event(draw, now))) for _ in range(1 + draw.below(4))]
        if draw.one_in(40):
            batch.append(Written(b"k", b'{"job":"no key","phase":"DONE"}'))
        records += event_records(batch, sent)
        if draw.one_in(10):
            records.append(records[-1])  # a repeat of its source record
        sent += len(batch)
        now += draw.below(8) * SECOND
        if draw.one_in(2):
            records.append(Record(0, 0, None, encode({"at": str(now)}), [(KIND, TICK)]))
        if draw.one_in(50):
            records.append(Record(0, 0, None, b"\xff", [(KIND, REJECTED), (CAUSE, b"BAD_ROW")]))
    return records


def _event(draw: Draw, now: int) -> dict[str, Any]:
    source, kind = "abcd"[draw.below(4)], ("run", "step")[draw.below(2)]
    number = now // (40 * SECOND) % 100 * 3 + draw.below(12)
    event: dict[str, Any] = {"job": f"default/{source}/main/{kind}/{number}"}
    at = now - draw.below(30) * SECOND
    if not draw.one_in(12):
        event["at"] = str(at)
    if not draw.one_in(6):
        event["phase"] = PHASES[draw.below(len(PHASES))]
    if draw.one_in(2):
        event["word"] = ("done", "Läuft", 'say "x"\\', "zu Ende\u2028")[draw.below(4)]
    if draw.one_in(3):
        event["reason"] = ("OOM", "ERROR")[draw.below(2)]
    if draw.one_in(3):
        event["start"] = str(at - draw.below(400) * SECOND)
    if draw.one_in(4):
        event["created"] = str(at - draw.below(900) * SECOND)
    if draw.one_in(5):
        event["end"] = str(at)
    if draw.one_in(4):
        event["attempt"] = 1 + draw.below(3)
    if source == "a" and not draw.one_in(3):
        event["revision"] = str(draw.below(8))
        if draw.one_in(5):
            event["revision_epoch"] = str(draw.below(2))
    _add_rare(draw, event, source, kind)
    return event


def _add_rare(draw: Draw, event: dict[str, Any], source: str, kind: str) -> None:
    if draw.one_in(3):
        event["metrics"] = {"rows": str(draw.below(30)), "loss": f"-0.{draw.below(100):02}"}
    if source == "b" and draw.one_in(2):
        event["conditions"] = {"Pending": True, "Applied": draw.one_in(2)}
        event["parts"] = [f"p{draw.below(4)}", "p9"]
    if source == "b" and kind == "step":
        event["root"] = event["job"].replace("/step/", "/run/")
    if draw.one_in(6):
        event["labels"] = {"team": "data"}
        event["name"] = f"job {draw.below(5)}"
    if draw.one_in(20):
        event["deleted"] = True
    if source == "c":
        holder = ("w1", "w2")[draw.below(2)]
        if draw.one_in(3):
            event["lease"] = {"holder": holder, "op": ("grant", "keep", "release")[draw.below(3)]}
        elif draw.one_in(3):
            event["holder"] = holder
        if draw.one_in(6):
            event["answers"] = {"command": "00", "ok": draw.one_in(2)}
