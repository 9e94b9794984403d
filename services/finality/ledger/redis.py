"""The ledger in Redis: one lease, one proposal and one row per voter for each partition, all under one hash tag.

Safety does not live here (I7). Whatever Redis forgets, repeats, brings back or answers late, a block counts because the
log accepts it; so there is no persistence to configure, no WAIT, no lock over a majority of servers.

With several servers everything is written to all and read from all that answer:

* rows are united: facts only add up, so one server that kept them is enough, and no majority is asked for;
* the proposal of the highest term counts, at equal terms that of the server listed first;
* the lease is what the first server that answers, in listed order, says. It is a hint. Two replicas that reach
  different servers may both hold it, and then duel in the log, where one LEADER wins; a majority would prevent that
  duel, but with one of two servers lost it would prevent leading at all.

Exchanges of one process are written in order over one connection for each server. One that timed out may still run
when the server wakes up: a lease gained in this way belongs to (replica, boot), which simply acquires it again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from finality.core.ballots import (
    KEEP_VOTES,
    AttestWrite,
    Lease,
    LeaseWrite,
    PartitionView,
    Proposal,
    ProposeWrite,
    Row,
    Write,
    merge_rows,
)
from finality.core.errors import FinalityError, UsageError
from finality.core.names import Names
from finality.ledger.rows import proposal_args, read_lease, read_proposal, read_row, vote_args
from finality.ledger.server import Call, RedisOptions, Script, Server

__all__ = ["PROPOSAL_TTL_MS", "ROW_TTL_MS", "RedisLedger", "Scripts"]

PROPOSAL_TTL_MS = 10_000
ROW_TTL_MS = 600_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Scripts(NamedTuple):
    """The three scripts; each names the one key that it touches."""

    lease: Script
    propose: Script
    attest: Script

    @classmethod
    def load(cls) -> Scripts:
        """The scripts as shipped in this package."""
        folder = files("finality.ledger")
        texts = (folder.joinpath(f"{name}.lua").read_text("utf-8") for name in cls._fields)
        return cls(*(Script.of(text) for text in texts))


class _Reads(NamedTuple):
    """What one exchange reads, packed once: it is the same a hundred times a second."""

    partitions: tuple[tuple[int, tuple[str, ...]], ...]
    packed: list[bytes]


class RedisLedger:
    """`Ledger` over one or several Redis-compatible servers (Redis ≥ 7.0, Valkey), for one process of one replica.

    urls: `redis://`, `rediss://` or `unix://`, the same order in every replica. replica: the voter id that rows and
    leases are written under. boot: random id of this process. Raises `UsageError` for names or addresses it cannot use.
    """

    def __init__(
        self,
        urls: Sequence[str],
        names: Names,
        site: str,
        replica: str,
        boot: str,
        options: RedisOptions | None = None,
        scripts: Scripts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not urls:
            raise UsageError("no Redis address: name at least one")
        for what, name in (("site", site), ("replica", replica), ("boot id", boot)):
            if not NAME.fullmatch(name):
                raise UsageError(f"{what} {name!r}: use up to 63 letters, digits, '_', '.', '-'")
        self._names = names
        self._site = site
        self._replica = replica
        self._boot = boot
        self._scripts = scripts or Scripts.load()
        self._servers = [Server(url, options or RedisOptions(), clock) for url in urls]
        self._reads: _Reads | None = None
        self._seen: dict[tuple[int, int, str], tuple[bytes, Row | None]] = {}

    def exchange(
        self, writes: Sequence[Write], reads: Mapping[int, Collection[str]]
    ) -> dict[int, PartitionView] | None:
        """See `Ledger.exchange`. Waits at most the time-out to connect and once more to be answered."""
        calls = [self._call(write) for write in writes]
        wanted = self._wanted(reads)
        expected = 2 * len(wanted.partitions)
        asked = [server.begin(calls, wanted.packed, expected) for server in self._servers]
        answers = [
            (place, answer)
            for place, server in enumerate(self._servers)
            if asked[place] and (answer := server.finish()) is not None
        ]
        if not answers:
            return None
        return {
            partition: self._view(partition, voters, 2 * at, answers)
            for at, (partition, voters) in enumerate(wanted.partitions)
        }

    @property
    def troubles(self) -> tuple[str, ...]:
        """What each server that does not answer says, one line for people each. Empty when all is well."""
        return tuple(str(server.trouble) for server in self._servers if server.trouble is not None)

    def check(self) -> None:
        """Ask every server once, with the rights that voting needs. Raises `DependencyError` or `UsageError`.

        For the start of a process, where a wrong password should be said and not waited out. Leaves nothing behind.
        """
        probe = (LeaseWrite(0, "release"),)
        self.exchange(probe, {0: (self._replica,)})
        troubles: list[FinalityError] = [server.trouble for server in self._servers if server.trouble is not None]
        if troubles:
            raise troubles[0]

    def close(self) -> None:
        """Close all connections. Never raises."""
        for server in self._servers:
            server.close()

    def _key(self, partition: int, what: str) -> str:
        return self._names.redis(self._site, partition, what)

    def _call(self, write: Write) -> Call:
        if isinstance(write, LeaseWrite):
            claim = (write.verb, self._replica, self._boot, str(write.ttl_ms))
            return Call(self._scripts.lease, self._key(write.partition, "lease"), claim)
        if isinstance(write, ProposeWrite):
            args = (str(PROPOSAL_TTL_MS), *proposal_args(write.proposal))
            return Call(self._scripts.propose, self._key(write.partition, "prop"), args)
        return self._attest(write)

    def _attest(self, write: AttestWrite) -> Call:
        head = (str(ROW_TTL_MS), str(KEEP_VOTES), self._boot, str(write.clock_ns))
        votes = tuple(part for vote in write.votes for part in vote_args(vote))
        return Call(self._scripts.attest, self._key(write.partition, f"vote:{self._replica}"), head + votes)

    def _wanted(self, reads: Mapping[int, Collection[str]]) -> _Reads:
        partitions = tuple((partition, tuple(voters)) for partition, voters in reads.items())
        if self._reads is None or self._reads.partitions != partitions:
            commands: list[tuple[str, ...]] = []
            for partition, voters in partitions:
                lease = self._key(partition, "lease")
                rows = (self._key(partition, f"vote:{voter}") for voter in voters)
                commands.append(("MGET", lease, self._key(partition, "prop"), *rows))
                commands.append(("PTTL", lease))
            self._reads = _Reads(partitions, self._servers[0].pack(commands))
        return self._reads

    def _view(
        self, partition: int, voters: tuple[str, ...], at: int, answers: list[tuple[int, list[Any]]]
    ) -> PartitionView:
        lease: Lease | None = None
        proposal: Proposal | None = None
        rows: dict[str, Row] = {}
        for number, (place, answer) in enumerate(answers):
            values, remaining_ms = answer[at], answer[at + 1]
            if number == 0:
                lease = read_lease(values[0], remaining_ms)
            proposed = read_proposal(values[1])
            if proposed is not None and (proposal is None or proposed.term > proposal.term):
                proposal = proposed
            for voter, text in zip(voters, values[2:], strict=True):
                row = self._row(place, partition, voter, text)
                if row is not None:
                    rows[voter] = merge_rows(rows[voter], row) if voter in rows else row
        return PartitionView(lease, proposal, rows)

    def _row(self, place: int, partition: int, voter: str, text: bytes | None) -> Row | None:
        """Rows are read far more often than they change, so the last one is kept beside its text."""
        if text is None:
            return None
        key = (place, partition, voter)
        seen = self._seen.get(key)
        if seen is None or seen[0] != text:
            seen = (text, read_row(text, voter))
            self._seen[key] = seen
        return seen[1]
