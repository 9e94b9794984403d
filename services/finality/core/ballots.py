"""Ballots: what replicas attest to each other, and what a quorum of attestations proves.

A vote is not a promise but a *fact*: "at index n I computed chain value h, at this input position, with this input
chain". A fact may be lost, repeated, read late or outlive its author, and stays true. So the store that carries facts
may lose everything (I7): certifying only ever *waits* for facts, it never relies on one being absent.

A voter is an id, not a process: two processes or two boots of one id have one vote between them. A voter that showed
two values at an index has lost the right to speak about that index and all behind it, until its row is dropped.

Votes name no term and survive leader changes. They name no epoch either: the command that opens one makes an entry,
so the vote at that entry's index (position and input chain are in it) is the proof that the command was folded.

Left out: who leads and when (the reconciler's), signatures (checked where blocks are verified), and everything about
Redis (`ledger/`), of which this module knows only the port.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

__all__ = [
    "KEEP_VOTES",
    "AttestWrite",
    "Conflict",
    "Fact",
    "Lease",
    "LeaseVerb",
    "LeaseWrite",
    "Ledger",
    "PartitionView",
    "Proposal",
    "ProposeWrite",
    "Row",
    "Vote",
    "Write",
    "certify",
    "merge_rows",
    "quorum_clock",
]

KEEP_VOTES = 8
LeaseVerb = Literal["acquire", "renew", "release"]


class Fact(NamedTuple):
    """What a replica computed at an index: the chain value, and the input that led to it."""

    chain: bytes
    position: int
    input_chain: bytes


class Proposal(msgspec.Struct, frozen=True):
    """A leader's tip. It only lines votes up; nothing is believed because it was proposed."""

    term: int
    index: int
    chain: bytes
    position: int
    input_chain: bytes


class Vote(msgspec.Struct, frozen=True):
    """One attested fact. signature: Ed25519 over it, b"" when the site does not sign."""

    replica: str
    boot: str
    index: int
    chain: bytes
    position: int
    input_chain: bytes
    signature: bytes = b""

    @property
    def fact(self) -> Fact:
        """The part in which voters must agree."""
        return Fact(self.chain, self.position, self.input_chain)


class Conflict(msgspec.Struct, frozen=True):
    """Two different facts of one voter at one index: evidence, kept as it was shown."""

    index: int
    first: Vote
    second: Vote


class Row(msgspec.Struct, frozen=True):
    """All that one voter says about one partition.

    boot, clock_ns: of the last write (wall clock, ns UTC). votes: at most `KEEP_VOTES`, least recently written first.
    conflict: the one at the lowest index.
    """

    replica: str
    boot: str
    clock_ns: int
    votes: tuple[Vote, ...] = ()
    conflict: Conflict | None = None


class Lease(msgspec.Struct, frozen=True):
    """Who may try to lead. A hint: it spares duels and decides nothing. remaining_ms: at the time of reading."""

    owner: str
    boot: str
    remaining_ms: int


class PartitionView(msgspec.Struct, frozen=True):
    """One partition as read after the writes of the same exchange. rows: by voter id; absent voters have none."""

    lease: Lease | None
    proposal: Proposal | None
    rows: dict[str, Row]


class LeaseWrite(msgspec.Struct, frozen=True):
    """Acquire a free lease (or keep one's own), renew it while still held, release it. ttl_ms is unused by release."""

    partition: int
    verb: LeaseVerb
    ttl_ms: int = 5000


class ProposeWrite(msgspec.Struct, frozen=True):
    """Replace the proposal, unless one of a higher term is there."""

    partition: int
    proposal: Proposal


class AttestWrite(msgspec.Struct, frozen=True):
    """Write the own row: clock (wall, ns UTC) and votes, of which the last `KEEP_VOTES` stay. No votes = clock only."""

    partition: int
    votes: tuple[Vote, ...]
    clock_ns: int


Write = LeaseWrite | ProposeWrite | AttestWrite


class Ledger(Protocol):
    """Carries leases, proposals and rows between the replicas of a site. It may forget anything at any time."""

    def exchange(
        self, writes: Sequence[Write], reads: Mapping[int, Collection[str]]
    ) -> dict[int, PartitionView] | None:
        """Write, then read, in one round trip; the views show the effect of the writes.

        reads: partition → voter ids whose rows are wanted (voters change by command, each partition at its own
        index, so the caller says which). None: not reachable in time; then any of the writes may have happened, or
        happen yet. Never raises for trouble on the way: every write is repeated by comparing it with the next view.
        """

    def close(self) -> None:
        """Free the connections. Never raises."""


def certify(
    rows: Mapping[str, Row],
    own: Callable[[int], Fact | None],
    voters: Collection[str],
    quorum: int,
) -> tuple[int, tuple[Vote, ...]] | None:
    """The greatest index at which `quorum` distinct voters attest the leader's own fact, and their votes by voter id.

    own: the leader's fact at an index; None for one that it no longer holds, has not reached, or does not want.
    The voter id is the row's key: the store lets nobody else write under it. Votes of ids outside `voters` and votes
    at or behind a voter's conflict count for nothing (I4).
    """
    found: dict[int, dict[str, Vote]] = {}
    for replica in sorted(rows):
        if replica in voters:
            for index, vote in _countable(rows[replica]).items():
                found.setdefault(index, {})[replica] = vote
    for index in sorted(found, reverse=True):
        if len(found[index]) < quorum:
            continue
        fact = own(index)
        equal = tuple(vote for vote in found[index].values() if vote.fact == fact)
        if len(equal) >= quorum:
            return index, equal
    return None


def _countable(row: Row) -> dict[int, Vote]:
    """One vote an index, below the first index at which this voter contradicted itself."""
    votes: dict[int, Vote] = {}
    limit = None if row.conflict is None else row.conflict.index
    for vote in row.votes:
        earlier = votes.setdefault(vote.index, vote)
        if earlier.fact != vote.fact and (limit is None or vote.index < limit):
            limit = vote.index
    if limit is None:
        return votes
    return {index: vote for index, vote in votes.items() if index < limit}


def merge_rows(one: Row, other: Row) -> Row:
    """The union of what a voter wrote to two stores. Facts only add up, so no majority of stores is needed.

    A voter that told the stores different facts at one index is in conflict there, as if it had told one store both.
    Raises `ValueError` for rows of different voters.
    """
    if one.replica != other.replica:
        raise ValueError(f"rows of {one.replica} and {other.replica} are no union")
    newer, older = (one, other) if one.clock_ns >= other.clock_ns else (other, one)
    conflicts = [row.conflict for row in (one, other) if row.conflict is not None]
    votes: dict[int, Vote] = {}
    for vote in older.votes + newer.votes:
        earlier = votes.setdefault(vote.index, vote)
        if earlier.fact != vote.fact:
            conflicts.append(Conflict(vote.index, earlier, vote))
    conflict = min(conflicts, key=lambda item: item.index, default=None)
    return Row(one.replica, newer.boot, newer.clock_ns, tuple(votes.values()), conflict)


def quorum_clock(
    rows: Mapping[str, Row], voters: Collection[str], quorum: int, now_ns: int, window_ns: int
) -> int | None:
    """The `quorum`-th greatest clock of the voters, among rows no older than `window_ns` before `now_ns`.

    At least `quorum` voters hold that this moment has come, so fewer than `quorum` fast clocks cannot move log time
    ahead. None when fewer rows are fresh: then no tick. All in ns UTC, `now_ns` by the caller's own clock.
    """
    oldest = now_ns - window_ns
    clocks = sorted(
        (row.clock_ns for replica, row in rows.items() if replica in voters and row.clock_ns >= oldest), reverse=True
    )
    return clocks[quorum - 1] if len(clocks) >= quorum else None
