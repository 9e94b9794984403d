"""Stored text of leases, proposals and rows. The scripts write it, this module reads it; people can, too.

Whatever else lies under a key counts as nothing: Redis may hold anything, and no content of it is an error.
"""

from __future__ import annotations

import msgspec

from finality.core.ballots import Conflict, Lease, Proposal, Row, Vote

__all__ = ["proposal_args", "read_lease", "read_proposal", "read_row", "vote_args"]


class _Vote(msgspec.Struct, array_like=True):
    index: int
    chain: str
    position: int
    input_chain: str
    signature: str
    boot: str


class _Proposal(msgspec.Struct, array_like=True):
    term: int
    index: int
    chain: str
    position: int
    input_chain: str


class _Row(msgspec.Struct):
    boot: str
    clock: int
    conflict: list[_Vote]
    votes: list[_Vote]


# Integers are stored as text, since the scripts' numbers are doubles.
_rows = msgspec.json.Decoder(_Row, strict=False)
_proposals = msgspec.json.Decoder(_Proposal, strict=False)


def vote_args(vote: Vote) -> tuple[str, ...]:
    """A vote as arguments of the attest script; it stores the row's boot id with each."""
    return (str(vote.index), vote.chain.hex(), str(vote.position), vote.input_chain.hex(), vote.signature.hex())


def proposal_args(proposal: Proposal) -> tuple[str, ...]:
    """A proposal as arguments of the propose script."""
    return (
        str(proposal.term),
        str(proposal.index),
        proposal.chain.hex(),
        str(proposal.position),
        proposal.input_chain.hex(),
    )


def read_lease(text: bytes | None, remaining_ms: int) -> Lease | None:
    """The lease in `owner boot`; None when there is none or it is over. remaining_ms: as PTTL answers."""
    if text is None or remaining_ms < 0:
        return None
    try:
        owner, boot = text.decode("ascii").split(" ")
    except ValueError:
        return None
    return Lease(owner, boot, remaining_ms)


def read_proposal(text: bytes | None) -> Proposal | None:
    """The proposal in stored text, None when it is none."""
    if text is None:
        return None
    try:
        raw = _proposals.decode(text)
        return Proposal(raw.term, raw.index, bytes.fromhex(raw.chain), raw.position, bytes.fromhex(raw.input_chain))
    except ValueError:  # msgspec's errors are ValueErrors, and so is bad hex
        return None


def read_row(text: bytes | None, replica: str) -> Row | None:
    """The row in stored text, None when it is none. replica: from the key, which alone is guarded."""
    if text is None:
        return None
    try:
        raw = _rows.decode(text)
        conflict = None
        if raw.conflict:
            first, second = (_vote(item, replica) for item in raw.conflict)
            conflict = Conflict(first.index, first, second)
        return Row(replica, raw.boot, raw.clock, tuple(_vote(item, replica) for item in raw.votes), conflict)
    except ValueError:
        return None


def _vote(raw: _Vote, replica: str) -> Vote:
    return Vote(
        replica,
        raw.boot,
        raw.index,
        bytes.fromhex(raw.chain),
        raw.position,
        bytes.fromhex(raw.input_chain),
        bytes.fromhex(raw.signature),
    )
