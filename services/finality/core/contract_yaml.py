"""Contracts from YAML, read strictly.

YAML readers disagree about `no`, `010`, `12:30` and dates, keep the last of two equal keys, and let a hundred bytes of
anchors stand for a gigabyte. So this loader takes the parser's events and builds the tree itself: plain scalars are
JSON's (true, false, null, numbers) or texts, and what two readers would read differently is refused with the advice to
quote it. Duplicate keys, anchors, aliases, tags, a second document, more than `MAX_DEPTH` levels and more than
`MAX_DOCUMENT` bytes are refused. Nothing is ever resolved or constructed by the library.

All faults of the shape are reported, each with its line. A document that the parser cannot read has one fault, since
nothing behind it means anything.

The C parser is used where PyYAML has it; the tree is the same with the pure one.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec.structs import replace

from finality.core.contract import MAX_DOCUMENT, Contract, contract_of_tree
from finality.core.contract_check import MAX_FAULTS, Fault, Place

__all__ = ["MAX_DEPTH", "fastest_parser", "load_contract"]

MAX_DEPTH = 16

_SYNTAX_HINT = (
    "look at indentation, brackets and quotes; a text that begins with > % @ * & ! or holds ': ' needs quotes"
)

# What YAML does not allow in a document, half a character (a lone surrogate) included.
_FOREIGN = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:$|[Tt ])")
_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-9]{1,2})+(?:\.[0-9]*)?")
_OTHER_NUMBER = re.compile(
    r"[-+]?(?:0[0-7_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*|[0-9][0-9_]*\.[0-9_]*"
    r"|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?"
)
_SWITCHES = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"})
_INFINITE = frozenset({".inf", "-.inf", "+.inf", ".nan"})


class _Refused(Exception):
    """Reading stops here; the faults say why."""


def fastest_parser() -> Any:
    """PyYAML's C loader class where its wheel has one, else the pure one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_contract(text: str, where: str, parser: Any = None) -> tuple[Contract | None, list[Fault]]:
    """The contract in a YAML text, None when a fault refuses it; its faults and warnings in the order of their lines.

    where: name of the file in the faults. parser: a PyYAML loader class, by default the fastest there is.
    """
    reader = _Reader()
    contract: Contract | None = None
    try:
        tree = reader.read(text, parser or fastest_parser())
    except _Refused:
        faults = reader.faults
    else:
        contract, found = contract_of_tree(tree)
        faults = reader.faults + [replace(fault, line=reader.line_of(fault.place)) for fault in found]
        if reader.faults:
            contract = None
    return contract, [replace(fault, where=where) for fault in sorted(faults, key=lambda fault: fault.line)]


class _Reader:
    """Builds a plain tree from the parser's events. faults: what was wrong; lines: where each place begins."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._lines: dict[Place, int] = {}
        self._events: Any = None

    def line_of(self, place: Place) -> int:
        """Line of a place, or of the nearest level above it that has one."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def read(self, text: str, parser: Any) -> Any:
        """The tree. Raises `_Refused` when reading cannot go on."""
        foreign = _FOREIGN.search(text)
        if foreign:
            line = text.count("\n", 0, foreign.start()) + 1
            raise self._refusal(line, f"holds the character {foreign[0]!a}", "remove it or write it as an escape")
        size = len(text.encode())
        if size > MAX_DOCUMENT:
            raise self._refusal(1, f"is {size} bytes long", f"use at most {MAX_DOCUMENT}")
        self._events = yaml.parse(text.removeprefix("\ufeff"), Loader=parser)
        try:
            return self._document()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark is not None else 1
            if "nesting" in str(getattr(error, "problem", "")):  # the C parser's own limit, met while it looks ahead
                raise self._too_deep(line) from None
        raise self._refusal(line, "is not YAML", _SYNTAX_HINT)

    def _document(self) -> Any:
        tree: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refusal(
                        _line(event), "is followed by a second document", "use a file for each contract"
                    )
                tree = self._node(next(self._events), ())
        if not documents:
            raise self._refusal(1, "is empty", "write a contract: apiVersion, kind, metadata, spec")
        return tree

    def _node(self, event: Any, place: Place) -> Any:
        line = _line(event)
        self._lines.setdefault(place, line)
        if isinstance(event, yaml.AliasEvent):
            self._fault(place, line, f"is an alias (*{str(event.anchor)[:40]})", "write the value out")
            return ""
        if event.anchor is not None:
            self._fault(place, line, f"has an anchor (&{event.anchor[:40]})", "remove it; aliases are not allowed")
        if event.tag is not None:
            self._fault(place, line, f"has a tag ({event.tag[:40]!r})", "remove it")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, place, line)
        if len(place) >= MAX_DEPTH:
            raise self._too_deep(line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(place)
        return self._mapping(place)

    def _sequence(self, place: Place) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*place, len(items))))
        return items

    def _mapping(self, place: Place) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refusal(line, "has a key that is no plain text", "write KEY: VALUE")
            if event.anchor is not None or event.tag is not None:
                self._fault(place, line, f"has an anchor or a tag on the key {event.value[:40]!r}", "remove it")
            key = event.value
            if key in items:
                first = self._lines[(*place, key)]
                self._fault((*place, key), line, f"is there twice, first on line {first}", "keep one of them")
                self._node(next(self._events), (*place, key))
                continue
            self._lines[(*place, key)] = line
            items[key] = None
            items[key] = self._node(next(self._events), (*place, key))
        return items

    def _scalar(self, event: Any, place: Place, line: int) -> Any:
        text = event.value
        if not event.implicit[0]:  # quoted, or a block: a text and nothing else
            return text
        if text in ("true", "false"):
            return text == "true"
        if text in ("", "null"):
            return None
        if _INTEGER.fullmatch(text):
            return int(text)
        why = _ambiguous(text)
        if why:
            self._fault(
                place, line, f"{text[:40]!r} is {why} to some readers and a text to others", f"write {text[:40]!r}"
            )
            return text
        if _FRACTION.fullmatch(text):
            return float(text)
        return text

    def _fault(self, place: Place, line: int, reason: str, suggestion: str) -> None:
        self.faults.append(Fault(place, reason, suggestion, line))
        if len(self.faults) >= MAX_FAULTS:
            self.faults.append(Fault((), f"has {MAX_FAULTS} faults and perhaps more", "correct these first", line))
            raise _Refused

    def _too_deep(self, line: int) -> _Refused:
        return self._refusal(line, f"is nested more than {MAX_DEPTH} levels deep", "no contract is so deep")

    def _refusal(self, line: int, reason: str, suggestion: str) -> _Refused:
        self.faults.append(Fault((), reason, suggestion, line))
        return _Refused()


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _ambiguous(text: str) -> str:
    """What a plain scalar is for some YAML readers, "" when all agree on it."""
    if text.lower() in _SWITCHES:
        return "a truth value or nothing"
    if text.lower() in _INFINITE:
        return "a number"
    if _DATE.match(text):
        return "a date"
    if _CLOCK.fullmatch(text):
        return "a number in base 60"
    if _OTHER_NUMBER.fullmatch(text) and not _FRACTION.fullmatch(text):
        return "a number in another notation"
    return ""
