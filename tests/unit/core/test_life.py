"""Every row of the table of a job's life, and every timer, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from finality.core.reconcile import LIFE
from support.small_partition import JOB, Partition, kinds

SETTLING = {"settle": "5ns"}
AT_ONCE = {"settle": "none"}
RERUN = {"on": "VIOLATED", "action": "rerun", "backoff": "2ns", "budget": 2, "expires": "4ns"}


def ordered(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The command among some entries."""
    return next(row for row in entries if row["kind"] == "command")


def opened() -> None:
    part = Partition(AT_ONCE)
    assert kinds(part.event("PENDING", at=1)) == ["delta"]
    assert list(part.fold.state.jobs) == [JOB]


def final_at_once() -> None:
    part = Partition(AT_ONCE)
    part.event("RUNNING", at=1)
    assert kinds(part.event("SUCCEEDED", at=2)) == ["outcome"]
    assert part.outcomes() == ["outcome SATISFIED"]
    assert list(part.fold.state.tombstones) == [JOB]


def ended_and_settling() -> None:
    part = Partition(SETTLING)
    assert kinds(part.event("SUCCEEDED", at=2)) == ["delta"]
    assert part.fold.state.jobs[JOB].settle == -5  # waits for a tick
    part.tick()
    assert part.fold.state.jobs[JOB].settle == 6


def reopened() -> None:
    part = Partition(SETTLING)
    part.event("SUCCEEDED", at=2)
    part.tick()
    part.event("RUNNING", at=3)
    assert part.fold.state.jobs[JOB].settle == 0
    part.tick(50)
    assert part.outcomes() == []


def settling_anew() -> None:
    part = Partition(SETTLING)
    part.event("FAILED", at=2)
    part.tick()
    part.tick(3)
    part.event("SUCCEEDED", at=3)
    part.tick(2)  # the first window would be over
    assert part.outcomes() == []
    part.tick(5)
    assert part.outcomes() == ["outcome SATISFIED"]


def settled() -> None:
    part = Partition(SETTLING)
    part.event("SUCCEEDED", at=2)
    part.tick()
    part.tick(4)
    assert part.outcomes() == []
    part.tick(1)
    assert part.outcomes() == ["outcome SATISFIED"]


def compensated() -> None:
    part = Partition({**SETTLING, "compensations": [RERUN]})
    part.event("FAILED", at=2)
    part.tick()
    entries = part.tick(5)
    assert [row["action"] for row in entries if row["kind"] == "command"] == ["rerun"]
    assert part.outcomes() == []


def expired() -> None:
    part = Partition({**AT_ONCE, "deadline": "9ns"})
    part.event("RUNNING", at=2)
    part.tick()
    part.tick(8)
    assert part.outcomes() == []
    part.tick(1)
    assert part.outcomes() == ["outcome EXPIRED"]
    helped = Partition({**AT_ONCE, "deadline": "9ns", "compensations": [{**RERUN, "on": "EXPIRED", "budget": 1}]})
    helped.event("RUNNING", at=2)
    helped.tick()
    assert "command" in kinds(helped.tick(9))
    helped.tick()
    helped.tick(4)  # the command did not help
    assert helped.outcomes() == ["outcome EXPIRED"]


def helped() -> None:
    part = Partition({**AT_ONCE, "compensations": [RERUN]})
    assert "command" in kinds(part.event("FAILED", at=2))
    part.event("RUNNING", at=3)
    assert part.fold.state.jobs[JOB].extra is not None
    assert part.outcomes() == []
    part.event("SUCCEEDED", at=4)
    assert part.outcomes() == ["outcome SATISFIED"]


def not_helped() -> None:
    part = Partition({**AT_ONCE, "compensations": [RERUN]})
    command = ordered(part.event("FAILED", at=2))
    part.event(answers={"command": command["id"], "ok": False})
    part.tick()
    second = part.tick(2)  # backoff
    assert [row["attempt"] for row in second if row["kind"] == "command"] == [2]
    part.tick()
    part.tick(4)  # expired, and the budget is used
    assert part.outcomes() == ["outcome VIOLATED"]


def cascaded() -> None:
    child = "default/s/i/run/2"
    part = Partition({**AT_ONCE, "cascade": {"parent": "root"}})
    part.event("RUNNING", at=1)
    part.event("RUNNING", child, at=1, root=JOB)
    part.event("SUCCEEDED", at=2)
    assert part.outcomes(child) == ["outcome CANCELLED"]
    assert part.said[-1]["marks"] == ["CASCADED"]


def amended() -> None:
    part = Partition(AT_ONCE)
    part.event("SUCCEEDED", at=2)
    assert part.event("SUCCEEDED", at=2) == []  # a repeat
    entry = part.event("FAILED", at=3)[0]
    final = next(row for row in part.said if row["kind"] == "outcome")
    assert (entry["kind"], entry["outcome"], entry["class"]) == ("amendment", "VIOLATED", "outcome")
    assert part.said.index(final) + 1 == entry["amends"]
    late = part.event(at=1)[0]  # older evidence: only when it was created is news
    assert (late["class"], late["outcome"], late["created"]) == ("evidence", "VIOLATED", "1")


ROWS: dict[tuple[str, str, str], Callable[[], None]] = {
    ("—", "first event", "open"): opened,
    ("open", "ended phase, settle none", "final"): final_at_once,
    ("open", "ended phase, settle a duration", "settling"): ended_and_settling,
    ("settling", "newer evidence with an open phase", "open"): reopened,
    ("settling", "newer evidence with an ended phase", "settling, from the start"): settling_anew,
    ("settling", "settle over, met or not to be helped", "final"): settled,
    ("settling", "settle over, unmet, compensation left", "compensating"): compensated,
    ("open", "deadline", "final (EXPIRED) or compensating"): expired,
    ("compensating", "newer evidence", "open or settling"): helped,
    (
        "compensating",
        "answer failed or command expired",
        "compensating, or final when the budget is used",
    ): not_helped,
    ("open, settling, compensating", "its root ended", "final (CANCELLED)"): cascaded,
    ("final", "late evidence", "final, with an amendment when it changes what was said (I12)"): amended,
}


def test_every_row_of_the_table_has_a_case() -> None:
    """No transition without a test, no test of a transition that is gone."""
    assert set(LIFE) == set(ROWS)


@pytest.mark.parametrize("row", LIFE, ids=lambda row: f"{row[0]} / {row[1]}")
def test_life(row: tuple[str, str, str]) -> None:
    """The transition happens."""
    ROWS[row]()
