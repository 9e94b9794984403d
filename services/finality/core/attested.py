"""Acceptance of attested-log records: LEADER and BLOCK, and which of them count.

The log's own order is the compare-and-set. Every reader runs `accept_log` over the records in log order and takes the
first that extends its tip; what does not is ignored and counted by reason. So a deposed or doubled writer can append
what it likes, and nobody needs to be fenced.

A BLOCK is one Kafka record and holds one certified range: its entries, the chain value after them, and the voters who
computed the same. A LEADER opens a term. Voters, quorum, fold version and epoch change by *control entries*, which are
certified like any other entry and rule from the next index; a block ends at such an entry.

Invariants held here: I2 indices contiguous, each once · I3 every chain value recomputes · I4 a quorum of distinct
voters of the epoch's site · I5 terms rise by one, one author each.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from finality.core.canonical import MAX_INT, ZERO_HASH, chain_next, chain_zero, encode, stream_id
from finality.core.genesis import Genesis, Voters
from finality.core.inputlog import Home

__all__ = [
    "MAX_BLOCK_BYTES",
    "MAX_ENTRY_BYTES",
    "Block",
    "BlockRow",
    "EpochProof",
    "Leader",
    "LogTip",
    "VoterRow",
    "accept_log",
    "decode_log_record",
    "encode_log_record",
    "first_tip",
]

MAX_BLOCK_BYTES = 900_000
MAX_ENTRY_BYTES = 65_536
_CONTROL_MARK = b'"kind":"control"'


class VoterRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One voter of a certificate: id, boot id, and the Ed25519 signature as hex ("" = unsigned)."""

    replica: str
    boot: str
    signature: str = ""


class BlockRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One entry with its place: position of the input record that caused it, ordinal among that record's entries."""

    position: int
    ordinal: int
    entry: msgspec.Raw


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="block", tag_field="kind"):
    """One certified range. Hashes as hex."""

    chain: str
    entries: list[BlockRow]
    epoch: int
    first: int
    fold: int
    input_chain: str
    last: int
    position: int
    previous: str
    term: int
    voters: list[VoterRow]


class EpochProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For a LEADER of a new epoch: where its command was folded, the input chain there, and who folded it."""

    input_chain: str
    position: int
    voters: list[VoterRow]


class Leader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="leader", tag_field="kind"):
    """A replica claims a term. build, settings: fingerprints, for people."""

    boot: str
    build: str
    epoch: int
    generation: int
    proof: EpochProof | None
    replica: str
    settings: str
    site: str
    term: int


class LogTip(msgspec.Struct, frozen=True):
    """What acceptance holds after a prefix of an attested log. leader, boot: author of the current term."""

    stream: bytes
    sites: tuple[Voters, ...]
    active: Home
    term: int = 0
    epoch: int = 1
    fold: int = 1
    index: int = 0
    chain: bytes = ZERO_HASH
    position: int = 1
    ordinal: int = -1
    input_chain: bytes = ZERO_HASH
    leader: str = ""
    boot: str = ""

    def voters_of(self, site: str) -> Voters | None:
        """The voters in force at a site, None for a site that genesis and commands do not name."""
        return next((row for row in self.sites if row.site == site), None)


class _ControlEntry(msgspec.Struct, frozen=True):
    """The part of a control entry that acceptance reads. Other operations change nothing here."""

    kind: str
    op: str
    epoch: int = 0
    error: str = ""
    fold: int = 0
    generation: int = 0
    site: str = ""
    sites: tuple[Voters, ...] = ()


_decoder = msgspec.json.Decoder(Block | Leader)
_control_decoder = msgspec.json.Decoder(_ControlEntry)

LogRecord = Block | Leader


def first_tip(genesis: bytes, document: Genesis, partition: int) -> LogTip:
    """Tip of an empty log: index 0, chain value of the stream, position of genesis."""
    stream = stream_id(genesis, partition)
    home = Home(document.site, document.generation)
    return LogTip(stream, document.sites, home, fold=document.fold_version, chain=chain_zero(stream))


def encode_log_record(record: LogRecord) -> bytes:
    """Canonical bytes; entries go in untouched."""
    return encode(record)


def decode_log_record(value: bytes | None) -> LogRecord | None:
    """The record in a value, or None when it is none."""
    if value is None:
        return None
    try:
        return _decoder.decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def accept_log(value: bytes | None, tip: LogTip, home: Home, copied: bool = False) -> LogTip | str:
    """The tip after a record that counts, or the reason why it does not.

    home: where the log that is read lies. copied: the record carries a copy header whose position is the next.
    Reasons: UNREADABLE, NOT_ACTIVE, TERM, EPOCH, NOT_A_VOTER, NO_PROOF, BEFORE_COMMAND, FIRST, PREVIOUS, EMPTY, QUORUM,
    FOLD, ORDER, CHAIN, POSITION, CUT, ENTRY_SIZE, CONTROL.
    """
    record = decode_log_record(value)
    if record is None:
        return "UNREADABLE"
    if isinstance(record, Leader):
        return _accept_leader(record, tip, home, copied)
    if copied == (tip.active == home):
        return "NOT_ACTIVE"
    return _accept_block(record, tip)


def _accept_leader(record: Leader, tip: LogTip, home: Home, copied: bool) -> LogTip | str:
    target = Home(record.site, record.generation)
    opens_epoch = record.epoch > tip.epoch
    if copied == (tip.active == home) and not (opens_epoch and not copied and target == home):
        return "NOT_ACTIVE"
    if record.term != tip.term + 1:
        return "TERM"
    voters = tip.voters_of(record.site)
    if voters is None or record.replica not in voters.voters:
        return "NOT_A_VOTER"
    if opens_epoch:
        refusal = _check_proof(record, tip, voters)
        if refusal:
            return refusal
    elif record.epoch != tip.epoch or target != tip.active:
        return "EPOCH"
    return replace(tip, term=record.term, epoch=record.epoch, active=target, leader=record.replica, boot=record.boot)


def _check_proof(record: Leader, tip: LogTip, voters: Voters) -> str:
    proof = record.proof
    if proof is None or not is_quorum(proof.voters, voters):
        return "NO_PROOF"
    at_tip = proof.position == tip.position and proof.input_chain == tip.input_chain.hex()
    if tip.position >= proof.position and not at_tip:
        return "BEFORE_COMMAND"
    return ""


def is_quorum(rows: list[VoterRow], voters: Voters) -> bool:
    """True when the rows name enough distinct voters (I4: counted by voter id, never by process or boot)."""
    distinct = {row.replica for row in rows}
    return len(distinct) == len(rows) and distinct <= set(voters.voters) and len(distinct) >= voters.quorum


def _accept_block(block: Block, tip: LogTip) -> LogTip | str:
    refusal = _check_head(block, tip)
    if refusal:
        return refusal
    chain, position, ordinal = tip.chain, tip.position, tip.ordinal
    index = tip.index
    last = len(block.entries) - 1
    control: bytes | None = None
    for place, row in enumerate(block.entries):
        index += 1
        entry = bytes(row.entry)
        if row.position < position or (row.position == position and row.ordinal != ordinal + 1):
            return "ORDER"
        if row.position > position and (row.ordinal != 0 or row.position > MAX_INT):
            return "ORDER"
        if len(entry) > MAX_ENTRY_BYTES:
            return "ENTRY_SIZE"
        position, ordinal = row.position, row.ordinal
        chain = chain_next(tip.stream, index, chain, position, ordinal, tip.fold, entry)
        if _CONTROL_MARK in entry:
            if place != last:
                return "CUT"
            control = entry
    if chain.hex() != block.chain:
        return "CHAIN"
    if position != block.position or index != block.last:
        return "POSITION"
    moved = replace(
        tip,
        index=index,
        chain=chain,
        position=position,
        ordinal=ordinal,
        input_chain=bytes.fromhex(block.input_chain),
    )
    return moved if control is None else _apply_control(control, moved)


def _check_head(block: Block, tip: LogTip) -> str:
    if block.epoch != tip.epoch:
        return "EPOCH"
    if block.term != tip.term or tip.term == 0:
        return "TERM"
    if block.first != tip.index + 1:
        return "FIRST"
    if block.previous != tip.chain.hex():
        return "PREVIOUS"
    if block.fold != tip.fold:
        return "FOLD"
    if not block.entries:
        return "EMPTY"
    voters = tip.voters_of(tip.active.site)
    if voters is None or not is_quorum(block.voters, voters):
        return "QUORUM"
    if len(block.input_chain) != 64 or not _is_hex(block.input_chain):
        return "UNREADABLE"
    return ""


def _is_hex(text: str) -> bool:
    return all(letter in "0123456789abcdef" for letter in text)


def _apply_control(entry: bytes, tip: LogTip) -> LogTip | str:
    """A control entry rules from the next index, unless it carries an error: then its command changed nothing. An epoch
    entry changes nothing here: the LEADER does."""
    try:
        control = _control_decoder.decode(entry)
    except (msgspec.DecodeError, RecursionError):
        return "CONTROL"
    if control.error:
        return tip
    if control.op == "voters":
        return replace(tip, sites=control.sites)
    if control.op == "fold":
        return replace(tip, fold=control.fold)
    return tip
