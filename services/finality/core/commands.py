"""Commands: contracts, voters, fold version, epoch, namespace, as records of the input log.

They were numbered by the control topic. The fold takes exactly the next (epoch, number); repeats change nothing, and a
number out of turn is not taken, so that two leaders who inject the same commands do no harm. An epoch command carries
number 0 and is valid whenever its epoch is above the known one and names another (site, generation).

Every command that is taken leaves a control entry, with a code where it changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from finality.core.contract import ContractError, compile_contract
from finality.core.entries import ControlEntry, Entry
from finality.core.genesis import Voters
from finality.core.inputlog import EpochCommand, Home, read_epoch_command
from finality.core.job import Job
from finality.core.names import is_namespace
from finality.core.state import State

__all__ = ["MAX_DEPTH", "CommandRecord", "Control", "decode_command"]

MAX_DEPTH = 64
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class CommandRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The value of a command record. Which fields count depends on `op`:

    contract: document · contract-delete: tenant, name · voters: sites · fold: fold · epoch: site, generation (number 0)
    · namespace: namespace. if_version: a contract is changed only if this is its newest version ("" = must be new).
    """

    epoch: int
    number: int
    op: str
    document: msgspec.Raw = msgspec.Raw()
    fold: int = 0
    generation: int = 0
    if_version: str | None = None
    name: str = ""
    namespace: str = ""
    site: str = ""
    sites: tuple[Voters, ...] = ()
    tenant: str = ""


_decoder = msgspec.json.Decoder(CommandRecord)


def decode_command(value: bytes) -> CommandRecord | None:
    """The command in a record's value, None when it is none.

    Texts are UTF-8, and nothing is nested more than `MAX_DEPTH` levels deep: how deep a parser can go differs between
    versions of Python, and replicas must agree about what a command is.
    """
    try:
        value.decode()
        if _is_deep(value):
            return None
        command = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return command if command.op != "epoch" or read_epoch_command(value) is not None else None


def _is_deep(value: bytes) -> bool:
    depth = 0
    for token in _BRACKETS.findall(value):
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in b"]}":
            depth -= 1
    return False


class Control:
    """Folds commands into the state."""

    def __init__(self, state: State, emit: Callable[[Entry, Job | None], None]) -> None:
        self._state = state
        self._emit = emit

    def fold(self, value: bytes) -> None:
        """Take a command record if it is the next one."""
        change = read_epoch_command(value)
        if change is not None:
            self._fold_epoch(change)
            return
        command = decode_command(value)
        state = self._state
        if command is None:
            return
        if (command.epoch, command.number) != (state.control_epoch, state.control_number + 1):
            return
        state.control_number = command.number
        self._emit(self._apply(command), None)

    def _fold_epoch(self, command: EpochCommand) -> None:
        state = self._state
        target = Home(command.site, command.generation)
        if command.epoch <= state.epoch or target == state.active:
            return
        state.epoch = command.epoch
        state.active = target
        state.control_epoch = command.epoch
        state.control_number = 0
        marks = sorted(state.marks.items())
        sources = tuple([(topic, partition, at.offset, at.ordinal) for (topic, partition), at in marks])
        self._emit(
            ControlEntry(
                command.epoch,
                0,
                "epoch",
                generation=command.generation,
                site=command.site,
                sources=sources,
            ),
            None,
        )

    def _apply(self, command: CommandRecord) -> ControlEntry:
        state = self._state
        entry = ControlEntry(command.epoch, command.number, command.op)
        if command.op == "contract":
            self._apply_contract(command, entry)
        elif command.op == "contract-delete":
            entry.tenant, entry.name = command.tenant, command.name
            if command.name in state.latest.get(command.tenant, {}):
                state.drop_contract(command.tenant, command.name)
            else:
                entry.error = "NO_SUCH_CONTRACT"
        elif command.op == "voters":
            entry.error = _check_voters(command.sites, state.sites)
            if not entry.error:
                state.sites = command.sites
                entry.sites = tuple([msgspec.to_builtins(row) for row in command.sites])
        elif command.op == "fold":
            entry.fold = command.fold
            if command.fold != state.fold_version:
                entry.error = "FOLD_VERSION_UNKNOWN"
        elif command.op == "namespace":
            if is_namespace(command.namespace):
                state.namespace = entry.name = command.namespace
            else:
                entry.error = "BAD_NAMESPACE"
        else:
            entry.error = "UNKNOWN_OPERATION"
        return entry

    def _apply_contract(self, command: CommandRecord, entry: ControlEntry) -> None:
        state = self._state
        try:
            contract = compile_contract(bytes(command.document))
        except ContractError:
            entry.error = "BAD_CONTRACT"
            return
        entry.tenant, entry.name, entry.version = contract.tenant, contract.name, contract.version
        newest = state.latest.get(contract.tenant, {}).get(contract.name)
        if command.if_version is not None and command.if_version != (newest.version if newest else ""):
            entry.error = "NOT_THAT_VERSION"
            return
        state.add_contract(contract)


def _check_voters(sites: tuple[Voters, ...], known: tuple[Voters, ...]) -> str:
    if [row.site for row in sites] != [row.site for row in known]:
        return "SITES_DIFFER"
    for row in sites:
        distinct = len(set(row.voters))
        if distinct != len(row.voters) or not distinct // 2 < row.quorum <= distinct:
            return "NO_MAJORITY"
    return ""
