"""The fold: accepted input records in, entries out. A pure function of the prefix it has read.

`Fold.step` takes one accepted record and returns what it has to say about it. Nothing else has an influence: no clock,
no settings, no batch boundary. Parameters come from genesis, contracts and voters from commands, time from ticks (or,
in events mode, from the events themselves).

A job is *open* until its outcome is final. Ended evidence starts the settle rule; when that is over, the outcome is an
entry, and the job becomes a *tombstone* that still takes late evidence: what contradicts the outcome is an amendment.

The state is a set of keyed items (`state.py`); everything in this file beside them (heaps, indices) is derived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from finality.core.commands import Control
from finality.core.entries import (
    RANKS,
    BeyondMemoryEntry,
    CommandEntry,
    ControlEntry,
    DeltaEntry,
    DigestEntry,
    Entry,
    OutcomeEntry,
    RejectedEntry,
    encode_entry,
)
from finality.core.errors import Rejected
from finality.core.event import MAX_EVENT_BYTES, Event, check_event, decode_event, is_time
from finality.core.genesis import Genesis
from finality.core.job import NO_TIME, Job
from finality.core.reconcile import Reconciler
from finality.core.records import CAUSE, COMMAND, EVENT, REJECTED, SOURCE, TICK, Headers, decode_place
from finality.core.state import State

__all__ = ["Fold", "Made"]

_HOUR = 3_600_000_000_000
_LEAP = 300_000_000_000  # a source's time mark runs at most this far ahead of ticks


class Made(msgspec.Struct, gc=False):
    """One entry: its index in the partition's chain, its ordinal among the record's entries, its canonical bytes."""

    index: int
    ordinal: int
    kind: str
    entry: bytes


class _Tick(msgspec.Struct, forbid_unknown_fields=True):
    at: str


_tick_decoder = msgspec.json.Decoder(_Tick)


class Fold:
    """The fold of one input partition.

    counts: what was ignored, by reason; for metrics only, never hashed.
    """

    def __init__(self, genesis: Genesis, state: State | None = None) -> None:
        self.state = state if state is not None else State(genesis)
        self.counts: Counter[str] = Counter()
        self._out: list[tuple[int, Entry, Job | None]] = []
        self.control = Control(self.state, self._emit)
        self.reconciler = Reconciler(self.state, self._emit, self.counts)
        self._events_mode = genesis.parameters.log_time == "events"
        self._digest_every = genesis.parameters.digest_every

    def step(self, position: int, kind: bytes, key: bytes | None, value: bytes | None, headers: Headers) -> list[Made]:
        """Fold the accepted record at `position` (genesis, position 1, is folded by the constructor)."""
        state = self.state
        state.position = position
        new_hour = False
        if kind == EVENT:
            if self._is_new(headers):
                self._fold_event(position, value or b"")
        elif kind == TICK:
            new_hour = self._fold_tick(value or b"")
        elif kind == COMMAND:
            self.control.fold(value or b"")
        elif kind == REJECTED:
            if self._is_new(headers):
                self._reject(position, value or b"", _cause(headers))
        else:
            self.counts["unknown_kind"] += 1
        if new_hour or position % self._digest_every == 0:
            self._digest(position)
        return self._collect() if self._out else []

    def _is_new(self, headers: Headers) -> bool:
        """False for a repeat of a source record, and for one behind a gap in what its writer sent here."""
        for name, content in headers:
            if name == SOURCE:
                try:
                    place, at, before = decode_place(content or b"")
                except Rejected:
                    self.counts["bad_coordinates"] += 1
                    return False
                break
        else:
            return True
        known = self.state.marks.get(place)
        if known is not None and at <= known:
            self.counts["source_repeat"] += 1
            return False
        if before is not None and (known is None or before > known):
            self.counts["source_gap"] += 1
            return False
        self.state.set_mark(place, at)
        return True

    def _fold_event(self, position: int, value: bytes) -> None:
        try:
            if len(value) > MAX_EVENT_BYTES:
                raise Rejected("EVENT_TOO_LARGE")
            event = decode_event(value)
            check_event(event, key_is_known=event.job in self.state.jobs)
        except Rejected as refusal:
            self._reject(position, value, refusal.code)
            return
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._reject(position, value, "BAD_EVENT")
            return
        at = int(event.at) if event.at else NO_TIME
        if self._events_mode and at > self.state.log_time:
            self._advance(at)
        code = self._to_job(position, event, at, value)
        if code:
            self._reject(position, value, code, event.job)

    def _to_job(self, position: int, event: Event, at: int, value: bytes) -> str:
        state = self.state
        source = event.job.rsplit("/", 2)[0]
        mark = state.source_times.get(source, NO_TIME)
        if at > mark:
            cap = at if self._events_mode else min(at, state.log_time + _LEAP)
            if cap > mark:
                state.set_source_time(source, cap)
        job = state.jobs.get(event.job)
        if job is not None:
            return self.reconciler.observe(job, event, at)
        if event.job in state.tombstones or state.finishing(event.job) is not None:
            return self.reconciler.observe_late(event, at)
        horizon = state.horizons.get(source, NO_TIME)
        if horizon != NO_TIME and at <= horizon:
            entry = BeyondMemoryEntry(str(horizon), event.job, len(value), position, sha256(value).hexdigest())
            self._emit(entry, None)
            return ""
        return self.reconciler.open(event, at)

    def _fold_tick(self, value: bytes) -> bool:
        """True when the tick opens a new hour of log time."""
        try:
            text = _tick_decoder.decode(value).at
        except msgspec.DecodeError:
            text = ""
        if not is_time(text):
            self.counts["bad_tick"] += 1
            return False
        at = int(text)
        state = self.state
        if self._events_mode or at <= state.log_time:
            return False
        new_hour = at // _HOUR > state.log_time // _HOUR
        self._advance(at)
        return new_hour

    def _advance(self, log_time: int) -> None:
        """Log time moved: start what waited for it, then fire what is due."""
        state = self.state
        state.log_time = log_time
        timers = state.timers
        if timers.waiting:
            self.reconciler.arm()
        while (row := timers.pop_due(log_time)) is not None:
            self.reconciler.fire(*row)

    def _reject(self, position: int, value: bytes, code: str, job: str = "") -> None:
        self._emit(RejectedEntry(code, len(value), position, sha256(value).hexdigest(), job), None)

    def _digest(self, position: int) -> None:
        """Announce a digest; it is computed in `_collect`, when the record's other entries have their indices."""
        self._emit(DigestEntry("", 0, position), None)

    def _emit(self, entry: Entry, job: Job | None) -> None:
        """Collect an entry; `job`: the one that an outcome or amendment is about."""
        rank = RANKS[entry.kind] if type(entry) is OutcomeEntry else _RANK_OF[type(entry)]
        self._out.append((rank, entry, job))

    def _collect(self) -> list[Made]:
        out = self._out
        self._out = []
        if len(out) > 1:
            out.sort(key=_rank)
        made: list[Made] = []
        index = self.state.index
        for ordinal, (rank, entry, job) in enumerate(out):
            index += 1
            if rank == 4 and job is not None:
                job.final = index
            elif rank == 5 and job is not None:
                assert isinstance(entry, OutcomeEntry)
                entry.amends = job.final
            elif rank == 6:
                assert isinstance(entry, DigestEntry)
                self.state.bury()
                self.state.forget()
                entry.digest, entry.items = self.state.digest()
            made.append(Made(index, ordinal, _KINDS[rank], encode_entry(entry)))
        self.state.index = index
        self.state.bury()
        return made


_KINDS = tuple(RANKS)
_RANK_OF: dict[type, int] = {
    RejectedEntry: RANKS["rejected"],
    ControlEntry: RANKS["control"],
    DeltaEntry: RANKS["delta"],
    CommandEntry: RANKS["command"],
    DigestEntry: RANKS["digest"],
    BeyondMemoryEntry: RANKS["beyond-memory"],
}


def _rank(row: tuple[int, Entry, Job | None]) -> int:
    return row[0]


def _cause(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """The code in a rejected record's cause header, cleaned: capitals, digits and underscores, 64 at most."""
    for name, content in headers:
        if name == CAUSE and content:
            code = content[:64].decode("ascii", "replace")
            if code.replace("_", "A").isalnum() and code.isascii() and code.upper() == code:
                return code
    return "UNKNOWN_CAUSE"
