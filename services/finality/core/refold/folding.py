"""The fold of one partition, from accepted records to entries, the slow way.

Timers stand in one heap; whether a row still means something is asked of the job. A digest hashes every item anew.
"""

from __future__ import annotations

import heapq
import re
from hashlib import sha256
from typing import Any

from finality.core.refold.contracts import Contract, built_in
from finality.core.refold.control import Control
from finality.core.refold.events import UNKNOWN_TIME, Refused, is_long, read_event
from finality.core.refold.jobs import Job
from finality.core.refold.life import Life
from finality.core.refold.reading import BadJson, document_of, is_text, shaped
from finality.core.refold.writing import canonical, digest_of

__all__ = ["Folding"]

HOUR = 3600 * 10**9
AHEAD = 300 * 10**9  # a source's time counts at most this far ahead of the ticks
KINDS = ("rejected", "control", "delta", "command", "outcome", "amendment", "digest", "beyond-memory")
TIMERS = ("deadline", "settle", "hold", "lease", "command", "cascade")  # equal times: in this order
Headers = list[tuple[str, bytes | None]]
_AT = rb"([0-9]{1,18})\.([0-9]{1,9})"
_PLACE = re.compile(rb"([!-~]{1,249}) ([0-9]{1,9}) -?[0-9]{1,9} " + _AT + rb" (?:<" + _AT + rb"|\^-?[0-9]{1,18})")
_CODE = re.compile(rb"[A-Z0-9_]+")


class Folding:
    """The state of a partition and the records that change it."""

    def __init__(self, genesis: dict[str, Any]) -> None:
        parameters = genesis["parameters"]
        self.ticks = parameters["log_time"] == "ticks"
        self.digest_every: int = parameters["digest_every"]
        self.hold_max: int = parameters["hold_max"]
        self.hold_for = int(parameters["hold_for"])
        self.max_finished: int = parameters["max_finished"]
        self.memory = int(parameters["memory"])
        self.settle = int(parameters["settle"])
        self.position = 1
        self.index = 0
        self.log_time = int(genesis["log_time"])
        self.open_jobs: dict[str, Job] = {}
        self.finished: dict[str, Job] = {}  # in order of finality
        self.marks: dict[tuple[str, int], tuple[int, int]] = {}
        self.source_times: dict[str, int] = {}
        self.horizons: dict[str, int] = {}
        self.breakers: dict[str, tuple[int, int]] = {}
        self.cascades: dict[str, int] = {}
        self.control = Control(genesis)
        self.life = Life(self)
        self._heap: list[tuple[int, str, int]] = []
        self._waiting: set[str] = set()
        self._said: list[tuple[int, dict[str, Any], Job | None]] = []
        self._fresh: list[Job] = []  # finished or amended in this step
        self._defaults: dict[str, Contract] = {}
        self.repeats = 0  # records of a source that were there before

    # -- what the rules see -------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch in force."""
        return self.control.epoch

    def say(self, kind: str, entry: dict[str, Any], job: Job | None) -> None:
        """One entry of this step."""
        self._said.append((KINDS.index(kind), entry, job))
        if kind in ("outcome", "amendment") and job is not None:
            self._fresh.append(job)

    def start(self, key: str, what: str, length: int) -> int:
        """Begin a duration: at the next tick, or now where events are the clock."""
        if self.ticks:
            self._waiting.add(key)
            return -length
        heapq.heappush(self._heap, (self.log_time + length, key, TIMERS.index(what)))
        return self.log_time + length

    def contract_of(self, tenant: str, name: str) -> Contract | None:
        """Newest version of a contract."""
        return self.control.newest.get((tenant, name))

    def contracts_of(self, tenant: str) -> list[Contract]:
        """Newest versions of all contracts of a tenant."""
        return [contract for (owner, _), contract in self.control.newest.items() if owner == tenant]

    def default_of(self, tenant: str) -> Contract:
        """The built-in contract."""
        if tenant not in self._defaults:
            self._defaults[tenant] = built_in(tenant, self.settle)
        return self._defaults[tenant]

    # -- records ------------------------------------------------------------------------------

    def fold(self, position: int, kind: bytes, value: bytes, headers: Headers) -> list[bytes]:
        """Fold the accepted record at `position`; its entries."""
        self.position = position
        hour = self.log_time // HOUR
        if kind == b"event":
            if self._is_new(headers):
                self._event(value)
        elif kind == b"rejected":
            if self._is_new(headers):
                self._reject(value, _cause(headers))
        elif kind == b"tick":
            self._tick(value)
        elif kind == b"command":
            entry = self.control.fold(value, self.marks)
            if entry is not None:
                self.say("control", entry, None)
        struck = kind == b"tick" and self.log_time // HOUR > hour
        if struck or position % self.digest_every == 0:
            self.say("digest", {"kind": "digest", "position": position}, None)
        return self._entries()

    def _is_new(self, headers: Headers) -> bool:
        for name, content in headers:
            if name == "fn-src":
                match = _PLACE.fullmatch(content or b"")
                if match is None:
                    return False
                place = (match[1].decode(), int(match[2]))
                at = (int(match[3]), int(match[4]))
                known = self.marks.get(place, (-1, -1))
                before = (int(match[5]), int(match[6])) if match[5] else (-1, -1)
                if at <= known:
                    self.repeats += 1
                    return False
                if before > known:
                    return False
                self.marks[place] = at
                return True
        return True

    def _event(self, value: bytes) -> None:
        try:
            event = read_event(value)
        except Refused as refusal:
            self._reject(value, str(refusal))
            return
        at = int(event["at"]) if event["at"] else None
        if not self.ticks and at is not None and at > self.log_time:
            self._advance(at)
        key = event["job"]
        source = "/".join(key.split("/")[:3])
        if at is not None:
            counted = min(at, self.log_time + AHEAD) if self.ticks else at
            self.source_times[source] = max(counted, self.source_times.get(source, counted))
        code = ""
        if key in self.open_jobs:
            code = self.life.next(self.open_jobs[key], event)
        elif key in self.finished:
            job = self.finished[key]
            self._fresh.append(job)
            self.life.late(job, event)
        elif source in self.horizons and (at is None or at <= self.horizons[source]):
            entry = {"horizon": str(self.horizons[source]), "job": key, "kind": "beyond-memory"}
            self.say("beyond-memory", {**entry, **self._what(value)}, None)
        else:
            code = self.life.first(event)
        if code:
            self._reject(value, code, key)

    def _tick(self, value: bytes) -> None:
        try:
            at = shaped(document_of(value), {"at": is_text}, None)["at"]
        except BadJson:
            return
        if self.ticks and is_long(at) and int(at) > self.log_time:
            self._advance(int(at))

    def _advance(self, log_time: int) -> None:
        self.log_time = log_time
        waiting, self._waiting = self._waiting, set()
        for key in waiting:
            if self.cascades.get(key, 0) < 0:
                self.cascades[key] = self._arm(key, "cascade", self.cascades[key])
            if key in self.open_jobs:
                timers = self.open_jobs[key].timers
                for what, value in timers.items():
                    if value < 0:
                        timers[what] = self._arm(key, what, value)
        while self._heap and self._heap[0][0] <= log_time:
            due, key, kind = heapq.heappop(self._heap)
            what = TIMERS[kind]
            if what == "cascade":
                if self.cascades.get(key) == due:
                    self.life.cascade(key)
            elif key in self.open_jobs and self.open_jobs[key].timers[what] == due:
                self.life.due(self.open_jobs[key], what)

    def _arm(self, key: str, what: str, value: int) -> int:
        heapq.heappush(self._heap, (self.log_time - value, key, TIMERS.index(what)))
        return self.log_time - value

    def _reject(self, value: bytes, code: str, job: str = "") -> None:
        entry = {"code": code, "kind": "rejected", **self._what(value)}
        self.say("rejected", {**entry, "job": job} if job else entry, None)

    def _what(self, value: bytes) -> dict[str, Any]:
        return {"length": len(value), "position": self.position, "sha256": sha256(value).hexdigest()}

    # -- entries ------------------------------------------------------------------------------

    def _entries(self) -> list[bytes]:
        said = sorted(self._said, key=lambda row: row[0])
        self._said = []
        made: list[bytes] = []
        for place, (rank, entry, job) in enumerate(said):
            if KINDS[rank] == "outcome" and job is not None:
                job.final = self.index + place + 1
            elif KINDS[rank] == "amendment" and job is not None:
                entry = {**entry, "amends": job.final}
            elif KINDS[rank] == "digest":
                self._pack()
                self._forget()
                digest, count = digest_of(self.items())
                entry = {**entry, "digest": digest, "items": count}
            made.append(canonical(entry))
        self._pack()
        self.index += len(made)
        return made

    def _pack(self) -> None:
        for job in self._fresh:
            job.pack()
        self._fresh = []

    def _forget(self) -> None:
        for key, job in list(self.finished.items()):
            source = "/".join(key.split("/")[:3])
            latest = job.latest
            old = latest is not None and latest + self.memory < self.source_times.get(source, UNKNOWN_TIME)
            if not old and len(self.finished) <= self.max_finished:
                break
            del self.finished[key]
            if latest is not None:
                self.horizons[source] = max(latest, self.horizons.get(source, latest))

    # -- state --------------------------------------------------------------------------------

    def items(self) -> list[bytes]:
        """Every item of the state."""
        found = [b"h\0" + canonical([self.position, str(self.log_time), *self.control.header(), self._open_cascades()])]
        found += self.control.items()
        found += [_item(f"m/{topic}/{partition}", [str(at[0]), at[1]]) for (topic, partition), at in self.marks.items()]
        for source in {*self.source_times, *self.horizons}:
            times = [self.source_times.get(source), self.horizons.get(source)]
            found.append(_item("s/" + source, ["" if time is None else str(time) for time in times]))
        found += [_item(key, [failures, str(until)]) for key, (failures, until) in self.breakers.items()]
        found += [job.item() for job in self.finished.values()]
        found += [job.item() for job in self.open_jobs.values()]
        return found

    def _open_cascades(self) -> list[list[str]]:
        return [[root, str(timer)] for root, timer in sorted(self.cascades.items())]


def _item(key: str, value: list[Any]) -> bytes:
    return key.encode() + b"\0" + canonical(value)


def _cause(headers: Headers) -> str:
    for name, content in headers:
        if name == "fn-cause" and content and _CODE.fullmatch(content[:64]):
            return content[:64].decode()
    return "UNKNOWN_CAUSE"
