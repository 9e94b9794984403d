"""The seat of one partition: who leads it, and what the leader appends.

Nothing here is needed for safety; acceptance is. The seat keeps leaders out of each other's way and keeps appends few.

| role | when | next |
| --- | --- | --- |
| FOLLOWER | fit and the lease is mine | CANDIDATE: append LEADER |
| CANDIDATE | my LEADER was read back and accepted | LEADER |
| CANDIDATE | another term was accepted, or unfit | FOLLOWER |
| LEADER | a certified range, nothing in flight | LEADER: append one BLOCK |
| LEADER | another term was accepted, or unfit | FOLLOWER, the lease released |

Whoever lost a term to another process sits out one lease: two that both hold a lease (Redis split or forgetful) would
else depose each other hundreds of times a second, and publish hardly anything.

Rules of the log (each has a mutant that breaks without it): L1 what counts is what was read back and accepted · L2 lead
only after the own LEADER, by boot id · L3 votes per voter id · L4 no block without its quorum · L5 silence and delivery
errors prove nothing: read to the end, go on from the accepted tip; append again only after the delivery report, or
after the producer was dropped · L6 a term that moved ends leadership at once.
"""

from __future__ import annotations

from enum import StrEnum

from finality.core.attested import Leader, VoterRow, encode_log_record
from finality.core.ballots import Fact, PartitionView, Proposal, Vote, certify
from finality.core.ports import Appender, Delivery, Probe
from finality.core.records import BLOCK, KIND, LEADER
from finality.core.replica import Replica
from finality.workers.reconciler.feed import Feed

__all__ = ["Identity", "Role", "Seat"]

READ_BACK_NS = 2_000_000_000


class Role(StrEnum):
    """Where a replica stands in one partition."""

    FOLLOWER = "FOLLOWER"
    CANDIDATE = "CANDIDATE"
    LEADER = "LEADER"


class Identity:
    """Who this process is. boot: a fresh id for every process; build, settings: fingerprints."""

    __slots__ = ("boot", "build", "replica", "settings")

    def __init__(self, replica: str, boot: str, build: str, settings: str) -> None:
        self.replica = replica
        self.boot = boot
        self.build = build
        self.settings = settings


class _Flight:
    """The one append of this partition that is on its way."""

    __slots__ = ("asked_at", "error", "kind", "last", "offset", "term", "ticket")

    def __init__(self, kind: str, ticket: int, asked_at: int, term: int, last: int) -> None:
        self.kind = kind
        self.ticket = ticket  # -1: its producer was dropped
        self.asked_at = asked_at
        self.term = term  # the term that it opens or belongs to
        self.last = last  # last index of a block, 0 for a LEADER
        self.offset = -1
        self.error = ""


class Seat:
    """Leadership of one partition by one process."""

    def __init__(self, replica: Replica, log_feed: Feed, me: Identity, log: Appender, probe: Probe) -> None:
        self.replica = replica
        self.role = Role.FOLLOWER
        self._me = me
        self._log = log
        self._feed = log_feed
        self._probe = probe
        self._flight: _Flight | None = None
        self._doubt_since = -1  # monotonic ns: read to an end fetched after this before appending again
        self._sought = 0  # the term that the last own LEADER asked for
        self._lost_term = False
        self.appended = 0

    # -- what came back -----------------------------------------------------------------------

    def delivered(self, report: Delivery) -> None:
        """A delivery report of the log's producer."""
        flight = self._flight
        if flight is not None and flight.ticket == report.ticket:
            flight.offset = report.offset
            flight.error = report.error
            if not flight.error:
                self._probe.at(f"{flight.kind}.acknowledged", self.replica.partition)

    def dropped(self, now: int) -> None:
        """The producer was dropped with everything in flight; some of it may still land."""
        if self._flight is not None:
            self._flight = None
            self._doubt_since = now

    def needs_drop(self, now: int) -> bool:
        """True when an append has neither been read back nor reported in time: its producer must go (L5)."""
        flight = self._flight
        if flight is None:
            return False
        return bool(flight.error) or (flight.offset < 0 and now - flight.asked_at > READ_BACK_NS)

    def look(self, now: int) -> None:
        """Compare with the accepted tip: land what was in flight, notice a term that moved."""
        tip = self.replica.tip
        flight = self._flight
        if flight is not None:
            mine = tip.term == flight.term and tip.boot == self._me.boot
            landed = mine and (tip.index >= flight.last if flight.last else True)
            passed = flight.offset >= 0 and self._feed.position > flight.offset
            if landed or passed:
                self._flight = None
            if landed:
                self._probe.at(f"{flight.kind}.landed", self.replica.partition)
        if self._doubt_since >= 0 and self._feed.stood_at_end_of(self._doubt_since):
            self._doubt_since = -1
        mine = tip.term > 0 and tip.boot == self._me.boot
        if self.role is Role.LEADER and not mine:
            self.role = Role.FOLLOWER  # L6
            self._lost_term = True
        elif self.role is Role.CANDIDATE:
            if mine:
                self.role = Role.LEADER  # L2
            elif self._flight is None and self._doubt_since < 0:
                self.role = Role.FOLLOWER
                self._lost_term = tip.term >= self._sought

    def take_lost_term(self) -> bool:
        """True once after another process was accepted where this one led or stood for election."""
        lost, self._lost_term = self._lost_term, False
        return lost

    # -- what goes out ------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing in flight and no doubt: an append may go out."""
        return self._flight is None and self._doubt_since < 0

    def stand(self, now: int, epoch: int) -> None:
        """The lease is mine and I am fit: append LEADER for the next term, once."""
        tip = self.replica.tip
        if self.role is not Role.FOLLOWER or not self.is_idle:
            return
        if tip.term and tip.boot == self._me.boot:
            self.role = Role.LEADER
            return
        leader = Leader(
            boot=self._me.boot,
            build=self._me.build,
            epoch=epoch,
            generation=self.replica.home.generation,
            proof=None,
            replica=self._me.replica,
            settings=self._me.settings,
            site=self.replica.home.site,
            term=tip.term + 1,
        )
        self.role = Role.CANDIDATE
        self._sought = tip.term + 1
        self._append(encode_log_record(leader), LEADER, now, tip.term + 1, 0)

    def step_down(self) -> None:
        """Give up; what is in flight may land and is accepted or ignored as the log's order says."""
        self.role = Role.FOLLOWER

    def proposal(self) -> Proposal | None:
        """What the leader proposes: where its next block would end. It lines up the votes."""
        if self.role is not Role.LEADER or not self.replica.agrees:
            return None
        last = self.replica.certifiable(self.replica.number)
        row = self.replica.row_at(last) if last else None
        if row is None:
            return None
        return Proposal(self.replica.tip.term, row.number, row.chain, row.position, row.input_chain)

    def vote(self, proposal: Proposal | None) -> Vote | None:
        """The fact that this replica attests: at min(own tip, proposal). None when there is nothing new to say."""
        replica = self.replica
        if proposal is None or replica.quarantine is not None:
            return None
        row = replica.row_at(min(replica.number, proposal.index))
        if row is None:
            return None
        me = self._me
        return Vote(me.replica, me.boot, row.number, row.chain, row.position, row.input_chain)

    def publish(self, view: PartitionView, now: int) -> bool:
        """Append the block that a quorum certified, if there is one and nothing is in flight."""
        replica = self.replica
        if self.role is not Role.LEADER or not self.is_idle or not replica.agrees:
            return False
        voters = replica.tip.voters_of(replica.tip.active.site)
        if voters is None:
            return False
        certified = certify(view.rows, self._own_fact, voters.voters, voters.quorum)
        if certified is None:
            return False
        last, votes = certified
        rows = tuple([VoterRow(vote.replica, vote.boot, vote.signature.hex()) for vote in votes])
        block = replica.block(last, rows)
        if block is None or block.last != last:
            return False
        self._append(encode_log_record(block), BLOCK, now, block.term, block.last)
        return True

    def _own_fact(self, index: int) -> Fact | None:
        row = self.replica.row_at(index)
        return None if row is None else Fact(row.chain, row.position, row.input_chain)

    def _append(self, value: bytes, kind: bytes, now: int, term: int, last: int) -> None:
        partition = self.replica.partition
        name = kind.decode()
        self._probe.at(f"{name}.append", partition)
        ticket = self._log.append(partition, None, value, ((KIND, kind),))
        self._flight = _Flight(name, ticket, now, term, last)
        self.appended += 1
        self._probe.at(f"{name}.appended", partition)
