"""A partition in a few words: fold an event, a tick or a command, and look at what was said."""

from __future__ import annotations

import json
from typing import Any

from finality.core.fold import Fold
from finality.core.genesis import Genesis, Parameters, Voters
from finality.core.records import COMMAND, EVENT, TICK, Headers

BASE = {"apiVersion": "finality.dev/v1alpha1", "kind": "StatefulJob"}
JOB = "default/s/i/run/1"


class Partition:
    """One partition with at most one contract; times are single nanoseconds. said: all entries, as documents."""

    def __init__(self, contract: dict[str, Any] | None = None, **parameters: Any) -> None:
        sites = (Voters(1, "primary", ("r1",)), Voters(1, "dr", ("d1",)))
        fields = {"digest_every": 10**6, "settle": "0", **parameters}
        self.genesis = Genesis(
            generation=1,
            log_time="0",
            nonce="n",
            parameters=Parameters(**fields),
            partitions=1,
            site="primary",
            sites=sites,
        )
        self.fold = Fold(self.genesis)
        self.position = 1
        self.time = 0
        self.number = 0
        self.said: list[dict[str, Any]] = []
        if contract is not None:
            self.contract(contract)

    def record(self, kind: bytes, value: bytes, headers: Headers = ()) -> list[dict[str, Any]]:
        """Fold a record; what it made the fold say."""
        self.position += 1
        made = self.fold.step(self.position, kind, None, value, headers)
        entries = [json.loads(row.entry) for row in made]
        self.said += entries
        return entries

    def event(self, phase: str = "", job: str = JOB, **fields: Any) -> list[dict[str, Any]]:
        """An event; times may be numbers."""
        event = {"job": job, "phase": phase, **fields}
        for name in ("at", "start", "end", "created", "revision"):
            if name in event:
                event[name] = str(event[name])
        return self.record(EVENT, json.dumps(event).encode())

    def tick(self, steps: int = 1) -> list[dict[str, Any]]:
        """Log time moves on by so many ns."""
        self.time += steps
        return self.record(TICK, json.dumps({"at": str(self.time)}).encode())

    def command(self, **body: Any) -> list[dict[str, Any]]:
        """The next command."""
        self.number += 1
        epoch = self.fold.state.control_epoch
        return self.record(COMMAND, json.dumps({"epoch": epoch, "number": self.number, **body}).encode())

    def contract(self, spec: dict[str, Any], name: str = "c") -> list[dict[str, Any]]:
        """Apply a contract."""
        return self.command(op="contract", document={**BASE, "metadata": {"name": name}, "spec": spec})

    def outcomes(self, job: str = JOB) -> list[str]:
        """Kind and outcome of all that was said of a job's end."""
        return [f"{row['kind']} {row['outcome']}" for row in self.said if "outcome" in row and row["job"] == job]


def kinds(entries: list[dict[str, Any]]) -> list[str]:
    """The kinds of some entries."""
    return [row["kind"] for row in entries]
