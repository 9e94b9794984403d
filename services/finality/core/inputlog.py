"""Acceptance of input records: which records of an input partition count, and at which position.

A topic generation is *active* while the tip's epoch names it. Active, it takes only records without a copy header, the
next position each; otherwise only copied ones whose position is the next. Everybody who reads an input partition runs
this one function, so all of them number the records alike, at every site, whatever lies in the log beside them (I10).

Repeats of a source record are accepted and numbered; dropping them is the fold's work, which alone knows the source
marks. So a copier needs nothing but the tip to go on.

Leaves out: what a record means.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from finality.core.canonical import MAX_INT, ZERO_HASH, input_next
from finality.core.records import COMMAND, COPY, GENESIS, KIND, CopyMark, Headers, decode_copy

__all__ = ["Accepted", "EpochCommand", "Home", "InputTip", "accept_input", "read_epoch_command"]


class Home(NamedTuple):
    """Where a topic lies: its site, and the generation of the topic."""

    site: str
    generation: int


class InputTip(msgspec.Struct, frozen=True, gc=False):
    """What acceptance holds after a prefix of an input partition. position 0: nothing accepted yet."""

    position: int = 0
    chain: bytes = ZERO_HASH
    epoch: int = 0
    active: Home = Home("", 0)


class Accepted(msgspec.Struct, gc=False):
    """An accepted record: the tip after it, its kind, and its carried headers."""

    tip: InputTip
    kind: bytes
    headers: Headers


class EpochCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An epoch command: exactly these fields, number 0. Acceptance and the fold read it by the same function, so that
    no site becomes active without the entry that says so."""

    epoch: int
    generation: int
    number: int
    op: str
    site: str


_epoch_decoder = msgspec.json.Decoder(EpochCommand)


class _First(msgspec.Struct, frozen=True):
    generation: int
    site: str


_first_decoder = msgspec.json.Decoder(_First)


def read_epoch_command(value: bytes | None) -> EpochCommand | None:
    """The epoch command in a command record's value, or None."""
    try:
        command = _epoch_decoder.decode(value or b"")
    except msgspec.DecodeError:
        return None
    sound = command.op == "epoch" and command.number == 0 and max(command.epoch, abs(command.generation)) <= MAX_INT
    return command if sound else None


def accept_input(key: bytes | None, value: bytes | None, headers: Headers, tip: InputTip, home: Home) -> Accepted | str:
    """The accepted record, or the reason why it does not count.

    Reasons: NO_KIND, NO_GENESIS, SECOND_GENESIS, COPY_MALFORMED, COPIED_INTO_ACTIVE, LOCAL_INTO_STANDBY, COPY_REPEAT,
    COPY_GAP. home: where the topic that is read lies.
    """
    kind = b""
    copy: CopyMark | None = None
    copied = False
    for name, content in headers:
        if name == KIND:
            kind = content or b""
        elif name == COPY:
            copied = True
            copy = decode_copy(content)
    if not kind:
        return "NO_KIND"
    if copied:
        if copy is None:
            return "COPY_MALFORMED"
        headers = [pair for pair in headers if pair[0] != COPY]
    position = tip.position + 1
    if tip.position == 0:
        return _accept_genesis(kind, key, value, headers, copy, home)
    if kind == GENESIS:
        return "COPY_REPEAT" if copied else "SECOND_GENESIS"
    command = read_epoch_command(value) if kind == COMMAND else None
    change = _change_of_epoch(command, tip)
    if tip.active == home:
        if copied:
            return "COPIED_INTO_ACTIVE"
    elif copied:
        assert copy is not None
        if copy.position != position:
            return "COPY_REPEAT" if copy.position < position else "COPY_GAP"
    elif change is None or change[1] != home:
        return "LOCAL_INTO_STANDBY"
    chain = input_next(tip.chain, position, key, value, headers)
    if change is None:
        return Accepted(InputTip(position, chain, tip.epoch, tip.active), kind, headers)
    return Accepted(InputTip(position, chain, *change), kind, headers)


def _change_of_epoch(command: EpochCommand | None, tip: InputTip) -> tuple[int, Home] | None:
    if command is None or command.epoch <= tip.epoch:
        return None
    target = Home(command.site, command.generation)
    return (command.epoch, target) if target != tip.active else None


def _accept_genesis(
    kind: bytes,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    copy: CopyMark | None,
    home: Home,
) -> Accepted | str:
    if kind != GENESIS or value is None:
        return "NO_GENESIS"
    if copy is not None and copy.position != 1:
        return "COPY_GAP"
    try:
        first = _first_decoder.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return "NO_GENESIS"
    active = Home(first.site, first.generation)
    if (copy is None) != (active == home):
        return "COPIED_INTO_ACTIVE" if copy else "LOCAL_INTO_STANDBY"
    chain = input_next(ZERO_HASH, 1, key, value, headers)
    return Accepted(InputTip(1, chain, 1, active), kind, headers)
