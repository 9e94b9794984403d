"""Certifying and the quorum's clock against what they are said to be, in other words; and mutants of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from finality.core.ballots import Conflict, Fact, Row, Vote, certify, merge_rows, quorum_clock

VOTERS = ("r1", "r2", "r3")
EVERYBODY = (*VOTERS, "learner")
INDICES = (1, 2, 3)
RIGHT = Fact(b"right", 10, b"in")
FACTS = (RIGHT, Fact(b"wrong", 10, b"in"), Fact(b"right", 10, b"other"), Fact(b"right", 11, b"in"))
SETTINGS = settings(
    max_examples=400, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
)

Certificate = tuple[int, tuple[Vote, ...]] | None
Certify = Callable[[Mapping[str, Row], Callable[[int], Fact | None], Collection[str], int], Certificate]


def cast(replica: str, index: int, fact: Fact, boot: str = "b1") -> Vote:
    return Vote(replica, boot, index, *fact)


def row(replica: str, *votes: Vote, conflict: Conflict | None = None, clock_ns: int = 0) -> Row:
    return Row(replica, "b1", clock_ns, votes, conflict)


@st.composite
def rows_of(draw: st.DrawFn) -> dict[str, Row]:
    rows = {}
    for replica in EVERYBODY:
        one = st.builds(
            cast,
            st.just(replica),
            st.sampled_from(INDICES),
            st.one_of(st.just(RIGHT), st.sampled_from(FACTS)),
            st.sampled_from(["b1", "b2"]),
        )
        votes = draw(st.lists(one, max_size=4))
        at = draw(st.sampled_from([None, None, *INDICES]))
        conflict = None if at is None else Conflict(at, cast(replica, at, FACTS[0]), cast(replica, at, FACTS[1]))
        if draw(st.booleans()) or votes:
            rows[replica] = row(replica, *votes, conflict=conflict)
    return rows


def attests(rows: Mapping[str, Row], replica: str, index: int) -> bool:
    """The voter said RIGHT at the index and contradicted itself nowhere up to it."""
    if replica not in rows:
        return False
    mine = rows[replica]
    if mine.conflict is not None and mine.conflict.index <= index:
        return False
    for lower in range(index + 1):
        if len({vote.fact for vote in mine.votes if vote.index == lower}) > 1:
            return False
    return any(vote.index == index and vote.fact == RIGHT for vote in mine.votes)


def check_certify(implementation: Certify) -> None:
    @SETTINGS
    @given(rows_of(), st.integers(1, 3), st.sampled_from([(1, 2, 3), (1, 2), (2,)]))
    @example({"r1": row("r1", cast("r1", 1, RIGHT, "b1"), cast("r1", 1, RIGHT, "b2"))}, 2, (1, 2, 3))
    def holds(rows: dict[str, Row], quorum: int, held: tuple[int, ...]) -> None:
        found = implementation(rows, lambda index: RIGHT if index in held else None, VOTERS, quorum)
        certified = [n for n in held if sum(attests(rows, replica, n) for replica in VOTERS) >= quorum]
        if not certified:
            assert found is None
            return
        assert found is not None
        index, votes = found
        assert max(certified) == index
        assert [replica for replica in VOTERS if attests(rows, replica, index)] == [vote.replica for vote in votes]
        assert {(index, RIGHT)} == {(vote.index, vote.fact) for vote in votes}

    holds()


def test_the_greatest_index_that_a_quorum_attests_is_certified() -> None:
    check_certify(certify)


def _mutant(
    *,
    per_boot: bool = False,
    all_votes: bool = False,
    anybody: bool = False,
    blind: bool = False,
    only_at: bool = False,
    lowest: bool = False,
    chain_only: bool = False,
    above: bool = False,
) -> Certify:
    """A plain implementation that is right without its flags."""

    def wrong(
        rows: Mapping[str, Row], own: Callable[[int], Fact | None], voters: Collection[str], quorum: int
    ) -> Certificate:
        for index in sorted(INDICES, reverse=not lowest):
            fact = own(index)
            if fact is None:
                continue
            votes: dict[object, Vote] = {}
            for replica, mine in sorted(rows.items()):
                if replica not in voters and not anybody:
                    continue
                silent = any((n == index if only_at else n <= index) and _contradicts(mine, n) for n in INDICES)
                if silent and not blind:
                    continue
                for vote in mine.votes:
                    equal = vote.fact == fact or all_votes or (chain_only and vote.chain == fact.chain)
                    if vote.index == index and equal:
                        votes.setdefault((replica, vote.boot) if per_boot else replica, vote)
            if len(votes) >= quorum + above:
                return index, tuple(votes.values())
        return None

    return wrong


def _contradicts(mine: Row, index: int) -> bool:
    if mine.conflict is not None and mine.conflict.index == index:
        return True
    return len({vote.fact for vote in mine.votes if vote.index == index}) > 1


def test_the_plain_implementation_is_right_without_its_flags() -> None:
    check_certify(_mutant())


@pytest.mark.parametrize(
    "flag", ["per_boot", "all_votes", "anybody", "blind", "only_at", "lowest", "chain_only", "above"]
)
def test_a_wrong_count_is_noticed(flag: str) -> None:
    with pytest.raises(AssertionError):
        check_certify(_mutant(**{flag: True}))


def test_two_processes_of_one_voter_have_one_vote() -> None:
    rows = {"r1": row("r1", cast("r1", 1, RIGHT, "b1"), cast("r1", 1, RIGHT, "b2"))}
    assert certify(rows, lambda _: RIGHT, VOTERS, 2) is None
    assert certify(rows, lambda _: RIGHT, VOTERS, 1) == (1, (cast("r1", 1, RIGHT),))


# union


@settings(SETTINGS, max_examples=150)
@given(rows_of(), rows_of())
def test_a_union_knows_what_either_knew(one: dict[str, Row], other: dict[str, Row]) -> None:
    for replica in one.keys() & other.keys():
        union = merge_rows(one[replica], other[replica])
        indices = {vote.index for side in (one, other) for vote in side[replica].votes}
        assert indices == {vote.index for vote in union.votes}
        for index in INDICES:
            sides = [*one[replica].votes, *other[replica].votes]
            contradicted = any(_contradicts(side[replica], index) for side in (one, other))
            contradicted = contradicted or len({vote.fact for vote in sides if vote.index == index}) > 1
            if contradicted:
                assert union.conflict is not None
                assert union.conflict.index <= index
                break
            said = {vote.fact for vote in sides if vote.index == index}
            assert said == {vote.fact for vote in union.votes if vote.index == index}
        else:
            assert union.conflict is None


def test_a_union_takes_boot_and_clock_from_the_newer_row() -> None:
    old, new = Row("r1", "b1", 5), Row("r1", "b2", 6)
    assert merge_rows(old, new) == merge_rows(new, old) == new


def test_rows_of_different_voters_are_no_union() -> None:
    with pytest.raises(ValueError, match="no union"):
        merge_rows(row("r1"), row("r2"))


# clock

Clock = Callable[[Mapping[str, Row], Collection[str], int, int, int], int | None]


def check_clock(implementation: Clock) -> None:
    @SETTINGS
    @given(
        st.dictionaries(st.sampled_from(EVERYBODY), st.integers(90, 115)),
        st.integers(1, 3),
    )
    def holds(clocks: dict[str, int], quorum: int) -> None:
        rows = {replica: row(replica, clock_ns=clock) for replica, clock in clocks.items()}
        found = implementation(rows, VOTERS, quorum, 100, 3)
        fresh = [clock for replica, clock in clocks.items() if replica in VOTERS and clock >= 97]
        if len(fresh) < quorum:
            assert found is None
            return
        assert found in fresh
        assert sum(clock >= found for clock in fresh) >= quorum, "fewer than a quorum hold that it is so late"
        assert sum(clock > found for clock in fresh) < quorum, "a quorum holds that it is later"

    holds()


def test_the_clock_is_the_latest_moment_that_a_quorum_has_reached() -> None:
    check_clock(quorum_clock)


def _clock(shift: int = 0, window: int = 0, voters: tuple[str, ...] = VOTERS, needed: int = 0) -> Clock:
    def wrong(rows: Mapping[str, Row], _: Collection[str], quorum: int, now_ns: int, window_ns: int) -> int | None:
        clocks = sorted(
            (
                mine.clock_ns
                for name, mine in rows.items()
                if name in voters and mine.clock_ns >= now_ns - window_ns - window
            ),
            reverse=True,
        )
        if len(clocks) < quorum - needed:
            return None
        return clocks[min(max(quorum - 1 + shift, 0), len(clocks) - 1)] if clocks else None

    return wrong


@pytest.mark.parametrize(
    "mutant",
    [
        _clock(shift=-1),
        _clock(shift=1),
        _clock(window=1000),
        _clock(window=-1),
        _clock(voters=EVERYBODY),
        _clock(needed=1),
    ],
    ids=["too high", "too low", "stale rows", "window too short", "anybody's", "too few"],
)
def test_a_wrong_clock_is_noticed(mutant: Clock) -> None:
    with pytest.raises(AssertionError):
        check_clock(mutant)


def test_the_plain_clock_is_right_without_its_flags() -> None:
    check_clock(_clock())


def test_one_fast_clock_moves_nothing() -> None:
    rows = {"r1": row("r1", clock_ns=2**62), "r2": row("r2", clock_ns=99), "r3": row("r3", clock_ns=100)}
    assert quorum_clock(rows, VOTERS, 2, 100, 3) == 100
    assert quorum_clock(rows, VOTERS, 2, 2**62, 3) is None, "its owner finds itself alone"
