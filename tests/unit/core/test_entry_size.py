"""No entry outgrows its limit: a block with a larger one would be refused by every reader, for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest

from finality.core.attested import MAX_ENTRY_BYTES
from finality.core.contract import ContractError, compile_contract
from finality.core.event import Event, encode_event
from finality.core.fold import Fold
from finality.core.genesis import Genesis, Parameters, Voters
from finality.core.jobkey import MAX_KEY_BYTES
from finality.core.records import COMMAND, EVENT
from finality.core.refold.contracts import compiled
from finality.core.refold.reading import document_of

JOB = "default/s/i/k/" + "x" * (MAX_KEY_BYTES - 14)


def document(letter: str, predicates: int = 16) -> dict[str, Any]:
    """A contract that asks for as much as it can; `letter` fills the text literals of its predicates."""
    long = [f"word == '{letter * (1024 - 20 - len(str(at)))}{at}'" for at in range(predicates)]
    return {
        "apiVersion": "finality.dev/v1alpha1",
        "kind": "StatefulJob",
        "metadata": {"name": "n" * 63, "tenant": "default"},
        "spec": {
            "selector": {},
            "targetState": {
                "phase": "SUCCEEDED",
                "metrics": {f"m{at:02}".ljust(63, "x"): ">= 0.92" for at in range(32)},
            },
            "limits": {"runTime": "1h", "latency": "800ms", "retries": 2},
            "settle": "none",
            "stages": [f"s{at:02}".ljust(63, "x") for at in range(64)],
            "predicates": [{"name": f"p{at:02}".ljust(63, "x"), "cel": cel} for at, cel in enumerate(long)],
        },
    }


def test_the_largest_contract_makes_entries_that_fit() -> None:
    tree = document("a")
    contract = compile_contract(json.dumps(tree).encode())
    genesis = Genesis(1, "0", "n", Parameters(log_time="events"), 1, "here", (Voters(1, "here", ("r1",)),))
    fold = Fold(genesis)
    command = b'{"document":' + contract.document + b',"epoch":1,"number":1,"op":"contract"}'
    event = Event(
        job=JOB,
        at="9",
        phase="FAILED",
        reason="R" * 64,
        word="\u00e9" * 256,
        conditions=dict.fromkeys(contract.stages, True),
        metrics=dict.fromkeys(contract.bounds, "9" * 40),
    )
    made = fold.step(2, COMMAND, None, command, ())
    for position, phase in enumerate(("RUNNING", "FAILED"), start=3):
        value = encode_event(
            Event(**{**{name: getattr(event, name) for name in Event.__struct_fields__}, "phase": phase})
        )
        made += fold.step(position, EVENT, None, value, ())
    assert [row.kind for row in made] == ["control", "delta", "outcome"]
    assert max(len(row.entry) for row in made) <= MAX_ENTRY_BYTES


def test_predicates_that_would_not_fit_are_refused_by_both_readings() -> None:
    tree = document("\u4e00")
    with pytest.raises(ContractError, match="fit into an entry"):
        compile_contract(json.dumps(tree).encode())
    with pytest.raises(ValueError, match="fit into an entry"):
        compiled(document_of(json.dumps(tree).encode()))
