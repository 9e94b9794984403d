"""One job's evidence: a join of everything that events said of it.

Merging is commutative, associative and idempotent: any order and any duplication of the same events gives the same
evidence. That is what makes late records harmless. The phase is that of the greatest *order key*; earlier evidence is
merged, never dropped, and never moves the phase.

Order key of an event: (1, revision epoch, revision) where the source numbers its states; else (0, attempt, occurred
time and phase rank); (-1, …) for a word that nobody knows, so that it never outranks a known phase.

Same order key and same content is a duplicate. Same key and other content is a conflict, whichever came last: up to
`MAX_RIVALS` contents are kept (the greatest of each phase before others), the greatest of all stands for the phase.

Bounds (each leaves a mark): attempts 256, metrics 64, stage conditions 64, parts 4,096, rivals 8.

Leaves out: contracts and time. `fold.py` decides.
"""

from __future__ import annotations

from bisect import insort
from sys import intern
from typing import Any

import msgspec

from finality.core.contract import Contract
from finality.core.event import ENDED, Event, phase_rank

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_RIVALS",
    "NO_TIME",
    "Content",
    "Extra",
    "Job",
    "Metric",
    "OrderKey",
    "order_key",
]

NO_TIME = -(2**63)
MAX_ATTEMPTS = 256
MAX_RIVALS = 8
MAX_METRICS = 64
MAX_CONDITIONS = 64
MAX_PARTS = 4096

OrderKey = tuple[int, int, int]
Content = tuple[int, str, str, str]  # phase rank, phase, reason, word
Metric = tuple[OrderKey, str, bool]  # order key, value, contradictory at that key

NOTHING: OrderKey = (-2, 0, 0)

# Flags of a job.
EXPIRED = 1  # its deadline passed while it was open
CASCADED = 2  # its root ended while it was open
PASSED_GAP = 4  # held events were let go over a missing revision
LEASE_LOST = 8  # a holder's job lease ran out
DELETED = 16  # removed at its source
MANY = 32  # a bound was met


class Extra:
    """What most jobs do not have."""

    __slots__ = (
        "breaker",
        "budgets",
        "command",
        "command_timer",
        "conditions",
        "held",
        "hold",
        "holder",
        "labels",
        "lease",
        "metrics",
        "name",
        "numbered",
        "parent",
        "parts",
        "revisions",
        "root",
    )

    def __init__(self) -> None:
        self.numbered: dict[int, int] = {}  # attempt -> earliest start, NO_TIME unknown
        self.metrics: dict[str, Metric] = {}
        self.conditions: list[str] = []  # sorted; every condition that ever held
        self.parts: list[str] = []  # sorted
        self.labels: dict[str, str] = {}
        self.name = ""
        self.parent = ""
        self.root = ""
        self.held: list[tuple[int, str]] = []  # (revision, canonical event), sorted
        self.hold = 0  # timer
        self.revisions: tuple[int, int] = (0, -1)  # (epoch, greatest applied revision)
        self.holder = ""
        self.lease = 0  # timer
        self.budgets: dict[str, int] = {}  # action -> commands given
        self.command = ""  # id of the command that is waited for; "-" = waiting before the next one
        self.command_timer = 0
        self.breaker = ""  # action whose breaker held a command back


class Job(msgspec.Struct, eq=False, gc=False):
    """An open or finished job. Times in ns, NO_TIME = unknown. final: index of its outcome entry, 0 = open.

    A struct that the cycle collector leaves alone: there may be millions, and nothing in one leads back to it.
    """

    key: str
    contract: Contract  # the version that the job is pinned to
    order: OrderKey = NOTHING
    phase: str = ""
    reason: str = ""
    word: str = ""
    rivals: tuple[Content, ...] = ()  # all contents at `order` when there is more than one, sorted
    starts: tuple[int, ...] = ()  # starts of unnumbered attempts, sorted
    end: int = NO_TIME
    created: int = NO_TIME
    latest: int = NO_TIME  # greatest occurred time seen
    deadline: int = 0
    settle: int = 0
    signature: str = ""
    flags: int = 0
    final: int = 0
    extra: Extra | None = None

    def merge(self, event: Event, at: int, phase_counts: bool = True) -> bool:
        """Join an event into the evidence; `at`: its occurred time as a number. True when the greatest order key moved.

        phase_counts: False keeps what was done and ignores what is claimed of the phase (a fenced holder).
        """
        created = int(event.created) if event.created else at
        if created != NO_TIME and (self.created == NO_TIME or created < self.created):
            self.created = created
        self.latest = max(self.latest, at)
        if event.start or event.attempt:
            self._merge_attempt(event.attempt, int(event.start) if event.start else NO_TIME)
        key = order_key(event, at)
        if event.metrics or event.conditions or event.parts:
            self._merge_rare(event, key)
        phase = event.phase
        if event.deleted:
            self.flags |= DELETED
            phase = phase or "CANCELLED"
        if not (phase and phase_counts):
            return False
        reason = event.reason or ("DELETED" if event.deleted and not event.phase else "")
        return self._merge_phase(key, (phase_rank(phase), phase, reason, event.word), event.end, at)

    def _merge_phase(self, key: OrderKey, content: Content, end_text: str, at: int) -> bool:
        if key < self.order:
            return False
        phase = content[1]
        end = (int(end_text) if end_text else at) if phase in ENDED else NO_TIME
        if key > self.order:
            self.order = key
            self.rivals = ()
            self.end = end
            self._show(content)
            return True
        if end != NO_TIME and (self.end == NO_TIME or end < self.end):
            self.end = end
        known = self.rivals or (self._content(),)
        if content in known:
            return False
        rivals = tuple(_loudest({*known, content}))
        if rivals == self.rivals:
            return False
        self.rivals = rivals
        self._show(rivals[-1])
        return True

    def _content(self) -> Content:
        return (phase_rank(self.phase), self.phase, self.reason, self.word)

    def _show(self, content: Content) -> None:
        self.phase = intern(content[1])
        self.reason = intern(content[2])
        self.word = intern(content[3]) if len(content[3]) < 64 else content[3]

    def _merge_attempt(self, attempt: int, start: int) -> None:
        if not attempt:
            if start in self.starts:
                return
            if not self.starts:
                self.starts = (start,)
                return
            starts = list(self.starts)
            insort(starts, start)
            if len(starts) > MAX_ATTEMPTS:
                self.flags |= MANY
                del starts[0]
            self.starts = tuple(starts)
            return
        numbered = self.more().numbered
        known = numbered.get(attempt, NO_TIME)
        if known == NO_TIME or (start != NO_TIME and start < known):
            numbered[attempt] = start
        if len(numbered) > MAX_ATTEMPTS:
            self.flags |= MANY
            del numbered[min(numbered)]

    def _merge_rare(self, event: Event, key: OrderKey) -> None:
        extra = self.more()
        for name, value in event.metrics.items():
            known = extra.metrics.get(name)
            if known is None or key > known[0]:
                extra.metrics[name] = (key, value, False)
            elif key == known[0] and value != known[1]:
                extra.metrics[name] = (key, max(value, known[1]), True)
        if len(extra.metrics) > MAX_METRICS:
            self.flags |= MANY
            extra.metrics = {name: extra.metrics[name] for name in sorted(extra.metrics)[:MAX_METRICS]}
        for name, holds in event.conditions.items():
            if holds and name not in extra.conditions:
                insort(extra.conditions, name)
        if len(extra.conditions) > MAX_CONDITIONS:
            self.flags |= MANY
            del extra.conditions[MAX_CONDITIONS:]
        if event.parts:
            extra.parts = sorted({*extra.parts, *event.parts})
            if len(extra.parts) > MAX_PARTS:
                self.flags |= MANY
                del extra.parts[MAX_PARTS:]

    def more(self) -> Extra:
        """The rare fields, made when first needed."""
        if self.extra is None:
            self.extra = Extra()
        return self.extra

    @property
    def attempts(self) -> int:
        """Attempts seen: the greatest number, or how many distinct starts."""
        if self.extra is None:
            return len(self.starts)
        return max([len(self.starts), *self.extra.numbered])

    @property
    def start(self) -> int:
        """Start of the last attempt, NO_TIME when unknown."""
        if self.extra and self.extra.numbered:
            return self.extra.numbered[max(self.extra.numbered)]
        return self.starts[-1] if self.starts else NO_TIME

    @property
    def conflict(self) -> bool:
        """Two different endings at the greatest order key."""
        return len({content[1] for content in self.rivals if content[1] in ENDED}) > 1


def _loudest(contents: set[Content]) -> list[Content]:
    """At most `MAX_RIVALS` contents, in order. The greatest of each phase comes first, so that many words of one ending
    cannot push another ending out of sight."""
    kept = sorted(contents)
    if len(kept) > MAX_RIVALS:
        first = set({content[1]: content for content in kept}.values())
        kept = sorted(sorted(contents, key=lambda content: (content in first, content))[-MAX_RIVALS:])
    return kept


def order_key(event: Event, at: int) -> OrderKey:
    """The order key of an event; see the module's head."""
    if event.phase == "UNKNOWN":
        return (-1, event.attempt, at)
    if event.revision:
        return (1, int(event.revision_epoch or 0), int(event.revision))
    return (0, event.attempt, at * 16 + phase_rank(event.phase))


def text(time: int) -> str:
    """A time as hashed documents carry it: decimal ns, "" = unknown."""
    return "" if time == NO_TIME else str(time)


def _number(value: str) -> int:
    return int(value) if value else NO_TIME


def export_job(job: Job) -> list[Any]:
    """The job as one state item, without its key: a list in a fixed order, times and 64-bit numbers as text."""
    return [
        job.final,
        job.contract.name,
        job.contract.version,
        [job.order[0], job.order[1], str(job.order[2])],
        job.phase,
        job.reason,
        job.word,
        [list(content) for content in job.rivals],
        [str(start) for start in job.starts],
        text(job.end),
        text(job.created),
        text(job.latest),
        str(job.deadline),
        str(job.settle),
        job.signature,
        job.flags,
        export_extra(job.extra) if job.extra else None,
    ]


def export_extra(extra: Extra) -> list[Any]:
    """The rare part of a state item."""
    return [
        [[attempt, text(start)] for attempt, start in sorted(extra.numbered.items())],
        [
            [name, [key[0], key[1], str(key[2])], value, int(bad)]
            for name, (key, value, bad) in sorted(extra.metrics.items())
        ],
        extra.conditions,
        extra.parts,
        [[name, value] for name, value in sorted(extra.labels.items())],
        extra.name,
        extra.parent,
        extra.root,
        [[str(revision), event] for revision, event in extra.held],
        str(extra.hold),
        [extra.revisions[0], str(extra.revisions[1])],
        extra.holder,
        str(extra.lease),
        [[action, given] for action, given in sorted(extra.budgets.items())],
        extra.command,
        str(extra.command_timer),
        extra.breaker,
    ]


def import_job(key: str, row: list[Any], contract: Contract) -> Job:
    """The job in a state item; `contract`: the one that row[1] and row[2] name."""
    job = Job(key, contract)
    job.final = row[0]
    job.order = (row[3][0], row[3][1], int(row[3][2]))
    job.phase = intern(row[4])
    job.reason = intern(row[5])
    job.word = row[6]
    job.rivals = tuple([(item[0], item[1], item[2], item[3]) for item in row[7]])
    job.starts = tuple([int(start) for start in row[8]])
    job.end = _number(row[9])
    job.created = _number(row[10])
    job.latest = _number(row[11])
    job.deadline = int(row[12])
    job.settle = int(row[13])
    job.signature = intern(row[14])
    job.flags = row[15]
    if row[16] is not None:
        job.extra = _import_extra(row[16])
    return job


def _import_extra(row: list[Any]) -> Extra:
    extra = Extra()
    extra.numbered = {attempt: _number(start) for attempt, start in row[0]}
    extra.metrics = {name: ((key[0], key[1], int(key[2])), value, bool(bad)) for name, key, value, bad in row[1]}
    extra.conditions = row[2]
    extra.parts = row[3]
    extra.labels = dict(row[4])
    extra.name, extra.parent, extra.root = row[5:8]
    extra.held = [(int(revision), event) for revision, event in row[8]]
    extra.hold = int(row[9])
    extra.revisions = (row[10][0], int(row[10][1]))
    extra.holder = row[11]
    extra.lease = int(row[12])
    extra.budgets = dict(row[13])
    extra.command = row[14]
    extra.command_timer = int(row[15])
    extra.breaker = row[16]
    return extra
