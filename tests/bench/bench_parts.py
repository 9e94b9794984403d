"""What the parts of the hot path cost, on real Borg events and without any server.

Each part runs alone over the same 40,000 records, so that the parts may be added up and held against the whole. The
whole is then fed all 158,120 events, and its outcomes are held against the known table: a fold that is quick because
it is wrong fails here.
"""

from __future__ import annotations

import gc
import time
from collections import Counter

from bench.bench_bare import BareLoop, pairs_of
from bench.bench_rows import Row, Table, cpu_us
from finality.core.attested import Leader, LogTip, VoterRow, accept_log, encode_log_record
from finality.core.canonical import chain_next, input_next
from finality.core.entries import OutcomeEntry, encode_entry
from finality.core.event import check_event, decode_event
from finality.core.inputlog import accept_input
from finality.core.records import Record
from finality.core.replica import Replica
from support.borg_history import CONTRACT, HOME, event_records, genesis, head, sample_events, tell

__all__ = ["bare_cost", "parts"]

OUTCOMES = {"SATISFIED": 28_770, "CANCELLED": 19_570, "VIOLATED": 1_619, "UNPROVEN": 75}
_SOME = 40_000


def bare_cost(records: list[Record]) -> float:
    """µs of the bare loop for one event."""

    pairs = pairs_of(records)

    def run() -> int:
        loop = BareLoop()
        loop.feed(pairs)
        loop.publish()
        return len(pairs)

    return cpu_us(run)


class _Parts:
    """The parts over the same records; each method does one of them and says how many."""

    def __init__(self, first: bytes, records: list[Record]) -> None:
        self._first = first
        self._records = records
        self.replica = Replica(first, 0, HOME)
        for record in head(first, CONTRACT):
            self.replica.feed(record)
        self._tip = self.replica.input
        self._events = [decode_event(record.value or b"") for record in records]
        for record in records:
            self.replica.feed(record)
        self._entries = [row.entry for row in self.replica.window]

    def decode(self) -> int:
        for record in self._records:
            decode_event(record.value or b"")
        return len(self._records)

    def check(self) -> int:
        for event in self._events:
            check_event(event)
        return len(self._events)

    def chain_input(self) -> int:
        chain = bytes(32)
        for position, record in enumerate(self._records):
            chain = input_next(chain, position, record.key, record.value, record.headers)
        return len(self._records)

    def accept(self) -> int:
        tip = self._tip
        for record in self._records:
            answer = accept_input(record.key, record.value, record.headers, tip, HOME)
            assert not isinstance(answer, str)
            tip = answer.tip
        return len(self._records)

    def chain_entries(self) -> int:
        chain = stream = bytes(32)
        for index, entry in enumerate(self._entries):
            chain = chain_next(stream, index, chain, index, 0, 1, entry)
        return len(self._entries)

    def encode(self) -> int:
        contract = ("borg", "0123456789ab")
        expected = {"phase": "SUCCEEDED", "runTime": "<= 1h"}
        entry = OutcomeEntry(
            {"phase": "SUCCEEDED", "runTime": "1h30m"},
            1,
            contract,
            {"runTime": "UNMET"},
            expected,
            "default/google-borg/default/job/1234567890",
            "outcome",
            "VIOLATED",
            "SUCCEEDED",
        )
        for _ in range(20_000):
            encode_entry(entry)
        return 20_000

    def blocks(self) -> int:
        """Cut, encode and accept the whole window; µs per entry."""
        replica = self.replica
        tip = _led(self._first)
        count, rows = 0, list(replica.window)
        while replica.window:
            replica.tip = tip
            block = replica.block(replica.number, (VoterRow("r1", "b1"),))
            assert block is not None
            answer = accept_log(encode_log_record(block), tip, HOME)
            assert isinstance(answer, LogTip), answer
            tip = answer
            for _ in range(len(block.entries)):
                replica.window.popleft()
            count += len(block.entries)
        replica.window.extend(rows)
        replica.tip = _empty(self._first)
        return count

    def whole(self) -> int:
        replica = Replica(self._first, 0, HOME)
        for record in self._records:
            replica.feed(record)
        return len(self._records)


def _empty(first: bytes) -> LogTip:
    """The tip of an empty log."""
    return Replica(first, 0, HOME).tip


def _led(first: bytes) -> LogTip:
    """The tip of a log in which r1 leads and nothing else lies."""
    leader = Leader(
        boot="b1", build="", epoch=1, generation=1, proof=None, replica="r1", settings="", site="primary", term=1
    )
    led = accept_log(encode_log_record(leader), _empty(first), HOME)
    assert isinstance(led, LogTip), led
    return led


def parts() -> list[Table]:
    """The parts, the whole, and the digest."""
    first = genesis()
    events = sample_events()
    records = event_records(events)
    some = records[:_SOME]
    gc.freeze()  # what only the bench holds shall cost the fold nothing; and as the services do
    gc.set_threshold(50_000, 50, 100)
    bare = bare_cost(some)
    work = _Parts(first, some)
    rows = [Row("bare loop", bare, "µs/event", 1.0)]
    for name, method, unit in (
        ("decode", work.decode, "µs/event"),
        ("check", work.check, "µs/event"),
        ("input chain", work.chain_input, "µs/event"),
        ("accept input, with its chain", work.accept, "µs/event"),
        ("encode an outcome", work.encode, "µs/entry"),
        ("chain hash", work.chain_entries, "µs/entry"),
        ("block: cut, encode, accept", work.blocks, "µs/entry"),
    ):
        cost = cpu_us(method)
        rows.append(Row(name, cost, unit, cost / bare))
    rows += _whole(first, records, bare)
    return [Table("Parts, in memory, real Borg events", rows)]


def _whole(first: bytes, records: list[Record], bare: float) -> list[Row]:
    """All events through a replica, once, with the digest's share; the outcomes must be the known ones."""
    replica = Replica(first, 0, HOME)
    state = replica.fold.state
    digest = state.digest
    spent = 0

    def timed() -> tuple[str, int]:
        nonlocal spent
        begin = time.process_time_ns()
        answer = digest()
        spent += time.process_time_ns() - begin
        return answer

    state.digest = timed  # type: ignore[method-assign]
    for record in head(first, CONTRACT):
        replica.feed(record)
    begin = time.process_time_ns()
    for record in records:
        replica.feed(record)
    cost = (time.process_time_ns() - begin) / 1000 / len(records)
    told = tell(replica, first, [])
    assert told.outcomes == Counter(OUTCOMES), f"the outcomes are not the known ones: {told.outcomes}"
    share = told.entries / len(records)
    return [
        Row("whole: accept, fold, chain, digest", cost, "µs/event", cost / bare, f"{share:.2f} entries/event"),
        Row("of which digests", spent / 1000 / len(records), "µs/event", spent / 1000 / len(records) / bare),
    ]
