"""Commands: the second reading of contracts, voters, fold version, epoch and namespace."""

from __future__ import annotations

import re
from typing import Any

from finality.core.refold.contracts import Contract, compiled
from finality.core.refold.reading import BadJson, depth, document_of, is_text, is_whole, list_of, maybe, shaped, spans
from finality.core.refold.writing import canonical

__all__ = ["LARGEST", "Control", "epoch_command", "voters_row"]

LARGEST = 2**53 - 1
DEEPEST = 64
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


def voters_row(value: Any) -> dict[str, Any]:
    """Who votes at one site."""
    return shaped(value, {"quorum": is_whole, "site": is_text, "voters": list_of(is_text)}, None)


_FIELDS: dict[str, Any] = {
    "document": lambda tree: tree,
    "fold": is_whole,
    "generation": is_whole,
    "if_version": maybe(is_text),
    "name": is_text,
    "namespace": is_text,
    "site": is_text,
    "sites": list_of(voters_row),
    "tenant": is_text,
}
_EMPTY: dict[str, Any] = {
    "document": None,
    "fold": 0,
    "generation": 0,
    "if_version": None,
    "name": "",
    "namespace": "",
    "site": "",
    "sites": [],
    "tenant": "",
}


def epoch_command(value: bytes | None) -> dict[str, Any] | None:
    """The command that makes another (site, generation) active, None when the value is none."""
    needed = {"epoch": is_whole, "generation": is_whole, "number": is_whole, "op": is_text, "site": is_text}
    try:
        command = shaped(document_of(value or b""), needed, None)
    except BadJson:
        return None
    sound = command["op"] == "epoch" and command["number"] == 0
    return command if sound and max(command["epoch"], abs(command["generation"])) <= LARGEST else None


class Control:
    """What commands have set. newest: (tenant, name) to contract; versions: all that ever were."""

    def __init__(self, genesis: dict[str, Any]) -> None:
        self.turn = (1, 0)  # epoch and number of the last command
        self.epoch = 1
        self.active = [genesis["site"], genesis["generation"]]
        self.fold_version: int = genesis["fold_version"]
        self.sites: list[dict[str, Any]] = genesis["sites"]
        self.namespace = ""
        self.newest: dict[tuple[str, str], Contract] = {}
        self.versions: dict[tuple[str, str, str], Contract] = {}

    def fold(self, value: bytes, marks: dict[tuple[str, int], tuple[int, int]]) -> dict[str, Any] | None:
        """The entry of a command, None when it is not its turn."""
        change = epoch_command(value)
        if change is not None:
            return self._change_epoch(change, marks)
        try:
            tree = document_of(value)
            needed = {"epoch": is_whole, "number": is_whole, "op": is_text}
            command = {**_EMPTY, **shaped(tree, needed, _FIELDS)}
        except BadJson:
            return None
        if depth(tree) > DEEPEST or command["op"] == "epoch":
            return None
        turn = (command["epoch"], command["number"])
        if turn != (self.turn[0], self.turn[1] + 1):
            return None
        self.turn = turn
        entry = {"epoch": turn[0], "kind": "control", "number": turn[1], "op": command["op"]}
        return {**entry, **self._apply(command, value.decode())}

    def _change_epoch(
        self, command: dict[str, Any], marks: dict[tuple[str, int], tuple[int, int]]
    ) -> dict[str, Any] | None:
        target = [command["site"], command["generation"]]
        if command["epoch"] <= self.epoch or target == self.active:
            return None
        self.epoch, self.active, self.turn = command["epoch"], target, (command["epoch"], 0)
        entry = {"epoch": self.epoch, "kind": "control", "number": 0, "op": "epoch"}
        rest = {
            "generation": target[1],
            "site": target[0],
            "sources": [[topic, partition, *at] for (topic, partition), at in sorted(marks.items())],
        }
        return {**entry, **{name: item for name, item in rest.items() if item}}

    def _apply(self, command: dict[str, Any], text: str) -> dict[str, Any]:
        op = command["op"]
        if op == "contract":
            return self._contract(command, text)
        if op == "contract-delete":
            place = (command["tenant"], command["name"])
            named = {"name": command["name"], "tenant": command["tenant"]}
            gone = self.newest.pop(place, None)
            found: dict[str, Any] = {key: item for key, item in named.items() if item}
            return found if gone is not None else {**found, "error": "NO_SUCH_CONTRACT"}
        if op == "voters":
            return self._voters(command["sites"])
        if op == "fold":
            found = {"fold": command["fold"]} if command["fold"] else {}
            return found if command["fold"] == self.fold_version else {**found, "error": "FOLD_VERSION_UNKNOWN"}
        if op == "namespace":
            if not _NAMESPACE.fullmatch(command["namespace"]):
                return {"error": "BAD_NAMESPACE"}
            self.namespace = command["namespace"]
            return {"name": self.namespace}
        return {"error": "UNKNOWN_OPERATION"}

    def _voters(self, sites: list[dict[str, Any]]) -> dict[str, Any]:
        if [row["site"] for row in sites] != [row["site"] for row in self.sites]:
            return {"error": "SITES_DIFFER"}
        for row in sites:
            count = len(set(row["voters"]))
            if count != len(row["voters"]) or not count < 2 * row["quorum"] or row["quorum"] > count:
                return {"error": "NO_MAJORITY"}
        self.sites = sites
        return {"sites": sites} if sites else {}

    def _contract(self, command: dict[str, Any], text: str) -> dict[str, Any]:
        size = [len(part.encode()) for key, part in spans(text.strip()) if key == "document"]
        try:
            if not size or size[-1] > 262_144:
                raise BadJson("no document, or too large a one")
            contract = compiled(command["document"])
        except ValueError:
            return {"error": "BAD_CONTRACT"}
        place = (contract.tenant, contract.name)
        named = {"name": contract.name, "tenant": contract.tenant, "version": contract.version}
        newest = self.newest.get(place)
        asked = command["if_version"]
        if asked is not None and asked != (newest.version if newest is not None else ""):
            return {**named, "error": "NOT_THAT_VERSION"}
        self.newest[place] = self.versions[(*place, contract.version)] = contract
        return named

    def header(self) -> list[Any]:
        """Its part of the header item."""
        sites = [[row["site"], row["voters"], row["quorum"]] for row in self.sites]
        return [*self.turn, self.epoch, self.active, self.fold_version, sites, self.namespace]

    def items(self) -> list[bytes]:
        """One item for each contract version."""
        found = []
        for (tenant, name, version), contract in self.versions.items():
            is_newest = self.newest.get((tenant, name)) is contract
            row = [int(is_newest), contract.bytes.decode()]
            found.append(f"c/{tenant}/{name}/{version}".encode() + b"\0" + canonical(row))
        return found
