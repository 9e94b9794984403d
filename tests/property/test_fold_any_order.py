"""Order and repetition of events change nothing: the effective outcome of each job is the same.

Histories without rules of time (no deadline, settle window, lease, hold or compensation): those are allowed to see
which record came first. The effective outcome is the outcome with its amendments. A job whose newest evidence is an
open phase has none: one order sees it open, another one final and then amended to that open phase.
"""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given

from finality.core.event import OPEN
from finality.core.fold import Fold
from finality.core.genesis import decode_genesis
from finality.core.records import COMMAND, KIND, Record
from support.effort import effort
from support.histories import History, Shape, histories, seeds

TIMELESS = Shape(timeless=True, records=24)
WHEN = ("amends", "class", "kind", "marks", "time")  # when and how it was said, not what


def effective(history: History, records: list[Record]) -> dict[str, dict[str, Any]]:
    """What is said of each job in the end."""
    fold = Fold(decode_genesis(history.genesis))
    said: dict[str, dict[str, Any]] = {}
    for position, record in enumerate(records, 2):
        kind = dict(record.headers)[KIND] or b""
        for made in fold.step(position, kind, record.key, record.value, record.headers):
            if made.kind in ("outcome", "amendment"):
                entry = json.loads(made.entry)
                said[entry["job"]] = {name: item for name, item in entry.items() if name not in WHEN}
    return {job: entry for job, entry in said.items() if entry["phase"] not in OPEN and entry["phase"]}


@effort(60)
@given(histories(TIMELESS), seeds)
def test_any_order_and_any_repetition_end_alike(history: History, seed: int) -> None:
    """Contracts first, in their order; then the events as they come, shuffled, reversed, each up to three times."""
    commands = [record for record in history.records if dict(record.headers)[KIND] == COMMAND]
    events = history.records[len(commands) :]
    expected = effective(history, commands + events)
    rng = random.Random(seed)
    shuffled = rng.sample(events, len(events))
    repeated = [event for event in events for _ in range(rng.randrange(1, 4))]
    rng.shuffle(repeated)
    for order in (shuffled, events[::-1], repeated):
        assert effective(history, commands + order) == expected


@effort(25)
@given(histories(TIMELESS))
def test_a_repeated_record_says_nothing_new(history: History) -> None:
    """An event twice in a row: the second time the fold has nothing to say."""
    fold = Fold(decode_genesis(history.genesis))
    position = 1
    for record in history.records:
        kind = dict(record.headers)[KIND] or b""
        for again in (False, True):
            position += 1
            made = fold.step(position, kind, record.key, record.value, record.headers)
            assert not again or [row.kind for row in made if row.kind != "digest"] == []
