"""Every code that an entry can carry, once: rejected records and commands that changed nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from finality.core.records import (
    CAUSE,
    COMMAND,
    EVENT,
    KIND,
    REJECTED,
    SOURCE,
    TICK,
    Coordinate,
    SourceMark,
    encode_source,
)
from support.small_partition import BASE, JOB, Partition, kinds

DOCUMENT = {**BASE, "metadata": {"name": "c"}, "spec": {"settle": "none"}}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "BAD_EVENT"),
        (b"{}", "BAD_EVENT"),
        (b"\xff", "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","more":1}', "BAD_EVENT"),
        (b'{"job":"default/s/i/run/\\u0000"}', "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","at":"1e3"}', "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","attempt":1000001}', "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","attempt":' + b"9" * 5000 + b"}", "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","parts":' + b"[" * 9000 + b"]" * 9000 + b"}", "BAD_EVENT"),
        (b'{"job":"default/s/i/run/1","word":"' + b"w" * 65_536 + b'"}', "EVENT_TOO_LARGE"),
    ],
)
def test_a_record_that_is_no_event_is_rejected(value: bytes, code: str) -> None:
    """One entry, with the code, and the place and hash of the bytes."""
    entry = Partition().record(EVENT, value)[0]
    assert (entry["kind"], entry["code"], entry["length"], entry["position"]) == ("rejected", code, len(value), 2)


@pytest.mark.parametrize(
    ("cause", "code"),
    [(b"BAD_ROW", "BAD_ROW"), (b"no code", "UNKNOWN_CAUSE"), (b"", "UNKNOWN_CAUSE"), (None, "UNKNOWN_CAUSE")],
)
def test_a_record_that_ingest_rejected_keeps_its_cause(cause: bytes | None, code: str) -> None:
    """The code of its header, where that is one."""
    assert Partition().record(REJECTED, b"raw", ((KIND, REJECTED), (CAUSE, cause)))[0]["code"] == code


def test_leases_refuse() -> None:
    """Another holder's step, and the phase of one who holds nothing."""
    lease = {"ttl": "6ns", "keepAlive": "2ns", "longestStep": "4ns"}
    part = Partition({"settle": "none", "jobLease": lease})
    part.event("RUNNING", at=1, lease={"holder": "h1", "op": "grant"})
    codes = [
        *(row["code"] for row in part.event(lease={"holder": "h2", "op": "grant"}) if row["kind"] == "rejected"),
        *(row["code"] for row in part.event("FAILED", at=2, holder="h2") if row["kind"] == "rejected"),
    ]
    assert codes == ["LEASE_REFUSED", "NO_LEASE"]
    assert part.outcomes() == []


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"op": "contract", "document": DOCUMENT}, ""),
        ({"op": "contract", "document": {**DOCUMENT, "kind": "Other"}}, "BAD_CONTRACT"),
        ({"op": "contract"}, "BAD_CONTRACT"),
        ({"op": "contract", "document": DOCUMENT, "if_version": "000000000000"}, "NOT_THAT_VERSION"),
        ({"op": "contract-delete", "tenant": "default", "name": "c"}, "NO_SUCH_CONTRACT"),
        ({"op": "voters", "sites": []}, "SITES_DIFFER"),
        (
            {
                "op": "voters",
                "sites": [
                    {"quorum": 1, "site": "primary", "voters": ["a", "b"]},
                    {"quorum": 1, "site": "dr", "voters": ["a"]},
                ],
            },
            "NO_MAJORITY",
        ),
        ({"op": "fold", "fold": 1}, ""),
        ({"op": "fold", "fold": 2}, "FOLD_VERSION_UNKNOWN"),
        ({"op": "namespace", "namespace": "drill-1"}, ""),
        ({"op": "namespace", "namespace": "Drill 1"}, "BAD_NAMESPACE"),
        ({"op": "sing"}, "UNKNOWN_OPERATION"),
    ],
)
def test_a_command_leaves_an_entry_with_or_without_an_error(body: dict[str, Any], error: str) -> None:
    """It is its turn, so it is an entry; with an error it changed nothing but whose turn it is."""
    part = Partition()
    before = [item for item in part.fold.state.items() if not item.startswith(b"h\0")]
    entry = part.command(**body)[0]
    assert (entry["kind"], entry.get("error", "")) == ("control", error)
    if error:
        assert [item for item in part.fold.state.items() if not item.startswith(b"h\0")] == before
    assert part.command(op="sing")[0]["number"] == 2


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b'{"epoch":1,"number":2,"op":"fold","fold":1}',
        b'{"epoch":2,"number":1,"op":"fold","fold":1}',
        b'{"epoch":1,"number":1,"op":"fold","fold":1,"more":1}',
        b'{"epoch":1,"number":1,"op":"epoch","generation":1,"site":"dr"}',
        b'{"epoch":2,"number":0,"op":"epoch","generation":1,"site":"primary"}',
        b'{"epoch":1,"number":0,"op":"epoch","generation":1,"site":"dr"}',
        b'{"epoch":9007199254740992,"number":0,"op":"epoch","generation":1,"site":"dr"}',
        b'{"epoch":2,"number":0,"op":"epoch","generation":1,"site":"dr","name":"x"}',
        b'{"epoch":1,"number":1,"op":"contract","document":' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"epoch":1,"number":1,"op":"contract","document":"\xff"}',
    ],
)
def test_a_command_out_of_turn_or_unreadable_says_nothing(value: bytes) -> None:
    """No entry, no change, and the next one in turn counts."""
    part = Partition()
    assert part.record(COMMAND, value) == []
    assert (part.fold.state.control_number, part.fold.state.epoch) == (0, 1)
    assert part.command(op="fold", fold=1)[0]["number"] == 1


def test_an_epoch_command_names_the_source_marks() -> None:
    """The new site's ingest goes on from them; commands are numbered anew."""
    part = Partition()
    mark = encode_source(SourceMark("topic", 3, 0, Coordinate(7, 1), None, 7))
    part.record(EVENT, json.dumps({"job": JOB}).encode(), ((SOURCE, mark),))
    entry = part.record(COMMAND, b'{"epoch":2,"number":0,"op":"epoch","generation":1,"site":"dr"}')[0]
    assert (entry["site"], entry["generation"], entry["sources"]) == ("dr", 1, [["topic", 3, 7, 1]])
    part.number = 0
    assert part.command(op="fold", fold=1)[0]["epoch"] == 2


def test_repeats_and_gaps_of_a_source_are_dropped_and_counted() -> None:
    """Not greater: a repeat. A predecessor that is not known: a gap. Both say nothing."""
    part = Partition()

    def send(offset: int, before: int | None) -> list[str]:
        coordinate = None if before is None else Coordinate(before, 0)
        mark = encode_source(SourceMark("t", 0, 0, Coordinate(offset, 0), coordinate, offset))
        value = json.dumps({"job": f"default/s/i/run/{offset}", "phase": "FAILED", "at": str(offset)}).encode()
        return kinds(part.record(EVENT, value, ((SOURCE, mark),)))

    assert [send(4, None), send(4, None), send(3, None), send(6, 5), send(5, 4), send(6, 5)] == [
        *(["outcome"], [], [], []),
        *(["outcome"], ["outcome"]),
    ]
    assert (part.fold.counts["source_repeat"], part.fold.counts["source_gap"]) == (2, 1)
    assert part.record(EVENT, b"{}", ((SOURCE, b"t 0 0 9.0 ?8"),)) == []
    assert part.fold.counts["bad_coordinates"] == 1


@pytest.mark.parametrize(
    "value", [b"", b'{"at":5}', b'{"at":"05"}', b'{"at":"5_0"}', b'{"at":"5","x":[]}', b'{"at":"-"}']
)
def test_a_tick_that_is_none_moves_no_time(value: bytes) -> None:
    """Counted, nothing else."""
    part = Partition()
    assert part.record(TICK, value) == []
    assert (part.fold.state.log_time, part.fold.counts["bad_tick"]) == (0, 1)


def test_an_unknown_kind_says_nothing() -> None:
    """A kind of a later version is numbered and ignored."""
    part = Partition()
    assert part.record(b"novel", b"x") == []
    assert part.fold.counts["unknown_kind"] == 1
