"""Borders of a job's life: gaps, leases, conflicts, families, breakers, restores, each at its very edge."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from finality.core.fold import Fold
from finality.core.state import State
from support.small_partition import JOB, Partition, kinds

SETTLING = {"settle": "5ns"}
AT_ONCE = {"settle": "none"}
RERUN = {"on": "VIOLATED", "action": "rerun", "backoff": "2ns", "budget": 2, "expires": "4ns"}


def ordered(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The command among some entries."""
    return next(row for row in entries if row["kind"] == "command")


def test_a_gap_is_held_and_then_passed() -> None:
    """By number, by time, and by the end."""
    ordered = {"revisions": "contiguous", "holdMax": 2, "holdFor": "5ns"}
    by_time = Partition({**AT_ONCE, "ordering": ordered})
    by_time.event("RUNNING", revision=1)
    by_time.event("SUCCEEDED", revision=3)
    by_time.tick()
    assert by_time.outcomes() == []
    by_time.tick(5)
    assert (by_time.outcomes(), by_time.said[-1]["marks"]) == (["outcome SATISFIED"], ["GAP"])

    by_number = Partition({**AT_ONCE, "ordering": ordered})
    by_number.event("RUNNING", revision=1)
    for revision in (5, 4, 3):
        by_number.event("SUCCEEDED" if revision == 5 else "RUNNING", revision=revision)
    assert (by_number.outcomes(), by_number.said[-1]["marks"]) == (["outcome SATISFIED"], ["GAP"])

    filled = Partition({**AT_ONCE, "ordering": ordered})
    for revision in (1, 3, 2):
        filled.event("SUCCEEDED" if revision == 3 else "RUNNING", revision=revision)
    assert filled.outcomes() == ["outcome SATISFIED"]
    assert "marks" not in filled.said[-1]

    by_deadline = Partition({**AT_ONCE, "ordering": {**ordered, "holdFor": "1h"}, "deadline": "5ns"})
    by_deadline.event("RUNNING", revision=1)
    by_deadline.event("RUNNING", revision=3)
    by_deadline.tick()
    by_deadline.tick(5)
    assert (by_deadline.outcomes(), by_deadline.said[-1]["marks"]) == (["outcome EXPIRED"], ["GAP"])


def test_a_lease_runs_out() -> None:
    """The holder is fenced; a predicate can see it; a new grant heals it."""
    lease = {"ttl": "6ns", "keepAlive": "2ns", "longestStep": "4ns"}
    part = Partition({**AT_ONCE, "jobLease": lease, "predicates": [{"name": "kept", "cel": "!fenced"}]})
    part.event("RUNNING", at=1, lease={"holder": "h1", "op": "grant"})
    part.tick()
    part.tick(6)
    assert part.said[-1]["marks"] == ["LEASE_LOST"]
    assert part.said[-1]["delta"]["predicates.kept"] == "UNMET"
    assert part.event("SUCCEEDED", at=2, holder="h1")[0]["code"] == "NO_LEASE"
    part.event(lease={"holder": "h2", "op": "grant"})
    part.event("SUCCEEDED", at=3, holder="h2")
    assert part.outcomes() == ["outcome SATISFIED"]


def test_a_strict_conflict_is_unproven_at_once() -> None:
    """Of two endings, and of two open phases too: no deadline passed."""
    for phases in (("SUCCEEDED", "FAILED"), ("RUNNING", "PAUSED")):
        part = Partition({"settle": "5ns", "reconcilePolicy": "strict"})
        for phase in phases:
            part.event(phase, revision=7)
        assert part.outcomes() == ["outcome UNPROVEN"]
        part.event("SUCCEEDED", revision=8)
        assert part.outcomes()[-1] == "amendment SATISFIED"


def test_endings_are_not_hidden_by_many_words() -> None:
    """Nine contents at one order key, eight of one ending: the conflict is still seen."""
    part = Partition()
    part.event("CANCELLED", at=5)
    for number in range(9):
        part.event("SUCCEEDED", at=5, word=f"w{number}")
    assert part.outcomes()[-1] == "amendment UNPROVEN"
    assert part.said[-1]["actual"] == {"phase": "CONFLICT"}


def test_a_finished_job_that_runs_again_is_unproven() -> None:
    """Final, and then its newest evidence is open: nobody can say how it ended."""
    part = Partition()
    part.event("SUCCEEDED", at=2)
    part.event("RUNNING", at=3)
    assert part.outcomes() == ["outcome SATISFIED", "amendment UNPROVEN"]


def test_tombstones_leave_and_unknown_jobs_stay_out() -> None:
    """By number; an event at or behind the horizon makes no new job, a later one does."""
    part = Partition(digest_every=2, max_finished=1)
    for number in range(4):
        part.event("SUCCEEDED", f"default/s/i/run/{number}", at=10 + number)
    assert len(part.fold.state.tombstones) <= 2
    entry = part.event("RUNNING", "default/s/i/run/0", at=10)[-1]
    assert (entry["kind"], entry["job"], entry["horizon"]) == ("beyond-memory", "default/s/i/run/0", "11")
    assert kinds(part.event("RUNNING", "default/s/i/run/9", at=99))[0] == "delta"


def test_a_family_as_deep_as_it_is_long_ends_in_one_step() -> None:
    """Three thousand jobs, each the root of the next: nothing recurs."""
    part = Partition({**AT_ONCE, "cascade": {"parent": "root"}})
    keys = [f"default/s/i/run/{number}" for number in range(3000)]
    part.event("RUNNING", keys[0], at=1)
    for root, key in pairwise(keys):
        part.event("RUNNING", key, at=1, root=root)
    assert len(part.event("SUCCEEDED", keys[0], at=2)) == 3000


def test_a_large_family_ends_over_several_moments() -> None:
    """A thousand in one step, the rest with the next moments of log time."""
    part = Partition({**AT_ONCE, "cascade": {"parent": "root"}})
    part.event("RUNNING", at=1)
    for number in range(2, 2203):
        part.event("RUNNING", f"default/s/i/run/{number}", at=1, root=JOB)
    assert len(part.event("SUCCEEDED", at=2)) == 1001
    part.tick()
    assert len(part.tick()) == 1000
    part.tick()
    assert len(part.tick()) == 201
    assert part.fold.state.jobs == {}


def test_an_open_breaker_gives_no_command() -> None:
    """After as many failures in a row; it closes with the first answer that says ok."""
    rule = {**RERUN, "budget": 9, "breaker": 2, "backoff": "0s", "expires": "9ns"}
    part = Partition({**AT_ONCE, "compensations": [rule]})
    for number in (1, 2):
        command = ordered(part.event("FAILED", f"default/s/i/run/{number}", at=2))
        part.event(job=f"default/s/i/run/{number}", answers={"command": command["id"], "ok": False})
    last = part.event("FAILED", "default/s/i/run/3", at=2)
    assert (kinds(last), last[0]["marks"], last[0]["outcome"]) == (["outcome"], ["BREAKER_OPEN"], "VIOLATED")
    part.tick(9)
    again = ordered(part.event("FAILED", "default/s/i/run/4", at=2))
    part.event(job="default/s/i/run/4", answers={"command": again["id"], "ok": True})
    assert part.fold.state.breakers == {"b/default/c/rerun": (0, 0)}


def test_an_answer_to_a_command_that_a_newer_contract_lacks_is_survived() -> None:
    """`follow: latest`, and the compensation is gone when the answer comes."""
    spec = {**AT_ONCE, "follow": "latest"}
    part = Partition({**spec, "compensations": [RERUN]})
    command = ordered(part.event("FAILED", at=2))
    part.contract(spec)
    part.event(answers={"command": command["id"], "ok": False})
    assert part.outcomes() == ["outcome VIOLATED"]
    assert part.fold.state.breakers == {}


def test_a_restored_partition_fires_no_deadline_twice() -> None:
    """The deadline passed and a command went out; after a restore it is still that command that is waited for."""
    rule = {**RERUN, "on": "EXPIRED", "budget": 5}
    part = Partition({**AT_ONCE, "deadline": "3ns", "compensations": [rule]})
    part.event("RUNNING", at=1)
    part.tick()
    assert "command" in kinds(part.tick(3))
    part.fold = Fold(part.genesis, State.restore(part.genesis, list(part.fold.state.items()), part.fold.state.index))
    assert part.tick() == []
    assert kinds(part.tick(4)) == []  # expired: the backoff before the next one begins
    assert part.fold.state.breakers == {"b/default/c/rerun": (1, 0)}


def test_a_restored_partition_keeps_families_whose_contract_moved_on() -> None:
    """The newest contract has no cascade; the child had one when it was met."""
    child = "default/s/i/run/2"
    part = Partition({**AT_ONCE, "follow": "latest", "cascade": {"parent": "root"}})
    part.event("RUNNING", at=1)
    part.event("RUNNING", child, at=1, root=JOB)
    part.contract({**AT_ONCE, "follow": "latest"})
    part.event("PAUSED", child, at=2)
    part.fold = Fold(part.genesis, State.restore(part.genesis, list(part.fold.state.items()), part.fold.state.index))
    part.event("SUCCEEDED", at=2)
    assert part.outcomes(child) == ["outcome CANCELLED"]


def test_a_backoff_doubles() -> None:
    """2, 4, 8 ns of log time before the second, third and fourth command."""
    part = Partition({**AT_ONCE, "compensations": [{**RERUN, "budget": 4, "expires": "1ns", "breaker": 9}]})
    part.event("FAILED", at=2)
    sent = []
    for _ in range(40):
        sent += [part.time for row in part.tick() if row["kind"] == "command"]
    assert [second - first for first, second in pairwise(sent)] == [7, 11]
    assert part.outcomes() == ["outcome VIOLATED"]


def test_a_breaker_lets_one_command_through_when_its_time_is_over() -> None:
    """Open for one expiry; the next failure opens it again."""
    rule = {**RERUN, "budget": 1, "breaker": 1, "expires": "9ns"}
    part = Partition({**AT_ONCE, "compensations": [rule]})

    def fail(number: int) -> list[str]:
        job = f"default/s/i/run/{number}"
        said = part.event("FAILED", job, at=2)
        if "command" in kinds(said):
            part.event(job=job, answers={"command": ordered(said)["id"], "ok": False})
        return kinds(said)

    assert "command" in fail(1)
    assert fail(2) == ["outcome"]
    part.tick(9)
    assert "command" in fail(3)
    assert fail(4) == ["outcome"]


def test_a_strict_conflict_after_a_deadline_is_unproven() -> None:
    """Late evidence that contradicts itself proves no expiry."""
    part = Partition({**AT_ONCE, "reconcilePolicy": "strict", "deadline": "3ns"})
    part.event("RUNNING", revision=1)
    part.tick()
    part.tick(3)
    part.event("RUNNING", revision=2)
    part.event("PAUSED", revision=2)
    assert part.outcomes() == ["outcome EXPIRED", "amendment UNPROVEN"]


def test_a_limit_is_met_up_to_its_last_nanosecond() -> None:
    """Run time and latency, at the limit and one beyond."""
    for end, outcome in ((6, "SATISFIED"), (7, "VIOLATED")):
        for limits, times in (({"runTime": "3ns"}, {"start": 3}), ({"latency": "3ns"}, {"created": 3})):
            part = Partition({**AT_ONCE, "limits": limits})
            part.event("SUCCEEDED", at=9, end=end, **times)
            assert part.outcomes() == [f"outcome {outcome}"]


def test_a_tombstone_stays_for_the_whole_memory() -> None:
    """As old as the memory is not older than it."""
    for now, kept in ((15, True), (16, False)):
        part = Partition(AT_ONCE, digest_every=4, memory="5", log_time="events")
        part.event("SUCCEEDED", at=10)
        part.event("RUNNING", "default/s/i/run/2", at=now)
        assert (JOB in part.fold.state.tombstones) == kept


def test_a_repeated_rival_that_was_left_out_opens_no_new_window() -> None:
    """Nine words at one order key, eight are kept; the ninth again and again does not put the end off."""
    part = Partition(SETTLING)
    for number in range(9):
        part.event("SUCCEEDED", at=5, word=f"w{number}")
    part.tick()
    part.tick(4)
    part.event("SUCCEEDED", at=5, word="w0")
    part.tick(1)
    assert part.outcomes() == ["outcome SATISFIED"]


def test_a_deadline_ends_a_job_that_seems_to_have_ended_behind_a_gap() -> None:
    """Held events keep a job open, but not beyond its deadline; whether it ended in time says the evidence."""
    for end, outcome in ((3, "SATISFIED"), (30, "EXPIRED")):
        part = Partition({**AT_ONCE, "deadline": "9ns", "ordering": {"revisions": "contiguous", "holdFor": "1h"}})
        part.event("PENDING", revision=1, created=1)
        part.event("RUNNING", revision=3)
        part.tick()
        part.event("SUCCEEDED", revision=5, at=end)
        part.event("SUCCEEDED", revision=4, at=end)
        part.tick(9)
        assert part.outcomes() == [f"outcome {outcome}"]
        assert part.said[-1]["marks"] == ["GAP"]
