"""The reconciler's loop: poll, fold, exchange ballots, append. Single-threaded, `step()` never blocks for long.

One process folds the partitions of its slot, for one voter of one site, active or standby: at a site that is not
active the same loop folds the copied input, compares it with the copied log at every block, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from finality.core.ballots import (
    AttestWrite,
    LeaseWrite,
    Ledger,
    PartitionView,
    Proposal,
    ProposeWrite,
    Row,
    Vote,
    Write,
    quorum_clock,
)
from finality.core.canonical import encode
from finality.core.controllog import ControlLog
from finality.core.errors import Retry
from finality.core.ports import Appender, Clock, Probe, RecordReader
from finality.core.records import COMMAND, KIND, TICK
from finality.core.replica import Replica
from finality.workers.reconciler.feed import WINDOW_NS, Feed
from finality.workers.reconciler.seat import Identity, Role, Seat

__all__ = ["Reconciler", "ReconcilerOptions", "ReconcilerPorts"]

_TICK_NS = 1_000_000_000
_MAX_TICK_STEP_NS = 60_000_000_000
_INJECT_AGAIN_NS = 2_000_000_000


class ReconcilerOptions(NamedTuple):
    """Timings. batch: records of one poll. The lease is a hint; its length decides only how long a partition is
    without a leader after one died."""

    lease_ms: int = 5_000
    renew_ms: int = 1_600
    clock_ms: int = 1_000
    busy_exchange_ms: int = 5
    idle_exchange_ms: int = 50
    poll_ms: int = 5
    batch: int = 1_000


class ReconcilerPorts(NamedTuple):
    """What the loop needs from outside."""

    input: RecordReader
    log: RecordReader
    control: RecordReader
    input_appender: Appender
    log_appender: Appender
    ledger: Ledger
    clock: Clock
    probe: Probe


class _Place:
    """Everything of one partition."""

    __slots__ = (
        "clock_at",
        "inject_at",
        "injected",
        "input_feed",
        "lease_at",
        "log_feed",
        "out_until",
        "seat",
        "tick_at",
        "view",
        "vote",
    )

    def __init__(self, seat: Seat, input_feed: Feed, log_feed: Feed) -> None:
        self.seat = seat
        self.input_feed = input_feed
        self.log_feed = log_feed
        self.view: PartitionView | None = None
        self.vote: Vote | None = None
        self.clock_at = self.lease_at = self.tick_at = self.inject_at = -(2**62)
        self.injected = (0, 0)
        self.out_until = -(2**62)


class Reconciler:
    """See the module's head. replicas: by partition."""

    def __init__(
        self,
        replicas: Mapping[int, Replica],
        me: Identity,
        ports: ReconcilerPorts,
        options: ReconcilerOptions | None = None,
    ) -> None:
        self._ports = ports
        self._options = options if options is not None else ReconcilerOptions()
        self._me = me
        self._control = ControlLog()
        self._places: dict[int, _Place] = {}
        for partition, replica in replicas.items():
            log_feed = Feed(ports.log, partition)
            seat = Seat(replica, log_feed, me, ports.log_appender, ports.probe)
            self._places[partition] = _Place(seat, Feed(ports.input, partition), log_feed)
        self._exchanged_at = -(2**62)
        self.held: frozenset[int] = frozenset()  # partitions whose log time is held (a source lags)

    @property
    def seats(self) -> Mapping[int, Seat]:
        """The seats by partition, for status and tests."""
        return {partition: place.seat for partition, place in self._places.items()}

    def step(self) -> int:
        """One round; how many records it read."""
        ports = self._ports
        read = self._read_log()
        read += self._fold_input()
        self._read_control()
        now = ports.clock.monotonic_ns()
        self._land(now)
        busy = any(place.seat.replica.window for place in self._places.values())
        wait = self._options.busy_exchange_ms if busy else self._options.idle_exchange_ms
        if now - self._exchanged_at >= wait * 1_000_000:
            self._exchanged_at = now
            self._exchange(now)
        for partition, place in self._places.items():
            if place.seat.role is Role.LEADER:
                self._lead(partition, place, now)
        return read

    def close(self) -> None:
        """Give the leases back (others need not wait for their end)."""
        writes: list[Write] = [LeaseWrite(partition, "release") for partition in self._led()]
        if writes:
            self._ports.ledger.exchange(writes, {})

    def _led(self) -> Sequence[int]:
        return [partition for partition, place in self._places.items() if self._holds_lease(place)]

    # -- reading ------------------------------------------------------------------------------

    def _fold_input(self) -> int:
        records = self._ports.input.poll(self._options.batch, self._options.poll_ms / 1000)
        places = self._places
        for record in records:
            places[record.partition].seat.replica.feed(record)
        return len(records)

    def _read_log(self) -> int:
        records = self._ports.log.poll(self._options.batch, 0)
        for record in records:
            self._places[record.partition].seat.replica.read_log(record)
        return len(records)

    def _read_control(self) -> None:
        for record in self._ports.control.poll(100, 0):
            self._control.read(record)

    def _land(self, now: int) -> None:
        ports = self._ports
        for report in ports.log_appender.poll():
            self._places[report.partition].seat.delivered(report)
        drop = False
        for place in self._places.values():
            place.input_feed.look(now)
            place.log_feed.look(now)
            place.seat.look(now)
            drop = drop or place.seat.needs_drop(now)
        if drop:
            ports.log_appender.reset()
            for place in self._places.values():
                place.seat.dropped(now)
        if any(report.error for report in ports.input_appender.poll()):
            ports.input_appender.reset()  # ticks and commands are compared again: a lost one is written again

    # -- ballots ------------------------------------------------------------------------------

    def _exchange(self, now: int) -> None:
        wall = self._ports.clock.wall_ns()
        writes: list[Write] = []
        reads: dict[int, Sequence[str]] = {}
        for partition, place in self._places.items():
            replica = place.seat.replica
            voters = replica.tip.voters_of(replica.home.site)
            if replica.tip.active != replica.home or voters is None:
                continue
            reads[partition] = voters.voters
            writes += self._leases(partition, place, now)
            proposal = place.seat.proposal()
            known = place.view.proposal if place.view is not None else None
            if proposal is not None and proposal != known:
                writes.append(ProposeWrite(partition, proposal))
            if self._me.replica in voters.voters:
                writes += self._attest(partition, place, proposal or known, now, wall)
        if not reads:
            return
        self._ports.probe.at("ballots.exchange", -1)
        views = self._ports.ledger.exchange(writes, reads)
        self._ports.probe.at("ballots.exchanged", -1)
        for partition in reads:
            place = self._places[partition]
            place.view = views.get(partition) if views is not None else None
            if place.view is not None:
                self._decide(place, place.view, now)

    def _attest(self, partition: int, place: _Place, proposal: Proposal | None, now: int, wall: int) -> list[Write]:
        """The own row: whenever what it should say is not what Redis shows, and every second for its clock."""
        vote = place.seat.vote(proposal)
        row = place.view.rows.get(self._me.replica) if place.view is not None else None
        if vote is not None and row is not None and _is_said(vote, row):
            vote = None
        if vote is None and now - place.clock_at < self._options.clock_ms * 1_000_000:
            return []
        place.clock_at = now
        return [AttestWrite(partition, () if vote is None else (vote,), wall)]

    def _leases(self, partition: int, place: _Place, now: int) -> list[Write]:
        options = self._options
        fit = self._is_fit(place, now)
        lost = place.seat.take_lost_term()
        if lost:
            place.out_until = now + options.lease_ms * 1_000_000
        if self._holds_lease(place):
            if lost or not fit:
                place.out_until = now + options.lease_ms * 1_000_000
                place.seat.step_down()
                place.view = None
                return [LeaseWrite(partition, "release")]
            if now - place.lease_at < options.renew_ms * 1_000_000:
                return []
            place.lease_at = now
            return [LeaseWrite(partition, "renew", options.lease_ms)]
        lease = place.view.lease if place.view is not None else None
        if not fit or lease is not None or place.view is None or now < place.out_until:
            return []
        if now - place.lease_at < self._patience(place) * 1_000_000:
            return []
        place.lease_at = now
        return [LeaseWrite(partition, "acquire", options.lease_ms)]

    def _patience(self, place: _Place) -> int:
        """Milliseconds between tries for a free lease: the preferred leader (voter p mod V) does not wait."""
        replica = place.seat.replica
        voters = replica.tip.voters_of(replica.home.site)
        assert voters is not None
        preferred = voters.voters[replica.partition % len(voters.voters)]
        return 50 if preferred == self._me.replica else 400

    def _is_fit(self, place: _Place, now: int) -> bool:
        replica = place.seat.replica
        if not replica.agrees or self._me.replica not in self._voter_ids(replica):
            return False
        return place.input_feed.is_alive(now) and place.log_feed.is_alive(now)

    def _voter_ids(self, replica: Replica) -> Sequence[str]:
        voters = replica.tip.voters_of(replica.home.site)
        return () if voters is None else voters.voters

    def _holds_lease(self, place: _Place) -> bool:
        lease = place.view.lease if place.view is not None else None
        return lease is not None and lease.owner == self._me.replica and lease.boot == self._me.boot

    def _decide(self, place: _Place, view: PartitionView, now: int) -> None:
        seat = place.seat
        if not self._holds_lease(place):
            if seat.role is not Role.FOLLOWER:
                seat.step_down()
            return
        if self._is_fit(place, now):
            seat.stand(now, seat.replica.tip.epoch)
            seat.publish(view, now)

    # -- leading ------------------------------------------------------------------------------

    def _lead(self, partition: int, place: _Place, now: int) -> None:
        """What the leader writes into the input: ticks and commands. Both may be written twice without harm."""
        if place.seat.replica.input.active != place.seat.replica.home:
            return
        try:
            self._inject(partition, place, now)
            if now - place.tick_at >= _TICK_NS and partition not in self.held:
                self._tick(partition, place, now)
        except Retry:
            return  # the producer's queue is full; the next round compares again

    def _tick(self, partition: int, place: _Place, now: int) -> None:
        replica = place.seat.replica
        state = replica.fold.state
        voters = replica.tip.voters_of(replica.home.site)
        if replica.genesis.parameters.log_time == "events" or place.view is None or voters is None:
            return
        wall = self._ports.clock.wall_ns()
        others = quorum_clock(place.view.rows, voters.voters, voters.quorum, wall, WINDOW_NS)
        if others is None:
            return
        at = min(wall, others)
        if state.log_time > int(replica.genesis.log_time):
            at = min(at, state.log_time + _MAX_TICK_STEP_NS)
        if at <= state.log_time:
            return
        place.tick_at = now
        self._ports.probe.at("tick.append", partition)
        self._ports.input_appender.append(partition, None, encode({"at": str(at)}), ((KIND, TICK),))

    def _inject(self, partition: int, place: _Place, now: int) -> None:
        state = place.seat.replica.fold.state
        command = self._control.after(state.control_epoch, state.control_number)
        if command is None:
            return
        if place.injected == command.place and now - place.inject_at < _INJECT_AGAIN_NS:
            return
        self._ports.probe.at("command.append", partition)
        self._ports.input_appender.append(partition, None, command.value, ((KIND, COMMAND),))
        place.injected = command.place
        place.inject_at = now


def _is_said(vote: Vote, row: Row) -> bool:
    """The row says this already; or it holds another value there, which is kept whatever is said again."""
    if row.conflict is not None and row.conflict.index <= vote.index:
        return True
    return any(known.index == vote.index and known.fact == vote.fact for known in row.votes)
