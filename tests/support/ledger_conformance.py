"""What is true of every `Ledger`: the one over real servers and any model of it run through these very tests.

Subclass `LedgerConformance` as a test class and give it a fixture `world`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from finality.core.ballots import (
    KEEP_VOTES,
    AttestWrite,
    Conflict,
    Lease,
    LeaseWrite,
    Ledger,
    PartitionView,
    Proposal,
    ProposeWrite,
    Row,
    Vote,
    Write,
)

VOTERS = ("r1", "r2", "r3")
BEYOND_DOUBLES = 2**53 + 1


class World(Protocol):
    """A store of a test's own, empty at first."""

    def ledger(self, replica: str, boot: str = "b1") -> Ledger:
        """The ledger as one process of a replica has it."""

    def pause(self) -> None:
        """Let a little time pass (the model's, or the real one)."""

    def forget(self) -> None:
        """The store loses everything."""


def hash_of(letter: str) -> bytes:
    """A recognisable 32-byte value."""
    return letter.encode() * 32


def vote(replica: str, index: int, chain: str = "a", boot: str = "b1", signature: bytes = b"") -> Vote:
    """A vote whose position and input chain follow from its index."""
    return Vote(replica, boot, index, hash_of(chain), 10 * index, hash_of("i"), signature)


def see(ledger: Ledger, *writes: Write, partition: int = 0) -> PartitionView:
    """One exchange over one partition; it must be answered."""
    views = ledger.exchange(writes, {partition: VOTERS})
    assert views is not None
    return views[partition]


def owner(view: PartitionView) -> tuple[str, str] | None:
    """Who holds the lease."""
    return None if view.lease is None else (view.lease.owner, view.lease.boot)


class LedgerConformance:
    """The tests."""

    def test_an_empty_store_shows_nothing(self, world: World) -> None:
        assert PartitionView(None, None, {}) == see(world.ledger("r1"))

    def test_only_what_is_asked_for_is_read(self, world: World) -> None:
        ledger = world.ledger("r1")
        ledger.exchange([AttestWrite(p, (vote("r1", 1),), 5) for p in (0, 1, 2)], {})
        views = ledger.exchange((), {1: ["r1", "r2"], 2: ["r2"]})
        assert views == {
            1: PartitionView(None, None, {"r1": Row("r1", "b1", 5, (vote("r1", 1),))}),
            2: PartitionView(None, None, {}),
        }

    # lease

    def test_a_free_lease_goes_to_the_first_and_everybody_sees_it(self, world: World) -> None:
        first, second = world.ledger("r1"), world.ledger("r2")
        lease = see(first, LeaseWrite(0, "acquire", 60_000)).lease
        assert isinstance(lease, Lease)
        assert (lease.owner, lease.boot) == ("r1", "b1")
        assert 0 < lease.remaining_ms <= 60_000
        assert owner(see(second, LeaseWrite(0, "acquire", 60_000))) == ("r1", "b1")
        assert owner(see(second, LeaseWrite(1, "acquire", 60_000), partition=1)) == ("r2", "b1")

    def test_a_lease_that_is_held_is_prolonged_by_its_owner_only(self, world: World) -> None:
        first, second = world.ledger("r1"), world.ledger("r2")
        see(first, LeaseWrite(0, "acquire", 60_000))
        lease = see(second, LeaseWrite(0, "renew", 600_000)).lease
        assert lease is not None
        assert lease.remaining_ms <= 60_000
        for verb in ("renew", "acquire"):
            lease = see(first, LeaseWrite(0, verb, 600_000)).lease
            assert lease is not None
            assert lease.remaining_ms > 60_000
            see(first, LeaseWrite(0, "renew", 60_000))

    def test_a_free_lease_is_not_renewed(self, world: World) -> None:
        assert see(world.ledger("r1"), LeaseWrite(0, "renew", 60_000)).lease is None

    def test_a_released_lease_is_free(self, world: World) -> None:
        first, second = world.ledger("r1"), world.ledger("r2")
        see(first, LeaseWrite(0, "acquire", 60_000))
        assert owner(see(second, LeaseWrite(0, "release"))) == ("r1", "b1")
        assert see(first, LeaseWrite(0, "release")).lease is None
        assert owner(see(second, LeaseWrite(0, "acquire", 60_000))) == ("r2", "b1")

    def test_another_boot_of_the_same_replica_is_another_owner(self, world: World) -> None:
        first, second = world.ledger("r1", "b1"), world.ledger("r1", "b2")
        see(first, LeaseWrite(0, "acquire", 60_000))
        for verb in ("acquire", "renew", "release"):
            lease = see(second, LeaseWrite(0, verb, 600_000)).lease
            assert lease is not None
            assert lease.boot == "b1"
            assert lease.remaining_ms <= 60_000

    def test_a_lease_that_is_not_renewed_runs_out(self, world: World) -> None:
        first, second = world.ledger("r1"), world.ledger("r2")
        see(first, LeaseWrite(0, "acquire", 50))
        _until(world, lambda: see(second).lease is None)
        assert owner(see(second, LeaseWrite(0, "acquire", 60_000))) == ("r2", "b1")

    # proposal

    def test_a_proposal_is_read_as_it_was_written(self, world: World) -> None:
        proposal = Proposal(BEYOND_DOUBLES, BEYOND_DOUBLES + 2, hash_of("a"), BEYOND_DOUBLES + 4, hash_of("i"))
        see(world.ledger("r1"), ProposeWrite(0, proposal))
        assert proposal == see(world.ledger("r2")).proposal

    def test_a_proposal_gives_way_to_any_of_its_term_and_above(self, world: World) -> None:
        ledger = world.ledger("r1")
        for term, index, wins in (
            (9, 5, True),
            (9, 3, True),
            (10, 1, True),
            (9, 7, False),
            (100, 1, True),
            (11, 1, False),
        ):
            proposal = Proposal(term, index, hash_of("a"), index, hash_of("i"))
            assert wins == (see(ledger, ProposeWrite(0, proposal)).proposal == proposal), (term, index)

    # rows

    def test_a_row_holds_boot_clock_and_votes(self, world: World) -> None:
        votes = (vote("r1", 1, signature=b"\x00\xff" * 32), vote("r1", BEYOND_DOUBLES))
        see(world.ledger("r1"), AttestWrite(0, votes, BEYOND_DOUBLES))
        assert see(world.ledger("r2")).rows == {"r1": Row("r1", "b1", BEYOND_DOUBLES, votes)}

    def test_a_clock_alone_leaves_the_votes_as_they_are(self, world: World) -> None:
        ledger = world.ledger("r1")
        assert see(ledger, AttestWrite(0, (), 1)).rows["r1"] == Row("r1", "b1", 1)
        see(ledger, AttestWrite(0, (vote("r1", 1),), 2))
        see(ledger, AttestWrite(0, (), 3))
        assert see(ledger).rows["r1"] == Row("r1", "b1", 3, (vote("r1", 1),))

    def test_a_clock_that_was_set_back_is_taken(self, world: World) -> None:
        ledger = world.ledger("r1")
        see(ledger, AttestWrite(0, (), 2**62))
        assert see(ledger, AttestWrite(0, (), 5)).rows["r1"].clock_ns == 5

    def test_votes_survive_the_boot_that_cast_them(self, world: World) -> None:
        see(world.ledger("r1", "b1"), AttestWrite(0, (vote("r1", 1), vote("r1", 2)), 1))
        row = see(world.ledger("r1", "b2"), AttestWrite(0, (vote("r1", 1, boot="b2"),), 2)).rows["r1"]
        assert row == Row("r1", "b2", 2, (vote("r1", 2), vote("r1", 1, boot="b2")))

    def test_a_different_fact_is_kept_beside_the_earlier_one(self, world: World) -> None:
        ledger = world.ledger("r1")
        see(ledger, AttestWrite(0, (vote("r1", 7),), 1))
        row = see(ledger, AttestWrite(0, (vote("r1", 7, "x"),), 2)).rows["r1"]
        assert row == Row("r1", "b1", 2, (vote("r1", 7),), Conflict(7, vote("r1", 7), vote("r1", 7, "x")))

    def test_another_input_under_the_same_chain_is_a_different_fact(self, world: World) -> None:
        ledger = world.ledger("r1")
        other = Vote("r1", "b1", 7, hash_of("a"), 70, hash_of("j"))
        see(ledger, AttestWrite(0, (vote("r1", 7), other), 1))
        assert Conflict(7, vote("r1", 7), other) == see(ledger).rows["r1"].conflict

    def test_the_conflict_at_the_lowest_index_stays(self, world: World) -> None:
        ledger = world.ledger("r1")
        big = BEYOND_DOUBLES
        see(ledger, AttestWrite(0, tuple(vote("r1", n) for n in (9, 10, 11, big - 1, big)), 1))
        for index, lowest in ((big, big), (big - 1, big - 1), (10, 10), (11, 10), (9, 9), (10, 9)):
            see(ledger, AttestWrite(0, (vote("r1", index, "x"),), 2))
            conflict = see(ledger, AttestWrite(0, (), 3)).rows["r1"].conflict
            assert conflict == Conflict(lowest, vote("r1", lowest), vote("r1", lowest, "x"))

    def test_the_votes_written_last_are_kept(self, world: World) -> None:
        ledger = world.ledger("r1")
        many = tuple(vote("r1", n) for n in range(100, 100 + KEEP_VOTES))
        see(ledger, AttestWrite(0, many, 1))
        see(ledger, AttestWrite(0, (many[0],), 2))
        votes = see(ledger, AttestWrite(0, (vote("r1", 5),), 3)).rows["r1"].votes
        assert votes == (*many[2:], many[0], vote("r1", 5))

    def test_the_same_exchange_twice_changes_nothing(self, world: World) -> None:
        ledger = world.ledger("r1")
        proposal = Proposal(1, 2, hash_of("a"), 20, hash_of("i"))
        writes = (ProposeWrite(0, proposal), AttestWrite(0, (vote("r1", 1), vote("r1", 2)), 1))
        assert see(ledger, *writes) == see(ledger, *writes)

    def test_writes_take_effect_in_order(self, world: World) -> None:
        ledger = world.ledger("r1")
        view = see(ledger, LeaseWrite(0, "acquire", 60_000), LeaseWrite(0, "release"), AttestWrite(0, (), 1))
        assert view == PartitionView(None, None, {"r1": Row("r1", "b1", 1)})

    # loss

    def test_a_store_that_lost_everything_goes_on_empty(self, world: World) -> None:
        ledger = world.ledger("r1")
        writes = (
            LeaseWrite(0, "acquire", 60_000),
            ProposeWrite(0, Proposal(9, 1, hash_of("a"), 10, hash_of("i"))),
            AttestWrite(0, (vote("r1", 1),), 1),
        )
        see(ledger, *writes)
        world.forget()
        assert PartitionView(None, None, {}) == see(ledger)
        lower = ProposeWrite(0, Proposal(2, 1, hash_of("a"), 10, hash_of("i")))
        view = see(ledger, writes[0], lower, AttestWrite(0, (vote("r1", 1, "x"),), 1))
        assert owner(view) == ("r1", "b1")
        assert view.proposal == lower.proposal
        assert view.rows["r1"] == Row("r1", "b1", 1, (vote("r1", 1, "x"),))


def _until(world: World, question: Callable[[], bool]) -> None:
    for _ in range(6000):
        if question():
            return
        world.pause()
    raise AssertionError("it did not come to pass")
