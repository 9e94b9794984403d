"""The canonical event: what any source says about one job, in one shape.

Sources translate foreign records to these; the fold reads nothing else about jobs. All fields but `job` may be missing:
an event states what it knows and invents nothing. Fields are declared in the order of their names, so the encoder's
bytes are canonical.

Times are nanoseconds since the Unix epoch, UTC, as decimal text ("" = unknown), because JSON numbers end at 2^53.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from finality.core.errors import Rejected
from finality.core.jobkey import is_job_key

__all__ = [
    "ENDED",
    "MAX_EVENT_BYTES",
    "MAX_TIME",
    "OPEN",
    "PHASES",
    "Answer",
    "Event",
    "Lease",
    "Phase",
    "Precision",
    "check_event",
    "decode_event",
    "encode_event",
    "is_time",
    "phase_rank",
]

MAX_TIME = 2**63 - 1
MAX_EVENT_BYTES = 65_536
MAX_ATTEMPT = 1_000_000
MAX_WORD = 256
MAX_REASON = 64
MAX_METRIC = 40  # characters of a metric's value
_REASON = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Phase(StrEnum):
    """Where a job stands. The first six are open, the others ended."""

    UNKNOWN = "UNKNOWN"  # a word of the source that nobody knows; never an ending
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RETRYING = "RETRYING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    INCONCLUSIVE = "INCONCLUSIVE"  # ended, and the source itself does not say how
    CONTINUED = "CONTINUED"  # ended, and another run carries on


PHASES = tuple(phase.value for phase in Phase)
OPEN = frozenset(PHASES[:6])
ENDED = frozenset(PHASES[6:])

# Among events of one attempt and one time the later step of a life wins; all endings share a rank, so that two
# different endings at one time are a conflict and not a race.
_RANKS = {
    "": 0,
    "UNKNOWN": 1,
    "PENDING": 2,
    "RUNNING": 3,
    "PAUSED": 4,
    "RETRYING": 5,
    "CANCELLING": 6,
    **dict.fromkeys(ENDED, 9),
}


def phase_rank(phase: str) -> int:
    """Rank of a phase at one attempt and time (KeyError for a word that is no phase)."""
    return _RANKS[phase]


class Precision(StrEnum):
    """How exact the occurred time is."""

    NONE = "none"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An executor's answer to a command: `command` is the idempotency key."""

    command: str
    ok: bool


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a job lease: op is grant, keep or release."""

    holder: str
    op: str


class Event(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One observation of one job.

    job: job key. at: occurred time; precision: how exact it is. phase: see `Phase`, "" = says nothing of it.
    attempt: number of the attempt from 1, 0 = the source numbers none (then told apart by `start`).
    revision: decimal number by which the source orders its own states of this job, "" = none; revision_epoch: raised by
    a source that starts to count again. created, start, end: explicit times of the job's creation and of this attempt.
    reason: a code in capitals; word: the source's own word for the state. metrics: decimal texts.
    conditions: stage conditions and whether they hold. snapshot: the event is a full state from a poll.
    name, labels: for selectors. parent, root: job keys. deleted: the job was removed at its source.
    parts: ids of sub-results that are done. holder: who did this work, where job leases are used.
    """

    answers: Answer | None = None
    at: str = ""
    attempt: int = 0
    conditions: dict[str, bool] = {}
    created: str = ""
    deleted: bool = False
    end: str = ""
    holder: str = ""
    job: str = ""
    labels: dict[str, str] = {}
    lease: Lease | None = None
    max_attempts: int = 0
    metrics: dict[str, str] = {}
    name: str = ""
    parent: str = ""
    parts: list[str] = []
    phase: str = ""
    precision: str = ""
    reason: str = ""
    revision: str = ""
    revision_epoch: str = ""
    root: str = ""
    snapshot: bool = False
    start: str = ""
    word: str = ""


_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder(order="sorted")


def decode_event(value: bytes) -> Event:
    """Event from its JSON bytes. Raises msgspec.DecodeError or ValidationError."""
    return _decoder.decode(value)


def encode_event(event: Event) -> bytes:
    """Canonical bytes of an event."""
    return _encoder.encode(event)


def check_event(event: Event, key_is_known: bool = False) -> None:
    """Raise `Rejected` (BAD_EVENT and what) for an event whose fields are not what they must be.

    key_is_known: the job's key was checked before. Most events need only the first half of these lines.
    """
    if not key_is_known and not is_job_key(event.job):
        raise Rejected("BAD_EVENT", "job is no job key")
    if event.phase and event.phase not in _RANKS:
        raise Rejected("BAD_EVENT", "phase is none of the known ones")
    at = event.at
    if at and not is_time(at):
        raise Rejected("BAD_EVENT", "a time is not decimal nanoseconds")
    for value in (event.start, event.end, event.created):
        if value and value != at and not is_time(value):
            raise Rejected("BAD_EVENT", "a time is not decimal nanoseconds")
    if not 0 <= event.attempt <= MAX_ATTEMPT or not 0 <= event.max_attempts <= MAX_ATTEMPT:
        raise Rejected("BAD_EVENT", f"attempt is not within 0 and {MAX_ATTEMPT}")
    if event.revision and not is_time(event.revision):
        raise Rejected("BAD_EVENT", "revision is not a decimal number")
    if event.revision_epoch and not (is_time(event.revision_epoch) and len(event.revision_epoch) <= 15):
        raise Rejected("BAD_EVENT", "revision_epoch is not a decimal number below 10^15")
    if event.reason and (len(event.reason) > MAX_REASON or not _REASON.issuperset(event.reason)):
        raise Rejected("BAD_EVENT", "reason is no code of capitals, digits and underscores")
    if len(event.word) > MAX_WORD:
        raise Rejected("BAD_EVENT", f"word is longer than {MAX_WORD} characters")
    if event.metrics and not all(map(_is_decimal, event.metrics.values())):
        raise Rejected("BAD_EVENT", "a metric is not a plain decimal number")
    for key in (event.parent, event.root):
        if key and not is_job_key(key):
            raise Rejected("BAD_EVENT", "parent or root is no job key")
    if event.lease is not None and event.lease.op not in ("grant", "keep", "release"):
        raise Rejected("BAD_EVENT", "lease.op is none of grant, keep, release")


def is_time(value: str) -> bool:
    """True for a whole number within ±(2^63-1) in its one decimal form."""
    if value.isdigit() and value.isascii() and len(value) < 19:
        return value[0] != "0" or value == "0"
    digits = value[1:] if value[:1] == "-" else value
    if not (digits.isdigit() and digits.isascii() and len(digits) <= 19):
        return False
    return -MAX_TIME <= int(value) <= MAX_TIME and str(int(value)) == value


def _is_decimal(value: str) -> bool:
    digits = value[1:] if value[:1] == "-" else value
    whole, _, fraction = digits.partition(".")
    plain = whole.isdigit() and whole.isascii() and ((fraction.isdigit() and fraction.isascii()) or "." not in digits)
    return plain and len(value) <= MAX_METRIC
