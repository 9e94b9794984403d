"""Acceptance of input and log records, fast and slow, on logs with planted faults: the same records count, for the
same reasons, and every reason is reached."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from finality.core.attested import Block, BlockRow, EpochProof, VoterRow, encode_log_record
from finality.core.canonical import chain_next
from finality.core.inputlog import Home, InputTip, accept_input
from finality.core.records import COMMAND, EVENT, GENESIS, KIND, Record
from finality.core.refold import Refold
from finality.core.refold.accepting import Input, accept_record
from finality.core.replica import Replica
from support.effort import effort
from support.histories import seeds
from support.logs import BLOCK_FAULTS, DR, PRIMARY, LogWriter, copied, epoch_command, faulty, input_record, two_sites

GENESIS_VALUE = two_sites()
INPUT_REASONS = {
    *("NO_KIND", "NO_GENESIS", "SECOND_GENESIS", "COPY_MALFORMED", "COPIED_INTO_ACTIVE", "LOCAL_INTO_STANDBY"),
    *("COPY_REPEAT", "COPY_GAP"),
}
LOG_REASONS = {
    *("UNREADABLE", "NOT_ACTIVE", "TERM", "EPOCH", "NOT_A_VOTER", "NO_PROOF", "BEFORE_COMMAND", "FIRST", "PREVIOUS"),
    *("EMPTY", "QUORUM", "FOLD", "ORDER", "CHAIN", "POSITION", "CUT", "ENTRY_SIZE", "CONTROL", "COPY_OUT_OF_TURN"),
}
HOMES = (PRIMARY, DR, Home("dr", 2))


def read_input(home: Home, rows: list[int]) -> Counter[str]:
    """Both acceptances over one generated input log; how often each reason came up."""
    reasons: Counter[str] = Counter()
    fast, slow = InputTip(), Input()
    genesis = Record(0, 0, None, GENESIS_VALUE, ((KIND, GENESIS),))
    if home != PRIMARY:
        genesis = genesis._replace(headers=copied(genesis.headers, 1))
    for number, seed in enumerate(rows):
        record = input_record(Random(seed), GENESIS_VALUE, fast.position + 1, number)
        if fast.position == 0 and number > 1:
            record = genesis
        one = accept_input(record.key, record.value, record.headers, fast, home)
        other = accept_record(record.key, record.value, list(record.headers), slow, home)
        if isinstance(one, str) or isinstance(other, str):
            assert one == other, record
            reasons[str(one)] += 1
            continue
        fast, slow = one.tip, other[0]
        assert (fast.position, fast.chain, fast.epoch, fast.active) == (
            slow.position,
            slow.chain,
            slow.epoch,
            slow.active,
        )
        assert (one.kind, list(one.headers)) == (other[1], other[2])
        reasons["accepted"] += 1
    return reasons


@effort(80)
@given(st.sampled_from(HOMES), st.lists(seeds, max_size=40))
def test_input_acceptance_agrees(home: Home, rows: list[int]) -> None:
    """Copied, local, repeated, gapped records; epochs that come and go; headers of all sorts."""
    read_input(home, rows)


def test_every_reason_of_input_acceptance_is_reached() -> None:
    """By the generator above, with fixed seeds."""
    reasons: Counter[str] = Counter()
    for home in HOMES:
        for seed in range(12):
            rng = Random(seed)
            reasons += read_input(home, [rng.randrange(2**32) for _ in range(60)])
    assert set(reasons) == INPUT_REASONS | {"accepted"}


class Reading:
    """A fast and a slow reader of one partition, fed alike and compared after each log record."""

    def __init__(self, home: Home) -> None:
        self.fast = Replica(GENESIS_VALUE, 0, home)
        self.slow = Refold(GENESIS_VALUE, 0, *home)
        self.writer = LogWriter(self.fast)
        self.reasons: Counter[str] = Counter()
        self.sent = 0
        self.past: list[bytes] = []
        self.input(GENESIS, GENESIS_VALUE)

    def input(self, kind: bytes, value: bytes) -> None:
        """An input record that counts, copied where the home is not active."""
        headers = ((KIND, kind),)
        active = self.fast.input.active if self.fast.input.position else PRIMARY
        if active != self.fast.home:
            headers = copied(headers, self.fast.input.position + 1)
        self.fast.feed(Record(0, 0, None, value, headers))
        self.slow.feed_input(None, value, headers)
        assert self.slow.index == self.fast.number

    def event(self, rng: Random) -> None:
        """An event of some job."""
        self.sent += 1
        event = {"job": f"t/s/i/k/{rng.randrange(9)}", "at": str(self.sent), "phase": rng.choice(("RUNNING", "FAILED"))}
        self.input(EVENT, json.dumps(event).encode())

    def command(self, rng: Random) -> None:
        """A command that leaves a control entry, with an error or without."""
        voters = rng.choice((["p1", "p2", "p3"], ["p1", "p2"], ["p1"], []))
        sites = [
            {"quorum": 2, "site": "primary", "voters": voters},
            {"quorum": 2, "site": "dr", "voters": ["d1", "d2"]},
        ]
        body = rng.choice(({"op": "voters", "sites": sites}, {"op": "fold", "fold": 2}, {"op": "fold", "fold": 1}))
        state = self.fast.fold.state
        place = {"epoch": state.control_epoch, "number": state.control_number + 1}
        self.input(COMMAND, json.dumps({**place, **body}).encode())

    def log(self, value: bytes | None, copy: int | None = None) -> str | None:
        """A log record; the reason why it does not count."""
        headers = () if copy is None else copied((), copy)
        before = self.fast.counts.copy()
        taken = self.fast.read_log(Record(0, 0, None, value, headers))
        reason = self.slow.feed_log(value, headers)
        assert (reason is None) == taken, (reason, value)
        told = [name.removeprefix("log.") for name in self.fast.counts - before]
        assert told == ([] if taken else [reason])
        self.reasons[reason or "accepted"] += 1
        one, other = self.fast.tip, self.slow.log
        for name in ("term", "epoch", "fold", "index", "chain", "position", "ordinal", "input_chain", "leader", "boot"):
            assert getattr(one, name) == getattr(other, name), name
        assert (tuple(one.active), one.stream) == (other.active, other.stream)
        assert [(row.site, set(row.voters), row.quorum) for row in one.sites] == [
            (site, set(voters), quorum) for site, voters, quorum in other.sites
        ]
        if value is not None:
            self.past.append(value)
        return reason

    def place(self) -> int | None:
        """The copy position that fits here, None where the log is written."""
        return None if self.fast.tip.active == self.fast.home else self.fast.log_records + 1


def play(rng: Random, home: Home, steps: int) -> Reading:
    """A random life of a partition's log at a site, with faults."""
    reading = Reading(home)
    actions = (_write, _write, _write, _fault, _fault, _lead, _lead_badly, _again, _events, _forge, _switch, _junk)
    for _ in range(steps):
        rng.choice(actions)(reading, rng)
    verdict = reading.slow.verdict()
    quarantine = reading.fast.quarantine
    if verdict is None:
        assert quarantine is None
    elif quarantine is None:  # the fast one waits for an entry of its own at that index; until then it has no voice
        assert not reading.fast.agrees
    else:
        assert verdict.index == quarantine.number
    return reading


def _write(reading: Reading, rng: Random) -> None:
    block = reading.writer.block(rng.randrange(1, 5))
    if block is not None:
        place = reading.place()
        reading.log(encode_log_record(block), place if rng.random() < 0.9 else rng.choice((None, 1, 99)))


def _fault(reading: Reading, rng: Random) -> None:
    block = reading.writer.block(rng.randrange(1, 5))
    if block is not None:
        reading.log(faulty(block, rng.choice(sorted(BLOCK_FAULTS))), reading.place())


def _lead(reading: Reading, rng: Random) -> None:
    reading.log(encode_log_record(reading.writer.leader(reading.fast.tip.active)), reading.place())


def _lead_badly(reading: Reading, rng: Random) -> None:
    tip = reading.fast.tip
    target = rng.choice((tip.active, tip.active, *HOMES, Home("mars", 1)))
    votes = [VoterRow("d1", "b"), VoterRow("d2", "b")]
    change = rng.choice(
        (
            *({"term": tip.term}, {"term": tip.term + 2}, {"replica": "mallory"}, {"epoch": tip.epoch - 1}),
            *({"site": "dr"}, {"generation": 7}, {"epoch": tip.epoch + 1}, {"proof": None}, {}),
            {"proof": EpochProof("", 1, votes)},
            {"proof": EpochProof(tip.input_chain.hex(), tip.position, votes)},
            {"proof": EpochProof("00", tip.position, votes)},
            {"proof": EpochProof("", tip.position + 3, votes[:1])},
            {"proof": EpochProof("", tip.position + 3, votes[:1] * 2)},
        )
    )
    record = reading.writer.leader(target, **change)
    reading.log(encode_log_record(record), rng.choice((reading.place(), None)))


def _again(reading: Reading, rng: Random) -> None:
    if reading.past:
        reading.log(rng.choice(reading.past), reading.place())


def _events(reading: Reading, rng: Random) -> None:
    for _ in range(rng.randrange(1, 6)):
        reading.event(rng)
    if rng.random() < 0.3:
        reading.command(rng)


def _switch(reading: Reading, rng: Random) -> None:
    state = reading.fast.fold.state
    if rng.random() < 0.2 and state.active == reading.fast.home:
        reading.input(COMMAND, epoch_command(state.epoch + 1, rng.choice(HOMES)))


def _junk(reading: Reading, rng: Random) -> None:
    deep = b'{"kind":"block","entries":[[1,0,' + b"[" * 5000 + b"]" * 5000 + b"]]}"
    reading.log(rng.choice((None, b"", b"null", b"[]", b"{}", b"\xff", b'{"kind":"leader"}', deep)), reading.place())


def _forge(reading: Reading, rng: Random) -> None:
    """A block that recomputes, but over entries that no fold made or across a control entry."""
    tip = reading.fast.tip
    rows = [(row.position, row.ordinal, row.entry) for row in list(reading.fast.window)[:6]]
    if not rows or rows[0][:2] <= (tip.position, tip.ordinal) or not reading.fast.agrees:
        return
    forged = rng.choice((b"", b'{"kind":"control","op":5}', b'{"kind":"control"}', b'{"kind":"control"', b'{"x":1}'))
    if forged:
        rows = [*rows[:1], (rows[0][0], rows[0][1] + 1, forged)] if rng.random() < 0.5 else [(*rows[0][:2], forged)]
    chain, index = tip.chain, tip.index
    for position, ordinal, entry in rows:
        index += 1
        chain = chain_next(tip.stream, index, chain, position, ordinal, tip.fold, entry)
    sound = reading.writer.block(1)
    if sound is None:
        return
    document = json.loads(encode_log_record(sound))
    document.update(chain=chain.hex(), entries=[], last=index, position=rows[-1][0])
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    packed = b",".join(b"[%d,%d,%b]" % row for row in rows)
    reading.log(text.encode().replace(b'"entries":[]', b'"entries":[%b]' % packed), reading.place())


@effort(60)
@given(st.sampled_from((PRIMARY, DR)), seeds)
def test_log_acceptance_agrees(home: Home, seed: int) -> None:
    """At the site that writes and at the one that copies: blocks, leaders, repeats, forgeries, switches of site."""
    play(Random(seed), home, 30)


def test_every_reason_of_log_acceptance_is_reached() -> None:
    """By the generator above, with fixed seeds; and logs go on, blocks are found to differ, sites take turns."""
    reasons: Counter[str] = Counter()
    seen: set[object] = set()
    for home in (PRIMARY, DR):
        for seed in range(60):
            reading = play(Random(seed), home, 60)
            reasons += reading.reasons
            verdict = reading.slow.verdict()
            seen |= {verdict.cause if verdict else None, reading.fast.tip.active}
    assert set(reasons) == LOG_REASONS | {"accepted"}
    assert {None, "FOLD", PRIMARY} <= seen
    assert reasons["accepted"] > 500


def test_a_refused_command_changes_nobody_s_vote() -> None:
    """A voters or fold command that was refused is an entry like any other: the next block is accepted."""
    reading = Reading(PRIMARY)
    reading.log(encode_log_record(reading.writer.leader(PRIMARY)))
    for body in ({"op": "voters", "sites": []}, {"op": "fold", "fold": 2}):
        state = reading.fast.fold.state
        place = {"epoch": state.control_epoch, "number": state.control_number + 1}
        reading.input(COMMAND, json.dumps({**place, **body}).encode())
        reading.event(Random(1))
        while (block := reading.writer.block(9)) is not None:
            assert reading.log(encode_log_record(block)) is None
    assert reading.fast.tip.index == reading.fast.number


def test_a_block_s_raw_bytes_are_what_is_hashed() -> None:
    """Spaces inside a block do not matter, spaces inside an entry do."""
    reading = Reading(PRIMARY)
    reading.log(encode_log_record(reading.writer.leader(PRIMARY)))
    reading.event(Random(1))
    block = reading.writer.block()
    assert isinstance(block, Block)
    wide = [BlockRow(row.position, row.ordinal, row.entry) for row in block.entries]
    value = encode_log_record(block)
    assert wide == block.entries
    assert reading.log(value.replace(b'{"actual"', b'{ "actual"')) == "CHAIN"
    assert reading.log(value.replace(b',"epoch":', b' ,\n "epoch" :')) is None
