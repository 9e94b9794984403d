"""Every checker finds what it is for: a loss, a repeat, a swap, a flip, a torn end, each planted by hand.

The history is made without any server: events of the Borg sample go through a replica of the product, which publishes
blocks of a few entries each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from finality.checks import Finding, check_log, check_outcomes, check_sent, compare_sequences, said_of_jobs
from finality.core.attested import Leader, VoterRow, encode_log_record
from finality.core.genesis import Genesis, Parameters, Voters, encode_genesis
from finality.core.inputlog import Home
from finality.core.records import BLOCK, EVENT, GENESIS, KIND, LEADER, SOURCE, Coordinate, Record, SourceMark
from finality.core.records import encode_source as encode
from finality.core.replica import Replica
from support.workload import Workload, borg_rows

HOME = Home("here", 1)
TOPIC = "a-topic"
GENESIS_VALUE = encode_genesis(
    Genesis(
        1,
        "0",
        "a-nonce",
        Parameters(log_time="events", memory=str(2**62)),
        1,
        "here",
        (Voters(1, "here", ("r1",)),),
    )
)
VOTERS = (VoterRow("r1", "boot"),)


def names_of(findings: list[Finding]) -> set[str]:
    return {finding.name for finding in findings}


class History:
    """An input log and the attested log that a replica made of it."""

    def __init__(self) -> None:
        self.work = Workload(borg_rows(100))
        self.sent: list[tuple[Coordinate, bytes]] = list(self.work.coordinates(enumerate(self.work.rows)))
        self.input = [Record(0, 0, None, GENESIS_VALUE, ((KIND, GENESIS),))]
        before: Coordinate | None = None
        for at, event in self.sent:
            mark = SourceMark(TOPIC, 0, 0, at, before, 0)
            headers = ((KIND, EVENT), (SOURCE, encode(mark)))
            self.input.append(Record(0, len(self.input), None, event, headers))
            before = at
        self.log = self._published()

    def _published(self) -> list[Record]:
        replica = Replica(GENESIS_VALUE, 0, HOME)
        log: list[Record] = []

        def append(value: bytes, kind: bytes) -> None:
            log.append(Record(0, len(log), None, value, ((KIND, kind),)))
            assert replica.read_log(log[-1])

        append(encode_log_record(Leader("boot", "build", 1, 1, None, "r1", "s", "here", 1)), LEADER)
        for record in self.input:
            replica.feed(record)
            if len(replica.window) >= 7:
                block = replica.block(replica.number, VOTERS)
                assert block is not None
                append(encode_log_record(block), BLOCK)
        if replica.window:
            block = replica.block(replica.number, VOTERS)
            assert block is not None
            append(encode_log_record(block), BLOCK)
        return log

    def check(self, log: list[Record]) -> list[Finding]:
        return check_log(GENESIS_VALUE, 0, HOME, self.input, log).findings


@pytest.fixture(scope="module")
def history() -> History:
    made = History()
    assert len(made.log) > 20
    return made


# -- the log ----------------------------------------------------------------------------------------


def test_a_whole_log_has_no_findings(history: History) -> None:
    report = check_log(GENESIS_VALUE, 0, HOME, history.input, history.log)
    assert report.findings == []
    assert dict(report.writers) == {"boot": 1}
    assert report.ignored.total() == 0
    assert check_outcomes(history.work.outcomes, said_of_jobs(row.entry for row in report.attested)) == []


def test_a_repeated_block_is_ignored_and_counted(history: History) -> None:
    report = check_log(GENESIS_VALUE, 0, HOME, history.input, [*history.log[:9], history.log[8], *history.log[9:]])
    assert report.findings == []
    assert dict(report.ignored) == {"FIRST": 1}


def test_a_lost_block_leaves_the_log_behind(history: History) -> None:
    findings = history.check([*history.log[:9], *history.log[10:]])
    assert names_of(findings) == {"BEHIND", "LOST"}
    assert f"log offset {history.log[10].offset}" in findings[-1].place


def test_swapped_blocks_leave_the_log_behind(history: History) -> None:
    log = [*history.log[:8], history.log[9], history.log[8], *history.log[10:]]
    assert names_of(history.check(log)) == {"BEHIND", "SWAPPED"}


def test_a_flipped_byte_leaves_the_log_behind(history: History) -> None:
    value = bytearray(history.log[9].value or b"")
    value[value.find(b"job") + 2] ^= 1
    log = [*history.log[:9], history.log[9]._replace(value=bytes(value)), *history.log[10:]]
    findings = history.check(log)
    assert names_of(findings) == {"BEHIND", "FLIPPED"}
    assert f"log offset {history.log[9].offset}" in findings[-1].place


def test_a_torn_block_leaves_the_log_behind(history: History) -> None:
    torn = history.log[9]._replace(value=(history.log[9].value or b"")[:-40])
    assert names_of(history.check([*history.log[:9], torn, *history.log[10:]])) == {"BEHIND", "TORN"}


def test_damage_that_was_made_good_is_only_counted(history: History) -> None:
    """A torn copy before the whole block, and a block that came too early and came again, did no harm."""
    torn = history.log[9]._replace(value=(history.log[9].value or b"")[:-40])
    report = check_log(
        GENESIS_VALUE, 0, HOME, history.input, [*history.log[:9], torn, history.log[10], *history.log[9:]]
    )
    assert report.findings == []
    assert dict(report.ignored) == {"UNREADABLE": 1, "FIRST": 1}


def test_a_missing_end_is_behind(history: History) -> None:
    findings = history.check(history.log[:-1])
    assert names_of(findings) == {"BEHIND"}


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lambda rows: [*rows[:30], *rows[31:]], {"LOST", "FOREIGN", "INPUT_DIFFERS", "FOLD_DIFFERS", "FLIPPED"}),
        (lambda rows: [*rows[:30], rows[31], rows[30], *rows[32:]], {"FLIPPED", "FOREIGN", "LOST", "INPUT_DIFFERS"}),
    ],
    ids=["lost", "swapped"],
)
def test_an_input_that_was_changed_after_it_was_certified_is_found(
    history: History, plant: Callable[[list[Record]], list[Record]], expected: set[str]
) -> None:
    """The log was certified over another input than the one that is there: both histories are named where they part."""
    findings = check_log(GENESIS_VALUE, 0, HOME, plant(history.input), history.log).findings
    assert findings
    assert names_of(findings) <= expected


def test_a_fold_that_computes_otherwise_is_found(history: History) -> None:
    """Every chain value recomputes, a quorum signed it, and yet the input does not say so."""
    honest = Replica.feed

    def lie(replica: Replica, record: Record) -> int:
        value = record.value
        if value is not None and record.offset == 60:
            document = json.loads(value)
            document["phase"] = "FAILED" if document["phase"] != "FAILED" else "SUCCEEDED"
            record = record._replace(value=json.dumps(document, separators=(",", ":"), sort_keys=True).encode())
        return honest(replica, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "feed", lie)
        log = history._published()
    findings = history.check(log)
    assert names_of(findings) & {"FOLD_DIFFERS", "INPUT_DIFFERS"}
    assert names_of(findings) & {"FLIPPED", "FOREIGN", "LOST"}


# -- the input --------------------------------------------------------------------------------------


def sent_check(history: History, plant: Callable[[list[Record]], list[Record]]) -> tuple[set[str], dict[str, int]]:
    findings, dropped = check_sent({(TOPIC, 0): history.sent}, {0: plant(list(history.input))})
    return names_of(findings), dict(dropped)


def test_everything_that_was_sent_is_there_once(history: History) -> None:
    assert sent_check(history, lambda rows: rows) == (set(), {})


def test_a_repeat_is_dropped_and_no_finding(history: History) -> None:
    assert sent_check(history, lambda rows: [*rows[:50], *rows[40:50], *rows[50:]]) == (set(), {"repeat": 10})


def test_a_lost_event_is_found(history: History) -> None:
    """What follows was sent after the lost one, by the word of its header, so it is not folded either."""
    names, dropped = sent_check(history, lambda rows: [*rows[:50], *rows[51:]])
    assert names == {"BEHIND"}
    assert dropped == {"gap": len(history.input) - 51}


def test_a_lost_event_at_the_end_of_a_session_is_found(history: History) -> None:
    def plant(rows: list[Record]) -> list[Record]:
        return [*rows[:50], _as_first(rows[51]), *rows[52:]]

    assert sent_check(history, plant) == ({"LOST"}, {})


def test_swapped_events_are_found(history: History) -> None:
    """The later one comes first by a session of its own: the earlier one then looks like a repeat."""

    def plant(rows: list[Record]) -> list[Record]:
        return [*rows[:50], _as_first(rows[51]), rows[50], *rows[52:]]

    assert sent_check(history, plant) == ({"LOST"}, {"repeat": 1})


def test_a_flipped_event_is_found(history: History) -> None:
    def plant(rows: list[Record]) -> list[Record]:
        value = (rows[50].value or b"").replace(b"google", b"goggle")
        return [*rows[:50], rows[50]._replace(value=value), *rows[51:]]

    assert sent_check(history, plant) == ({"FLIPPED"}, {})


def test_an_event_that_nobody_sent_is_found(history: History) -> None:
    def plant(rows: list[Record]) -> list[Record]:
        at = Coordinate(10**6, 0)
        mark = SourceMark(TOPIC, 0, 0, at, None, 0)
        return [*rows, rows[-1]._replace(headers=((KIND, EVENT), (SOURCE, encode(mark))))]

    assert sent_check(history, plant) == ({"FOREIGN"}, {})


def test_an_event_in_two_input_partitions_is_found(history: History) -> None:
    findings, _ = check_sent({(TOPIC, 0): history.sent}, {0: history.input, 1: [_as_first(history.input[30])]})
    assert names_of(findings) == {"TWICE"}


def _as_first(record: Record) -> Record:
    """The record as the first one of a session."""
    headers = dict(record.headers)
    topic, partition, epoch, at, _ = (headers[SOURCE] or b"").split(b" ")
    offset = at.split(b".")[0]
    headers[SOURCE] = b" ".join((topic, partition, epoch, at, b"^" + offset))
    return record._replace(headers=tuple(headers.items()))


# -- sequences and outcomes ----------------------------------------------------------------------------

WANTED = [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ([b"a", b"b", b"d", b"e"], "LOST"),
        ([b"a", b"b", b"b", b"c", b"d", b"e"], "TWICE"),
        ([b"a", b"c", b"b", b"d", b"e"], "SWAPPED"),
        ([b"a", b"b", b"x", b"d", b"e"], "FLIPPED"),
        ([b"a", b"b", b"", b"d", b"e"], "TORN"),
        ([b"a", b"b", b"c", b"d", b"e", b"x"], "FOREIGN"),
        ([b"a", b"b", b"c"], "BEHIND"),
        ([], "BEHIND"),
    ],
)
def test_each_fault_in_a_sequence_has_its_name(found: list[bytes], name: str) -> None:
    assert names_of(compare_sequences(WANTED, found, "entry")) == {name}


def test_equal_sequences_have_no_findings() -> None:
    assert compare_sequences(WANTED, list(WANTED), "entry") == []


def test_two_faults_at_once_are_both_found() -> None:
    names = names_of(compare_sequences(WANTED, [b"a", b"a", b"c", b"d", b"e"], "entry"))
    assert names == {"LOST", "TWICE"}


def test_a_row_whose_content_is_cut_is_torn_and_what_follows_is_lost() -> None:
    wanted = [(1, b"first"), (2, b"second"), (3, b"third")]
    findings = compare_sequences(wanted, [(1, b"first"), (2, b"sec")], "entry")
    assert [(finding.name, finding.place) for finding in findings] == [("TORN", "entry 1"), ("LOST", "entry 2")]


def test_a_row_of_another_number_is_not_torn() -> None:
    assert names_of(compare_sequences([(1, b"first")], [(2, b"fir")], "entry")) == {"FLIPPED"}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda said: said.pop("a"), "LOST"),
        (lambda said: said.update(x=("FAILED", "VIOLATED")), "FOREIGN"),
        (lambda said: said.update(a=("FAILED", "VIOLATED")), "FLIPPED"),
    ],
)
def test_a_wrong_outcome_is_found(change: Callable[[dict[str, Any]], Any], name: str) -> None:
    wanted = {"a": ("SUCCEEDED", "SATISFIED"), "b": ("", "")}
    said = dict(wanted)
    assert check_outcomes(wanted, said) == []
    change(said)
    assert names_of(check_outcomes(wanted, said)) == {name}


def test_truth_of_rows_is_what_an_undisturbed_fold_says() -> None:
    """A larger piece of the trace: the outcomes that fault tests compare with are those of a run without faults."""
    work = Workload(borg_rows(2_000))
    replica = Replica(GENESIS_VALUE, 0, HOME)
    replica.feed(Record(0, 0, None, GENESIS_VALUE, ((KIND, GENESIS),)))
    for offset, row in enumerate(work.rows, 1):
        for event in work.events_of(row):
            replica.feed(Record(0, offset, None, event, ((KIND, EVENT),)))
    assert check_outcomes(work.outcomes, said_of_jobs(row.entry for row in replica.window)) == []
