"""Which records count: acceptance of the input log and of the attested log, a second time.

Both are functions of (what was accepted before, the next record). A refusal is a word; nothing is ever raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from finality.core.refold.control import LARGEST, epoch_command, voters_row
from finality.core.refold.reading import (
    BadJson,
    Pairs,
    document_of,
    is_list,
    is_text,
    is_whole,
    list_of,
    maybe,
    shaped,
    spans,
)
from finality.core.refold.writing import ZERO, chain_start, extend_chain, extend_input

__all__ = ["Input", "Log", "LogRow", "accept_log", "accept_record", "copy_position"]

Headers = list[tuple[str, bytes | None]]
Home = tuple[str, int]
_COPY = re.compile(rb"([0-9]{1,18}) -?[0-9]{1,18}")
_HASH = re.compile(r"[0-9a-f]{64}")


def copy_position(content: bytes | None) -> int | None:
    """The position in a copy header, None when it is malformed."""
    match = _COPY.fullmatch(content or b"")
    return int(match[1]) if match else None


# -- input log -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """The accepted input so far."""

    position: int = 0
    chain: bytes = ZERO
    epoch: int = 0
    active: Home = ("", 0)


def accept_record(
    key: bytes | None, value: bytes | None, headers: Headers, before: Input, home: Home
) -> tuple[Input, bytes, Headers] | str:
    """(what is accepted after it, kind, carried headers), or why the record does not count."""
    kinds = [content for name, content in headers if name == "fn-kind"]
    kind = (kinds[-1] if kinds else None) or b""
    if not kind:
        return "NO_KIND"
    copies = [content for name, content in headers if name == "fn-copy"]
    copied = copy_position(copies[-1]) if copies else None
    if copies and copied is None:
        return "COPY_MALFORMED"
    carried = [pair for pair in headers if pair[0] != "fn-copy"]
    position = before.position + 1
    epoch, active = before.epoch, before.active
    if before.position == 0:
        first = _first(kind, value)
        if first is None:
            return "NO_GENESIS"
        if copied not in (None, 1):
            return "COPY_GAP"
        if copied is None and first != home:
            return "LOCAL_INTO_STANDBY"
        if copied is not None and first == home:
            return "COPIED_INTO_ACTIVE"
        epoch, active = 1, first
    else:
        if kind == b"genesis":
            return "SECOND_GENESIS" if copied is None else "COPY_REPEAT"
        change = epoch_command(value) if kind == b"command" else None
        if change is not None and change["epoch"] > epoch and (change["site"], change["generation"]) != active:
            epoch, active = change["epoch"], (change["site"], change["generation"])
        if copied is not None:
            if before.active == home:
                return "COPIED_INTO_ACTIVE"
            if copied != position:
                return "COPY_REPEAT" if copied < position else "COPY_GAP"
        elif before.active != home and (epoch == before.epoch or active != home):
            return "LOCAL_INTO_STANDBY"
    chain = extend_input(before.chain, position, key, value, carried)
    return Input(position, chain, epoch, active), kind, carried


def _first(kind: bytes, value: bytes | None) -> Home | None:
    if kind != b"genesis" or value is None:
        return None
    try:
        first = shaped(document_of(value), {"site": is_text, "generation": is_whole}, None, strict=False)
    except BadJson:
        return None
    return (first["site"], first["generation"])


# -- attested log --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """The accepted attested log so far. sites: (site, voters, quorum) rows."""

    stream: bytes
    sites: tuple[tuple[str, frozenset[str], int], ...]
    active: Home
    chain: bytes
    fold: int
    term: int = 0
    epoch: int = 1
    index: int = 0
    position: int = 1
    ordinal: int = -1
    input_chain: bytes = ZERO
    leader: str = ""
    boot: str = ""

    @classmethod
    def begin(cls, genesis: dict[str, Any], stream: bytes) -> Log:
        """Of an empty log."""
        home = (genesis["site"], genesis["generation"])
        return cls(stream, _sites(genesis["sites"]), home, chain_start(stream), genesis["fold_version"])


@dataclass(frozen=True)
class LogRow:
    """One certified entry."""

    index: int
    position: int
    ordinal: int
    entry: bytes
    chain: bytes


def _sites(rows: list[dict[str, Any]]) -> tuple[tuple[str, frozenset[str], int], ...]:
    return tuple([(row["site"], frozenset(row["voters"]), row["quorum"]) for row in rows])


def _vote(value: Any) -> list[str]:
    if not 2 <= len(is_list(value)) <= 3:
        raise BadJson("is no voter")
    return [is_text(part) for part in value]


def _place(value: Any) -> tuple[int, int]:
    if len(is_list(value)) != 3:
        raise BadJson("is no entry with its place")
    return (is_whole(value[0]), is_whole(value[1]))


_PROOF = {"input_chain": is_text, "position": is_whole, "voters": list_of(_vote)}
_LEADER: dict[str, Any] = {
    **dict.fromkeys(("boot", "build", "kind", "replica", "settings", "site"), is_text),
    **dict.fromkeys(("epoch", "generation", "term"), is_whole),
    "proof": maybe(lambda value: shaped(value, dict(_PROOF), None)),
}
_BLOCK: dict[str, Any] = {
    **dict.fromkeys(("chain", "input_chain", "kind", "previous"), is_text),
    **dict.fromkeys(("epoch", "first", "fold", "last", "position", "term"), is_whole),
    "entries": list_of(_place),
    "voters": list_of(_vote),
}


def accept_log(value: bytes | None, before: Log, home: Home, copied: bool) -> tuple[Log, list[LogRow]] | str:
    """(what is accepted after it, the entries that it certifies), or why the record does not count."""
    try:
        tree = document_of(value or b"")
        kinds = [item for key, item in tree if key == "kind"] if isinstance(tree, Pairs) else []
        if kinds and all(kind == "leader" for kind in kinds):
            return _leader(shaped(tree, _LEADER, None), before, home, copied)
        if not kinds or any(kind != "block" for kind in kinds):
            return "UNREADABLE"
        block = shaped(tree, _BLOCK, None)
    except BadJson:
        return "UNREADABLE"
    if copied == (before.active == home):
        return "NOT_ACTIVE"
    return _head(block, before) or _body(block, (value or b"").decode(), before)


def _leader(record: dict[str, Any], before: Log, home: Home, copied: bool) -> tuple[Log, list[LogRow]] | str:
    target = (record["site"], record["generation"])
    newer = record["epoch"] > before.epoch
    begins_here = newer and not copied and target == home
    if copied == (before.active == home) and not begins_here:
        return "NOT_ACTIVE"
    if record["term"] != before.term + 1:
        return "TERM"
    voters = [row for row in before.sites if row[0] == record["site"]]
    if not voters or record["replica"] not in voters[0][1]:
        return "NOT_A_VOTER"
    if newer:
        proof = record["proof"]
        if proof is None or not _is_quorum(proof["voters"], voters[0]):
            return "NO_PROOF"
        equal = proof["position"] == before.position and proof["input_chain"] == before.input_chain.hex()
        if before.position >= proof["position"] and not equal:
            return "BEFORE_COMMAND"
    elif record["epoch"] != before.epoch or target != before.active:
        return "EPOCH"
    after = replace(
        before,
        term=record["term"],
        epoch=record["epoch"],
        active=target,
        leader=record["replica"],
        boot=record["boot"],
    )
    return after, []


def _is_quorum(votes: list[list[str]], site: tuple[str, frozenset[str], int]) -> bool:
    names = [row[0] for row in votes]
    return len(set(names)) == len(names) >= site[2] and site[1].issuperset(names)


def _head(block: dict[str, Any], before: Log) -> str:
    voters = [row for row in before.sites if row[0] == before.active[0]]
    checks = {
        "EPOCH": block["epoch"] == before.epoch,
        "TERM": block["term"] == before.term > 0,
        "FIRST": block["first"] == before.index + 1,
        "PREVIOUS": block["previous"] == before.chain.hex(),
        "FOLD": block["fold"] == before.fold,
        "EMPTY": bool(block["entries"]),
        "QUORUM": bool(voters) and _is_quorum(block["voters"], voters[0]),
        "UNREADABLE": bool(_HASH.fullmatch(block["input_chain"])),
    }
    return next((reason for reason, holds in checks.items() if not holds), "")


def _body(block: dict[str, Any], text: str, before: Log) -> tuple[Log, list[LogRow]] | str:
    packed = [part for key, part in spans(text.strip()) if key == "entries"][-1]
    raw = [spans(part)[2][1].encode() for _, part in spans(packed)]
    rows: list[LogRow] = []
    chain, place, control = before.chain, (before.position, before.ordinal), b""
    for (position, ordinal), entry in zip(block["entries"], raw, strict=True):
        follows = (position, ordinal) == (place[0], place[1] + 1)
        begins = position > place[0] and ordinal == 0
        if not (follows or begins) or position > LARGEST:
            return "ORDER"
        if len(entry) > 65_536:
            return "ENTRY_SIZE"
        place, index = (position, ordinal), before.index + len(rows) + 1
        chain = extend_chain(before.stream, index, chain, position, ordinal, before.fold, entry)
        rows.append(LogRow(index, position, ordinal, entry, chain))
        if b'"kind":"control"' in entry:
            if len(rows) < len(raw):
                return "CUT"
            control = entry
    if chain.hex() != block["chain"]:
        return "CHAIN"
    if (place[0], rows[-1].index) != (block["position"], block["last"]):
        return "POSITION"
    after = replace(
        before,
        index=rows[-1].index,
        chain=chain,
        position=place[0],
        ordinal=place[1],
        input_chain=bytes.fromhex(block["input_chain"]),
    )
    if not control:
        return after, rows
    ruled = _rule(control, after)
    return ruled if isinstance(ruled, str) else (ruled, rows)


def _rule(entry: bytes, log: Log) -> Log | str:
    """A control entry rules from the next index."""
    texts = dict.fromkeys(("error", "site"), is_text)
    numbers = dict.fromkeys(("epoch", "fold", "generation"), is_whole)
    optional: dict[str, Any] = {**texts, **numbers, "sites": list_of(voters_row)}
    try:
        found = shaped(document_of(entry), {"kind": is_text, "op": is_text}, optional, strict=False)
    except BadJson:
        return "CONTROL"
    if found.get("error"):
        return log
    if found["op"] == "voters":
        return replace(log, sites=_sites(found.get("sites", [])))
    if found["op"] == "fold":
        return replace(log, fold=found.get("fold", 0))
    return log
