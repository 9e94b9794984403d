"""Entries: what the fold has to say, one canonical JSON document each.

Entries of one input record stand in the order of `RANKS`, and by due time and job within a rank, so that every replica
numbers them alike. They carry codes, never a library's text. Fields are declared in the order of their names.
"""

from __future__ import annotations

import msgspec

from finality.core.canonical import encode

__all__ = [
    "RANKS",
    "BeyondMemoryEntry",
    "CommandEntry",
    "ControlEntry",
    "DeltaEntry",
    "DigestEntry",
    "Entry",
    "OutcomeEntry",
    "RejectedEntry",
    "encode_entry",
]


class RejectedEntry(msgspec.Struct, omit_defaults=True, tag="rejected", tag_field="kind"):
    """A record that could not be folded. sha256, length: of its value, which stays in the input log at `position`."""

    code: str
    length: int
    position: int
    sha256: str
    job: str = ""


class ControlEntry(msgspec.Struct, omit_defaults=True, tag="control", tag_field="kind"):
    """A command that was folded. error: a code when it changed nothing. name, version: of a contract. sources: source
    marks at an epoch change, so that the new site's ingest knows where to go on."""

    epoch: int
    number: int
    op: str
    error: str = ""
    fold: int = 0
    generation: int = 0
    job: str = ""
    name: str = ""
    site: str = ""
    sites: tuple[dict[str, object], ...] = ()
    sources: tuple[tuple[str, int, int, int], ...] = ()
    tenant: str = ""
    version: str = ""


class DeltaEntry(msgspec.Struct, omit_defaults=True, tag="delta", tag_field="kind", gc=False):
    """What a job still lacks. cls: pending (not due yet) or due. delta: item to UNMET, UNKNOWN or ERROR."""

    actual: dict[str, str]
    cls: str = msgspec.field(name="class")
    contract: tuple[str, str]
    delta: dict[str, str]
    expected: dict[str, str]
    job: str
    marks: tuple[str, ...] = ()
    phase: str = ""
    stages: tuple[str, ...] = ()
    time: str = ""


class CommandEntry(msgspec.Struct, omit_defaults=True, tag="command", tag_field="kind"):
    """An order to an executor. id: idempotency key. attempt: which of the budget. expires: log time, ns."""

    action: str
    attempt: int
    budget: int
    contract: tuple[str, str]
    epoch: int
    expires_after: str
    id: str
    job: str
    time: str


class OutcomeEntry(msgspec.Struct, omit_defaults=True, gc=False):
    """How a job ended (kind outcome), or how that must be corrected (kind amendment, `amends` names the entry).

    class of an amendment: outcome (the outcome or its reasons changed) or evidence (only times or counts became known).
    """

    actual: dict[str, str]
    attempts: int
    contract: tuple[str, str]
    delta: dict[str, str]
    expected: dict[str, str]
    job: str
    kind: str
    outcome: str
    phase: str
    amends: int = 0
    cls: str = msgspec.field(name="class", default="")
    created: str = ""
    end: str = ""
    marks: tuple[str, ...] = ()
    parts: int = 0
    reason: str = ""
    stages: tuple[str, ...] = ()
    start: str = ""
    time: str = ""
    word: str = ""


class DigestEntry(msgspec.Struct, tag="digest", tag_field="kind"):
    """Digest over every item of the fold's state after `position`. items: how many."""

    digest: str
    items: int
    position: int


class BeyondMemoryEntry(msgspec.Struct, omit_defaults=True, tag="beyond-memory", tag_field="kind"):
    """An event of a job that is not known and may have been finished and forgotten: never a new job."""

    horizon: str
    job: str
    length: int
    position: int
    sha256: str


Entry = RejectedEntry | ControlEntry | DeltaEntry | CommandEntry | OutcomeEntry | DigestEntry | BeyondMemoryEntry

RANKS = {
    "rejected": 0,
    "control": 1,
    "delta": 2,
    "command": 3,
    "outcome": 4,
    "amendment": 5,
    "digest": 6,
    "beyond-memory": 7,
}


def encode_entry(entry: Entry) -> bytes:
    """Canonical bytes of an entry."""
    return encode(entry)
