"""Every fault of a contract, each with its place, its reason and what to write instead.

`Check` walks a plain tree (what YAML or JSON gave) along the structs of `contract_model`, collects faults instead of
stopping at the first one, and replaces each text by its canonical form. Relations between settings are looked at
afterwards, on whatever part of the tree was sound.

Leaves out: lines (the YAML loader adds them), types of jobs and sources that exist (unknown here).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

from finality.core.canonical import encode
from finality.core.cel import Predicate, compile_predicate
from finality.core.contract_model import BUILT_IN, Document
from finality.core.errors import UsageError
from finality.core.quantity import format_duration, parse_bound, parse_duration

__all__ = ["MAX_FAULTS", "Check", "ContractError", "Fault", "Place"]

MAX_PREDICATES = 32_768  # bytes of all predicates as JSON: they stand in every entry, which may have 65,536
MAX_FAULTS = 200  # a document with more is not worth a longer list

Place = tuple[str | int, ...]

_FOREIGN_WORDS = {
    "CANCELED": "CANCELLED",
    "ABORTED": "CANCELLED",
    "COMPLETE": "SUCCEEDED",
    "COMPLETED": "SUCCEEDED",
    "DONE": "SUCCEEDED",
    "ERROR": "FAILED",
    "FAILURE": "FAILED",
    "OK": "SUCCEEDED",
    "SUCCESS": "SUCCEEDED",
}

# Sources whose jobs are known to run again under the same key after they ended.
_REOPENING = frozenset(
    {"airflow", "argo", "flink", "github", "gitlab", "kubernetes", "openlineage", "prefect", "slurm", "spark"}
)


class Fault(msgspec.Struct, frozen=True):
    """One fault. line: from 1, 0 = unknown. A warning does not refuse the contract."""

    place: Place
    reason: str
    suggestion: str = ""
    line: int = 0
    where: str = ""
    warning: bool = False

    @property
    def path(self) -> str:
        """`spec.predicates[0].cel`; the whole document is `(document)`."""
        text = ""
        for step in self.place:
            if isinstance(step, int):
                text += f"[{step}]"
            elif step and all(char.isalnum() or char in "-_" for char in step):
                text += f".{step[:64]}"
            else:
                text += f"[{_shown(step)}]"
        return text.lstrip(".") or "(document)"

    def render(self) -> str:
        """One line: `FILE:LINE: PATH: reason; suggestion`."""
        head = f"{self.where}:{self.line}: " if self.where else ""
        tail = f"; {self.suggestion}" if self.suggestion else ""
        return f"{head}{self.path}: {'warning: ' if self.warning else ''}{self.reason}{tail}"


class ContractError(UsageError):
    """A contract that is refused; `faults` says why, in the order of the document."""

    def __init__(self, faults: list[Fault]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"contract refused: {faults[0].render()}{more}")
        self.faults = faults


class _Absent:
    """What stands for a value that was refused."""


ABSENT = _Absent()


class Check:
    """One walk over one document. faults, and predicates by source text, are filled by `document`."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.predicates: dict[str, Predicate] = {}

    def document(self, tree: Any) -> Document | None:
        """The typed document of a tree, None when it has faults that refuse it."""
        clean = self._value(inspect.type_info(Document), tree, ())
        if isinstance(clean, dict):
            self._relations(clean)
        if any(not fault.warning for fault in self.faults):
            return None
        return msgspec.convert(clean, Document)

    def _fault(self, place: Place, reason: str, suggestion: str = "", warning: bool = False) -> _Absent:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(place, reason, suggestion, warning=warning))
        elif len(self.faults) == MAX_FAULTS:
            self.faults.append(Fault((), f"has more than {MAX_FAULTS} faults", "correct these first"))
        return ABSENT

    # -- shape --------------------------------------------------------------------------------

    def _value(self, kind: inspect.Type, value: Any, place: Place) -> Any:
        extra: dict[str, Any] = {}
        if isinstance(kind, inspect.UnionType):
            kind = next(option for option in kind.types if not isinstance(option, inspect.NoneType))
        if isinstance(kind, inspect.Metadata):
            extra = kind.extra or {}
            kind = kind.type
        if value is None:
            return self._fault(place, "has no value", "give it one or leave the key out")
        if isinstance(kind, inspect.StructType):
            return self._struct(kind, value, place)
        if isinstance(kind, inspect.DictType):
            return self._dict(kind, value, place)
        if isinstance(kind, inspect.VarTupleType):
            return self._list(kind, value, place)
        if isinstance(kind, inspect.LiteralType):
            return self._literal(kind, value, place)
        if isinstance(kind, inspect.IntType):
            return self._int(kind, value, place)
        assert isinstance(kind, inspect.StrType), kind
        return self._text(kind, extra, value, place)

    def _struct(self, kind: inspect.StructType, value: Any, place: Place) -> Any:
        if not isinstance(value, dict):
            return self._fault(place, f"{_shown(value)} is not a mapping of keys to values", _known(kind))
        fields = {field.encode_name: field for field in kind.fields}
        clean: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._fault((*place, key), "is not a known key", _nearest(key, fields) or _known(kind))
                continue
            result = self._value(field.type, item, (*place, key))
            if result is not ABSENT:
                clean[key] = result
        for name, field in fields.items():
            if field.required and name not in value:
                self._fault(place, f"lacks the key {name!r}", _example(field.type, name))
        return clean

    def _dict(self, kind: inspect.DictType, value: Any, place: Place) -> Any:
        if not isinstance(value, dict):
            return self._fault(place, f"{_shown(value)} is not a mapping of names to texts", "write NAME: VALUE lines")
        self._size(kind.max_length, value, place)
        clean = {}
        for key, item in value.items():
            name = self._value(kind.key_type, key, (*place, key))
            result = self._value(kind.value_type, item, (*place, key))
            if name is not ABSENT and result is not ABSENT:
                clean[name] = result
        return clean

    def _list(self, kind: inspect.VarTupleType, value: Any, place: Place) -> Any:
        if not isinstance(value, list):
            return self._fault(place, f"{_shown(value)} is not a list", "write it as [a, b] or with leading dashes")
        self._size(kind.max_length, value, place)
        return [self._value(kind.item_type, item, (*place, at)) for at, item in enumerate(value[: kind.max_length])]

    def _size(self, limit: int | None, value: Any, place: Place) -> None:
        if limit is not None and len(value) > limit:
            self._fault(place, f"has {len(value)} items", f"use at most {limit}")

    def _literal(self, kind: inspect.LiteralType, value: Any, place: Place) -> Any:
        words = [str(word) for word in kind.values]
        if isinstance(value, str) and value in words:
            return value
        near = _FOREIGN_WORDS.get(str(value)[:64].upper(), "")
        hint = f"did you mean {near!r}?" if near in words else _nearest(value, words)
        if len(words) == 1:
            hint = f"write {words[0]!r}"
        return self._fault(place, f"{_shown(value)} is not allowed here", hint or f"use one of {', '.join(words)}")

    def _int(self, kind: inspect.IntType, value: Any, place: Place) -> Any:
        low, high = kind.ge or 0, kind.le or 2**53 - 1
        if isinstance(value, bool) or not isinstance(value, int):
            hint = f"write {value} without quotes" if isinstance(value, str) and value.isdecimal() else ""
            return self._fault(place, f"{_shown(value)} is not a whole number", hint or f"use {low} to {high}")
        if not low <= value <= high:
            return self._fault(place, f"{_shown(value)} is out of range", f"use {low} to {high}")
        return value

    def _text(self, kind: inspect.StrType, extra: dict[str, Any], value: Any, place: Place) -> Any:
        language = extra.get("is", "")
        if not isinstance(value, str):
            return self._fault(place, f"{_shown(value)} is not a text", _quoted(language, value))
        if kind.max_length is not None and len(value) > kind.max_length:
            return self._fault(place, f"is {len(value)} characters long", f"use at most {kind.max_length}")
        if language:
            return self._language(language, value, place)
        if len(value) < (kind.min_length or 0):
            return self._fault(place, "is empty", "give it a value or leave the key out")
        if kind.pattern and not re.compile(kind.pattern).fullmatch(value):
            return self._fault(place, f"{_shown(value)} is not allowed here", f"use {extra.get('hint', kind.pattern)}")
        return value

    def _language(self, language: str, value: str, place: Place) -> Any:
        try:
            if language == "bound":
                return parse_bound(value).text
            if language == "cel":
                predicate = self.predicates[value] = compile_predicate(value)
                for reason, hint in predicate.doubts:
                    self._fault(place, reason, hint, warning=True)
                return value
            if language == "settle" and value == "none":
                return value
            nanoseconds = parse_duration(value)
        except ValueError as error:
            reason, _, suggestion = str(error).partition("; ")
            shown = "" if language == "cel" else f"{_shown(value)} "
            return self._fault(place, shown + reason, suggestion)
        if nanoseconds == 0 and language == "settle":
            return "none"
        if nanoseconds == 0 and language == "duration":
            return self._fault(place, "is zero", "use a longer duration or leave the key out")
        return format_duration(nanoseconds)

    # -- relations ----------------------------------------------------------------------------

    def _relations(self, tree: dict[str, Any]) -> None:
        if _at(tree, "metadata", "name") == BUILT_IN:
            self._fault(
                ("metadata", "name"),
                f"{BUILT_IN!r} is the built-in contract of jobs that no other selects",
                "rename it",
            )
        spec = tree.get("spec", {})
        self._lease(spec.get("jobLease", {}))
        self._unique(("spec", "stages"), spec.get("stages", []))
        names = [_at(row, "name") or at for at, row in enumerate(spec.get("predicates", []))]
        self._unique(("spec", "predicates"), names)
        size = sum(
            len(encode(_at(row, "cel"))) for row in spec.get("predicates", []) if isinstance(_at(row, "cel"), str)
        )
        if size > MAX_PREDICATES:
            self._fault(
                ("spec", "predicates"),
                f"are {size} bytes together, at most {MAX_PREDICATES} fit into an entry",
                "shorten their texts, or split the contract",
            )
        rules = enumerate(spec.get("compensations", []))
        pairs = [(_at(row, "on") or at, _at(row, "action") or at) for at, row in rules]
        self._unique(("spec", "compensations"), pairs)
        ordering = spec.get("ordering", {})
        if ordering.get("revisions", "any") == "any" and ("holdMax" in ordering or "holdFor" in ordering):
            self._fault(
                ("spec", "ordering"), "holdMax and holdFor have no effect", "add revisions: contiguous", warning=True
            )
        source = _at(spec, "selector", "source")
        if spec.get("settle") == "none" and (source is None or source in _REOPENING):
            which = f"the source {source!r} may" if source else "some of the selected sources may"
            self._fault(
                ("spec", "settle"), f"none, but {which} reopen a job that has ended", "use a duration such as 30s", True
            )

    def _lease(self, lease: dict[str, str]) -> None:
        if not {"ttl", "keepAlive", "longestStep"} <= lease.keys():
            return
        ttl, keep, step = (parse_duration(lease[key]) for key in ("ttl", "keepAlive", "longestStep"))
        if 2 * ttl < 3 * step:
            least = format_duration(-(-3 * step // 2))
            self._fault(
                ("spec", "jobLease", "ttl"),
                f"{lease['ttl']} is less than 1.5 times longestStep ({lease['longestStep']})",
                f"use at least {least}",
            )
        if 3 * keep > ttl:
            self._fault(
                ("spec", "jobLease", "keepAlive"),
                f"{lease['keepAlive']} is more than a third of ttl ({lease['ttl']})",
                f"use at most {format_duration(ttl // 3)}",
            )

    def _unique(self, place: Place, items: list[Any]) -> None:
        seen: dict[Any, int] = {}
        for at, item in enumerate(items):
            first = seen.setdefault(item, at)
            if first != at and item is not ABSENT:
                self._fault((*place, at), f"repeats {_shown(item)} of [{first}]", "name each once")


def _at(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _shown(value: Any) -> str:
    """A value on one line, at most 40 characters of it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = ascii(value) if not isinstance(value, str) else repr(value[:41])
    return text if len(text) <= 42 else text[:40] + "…'"


def _nearest(word: Any, known: Any) -> str:
    """A word that was meant: equal but for case and underscores, else by likeness. Long words are not compared."""
    if not isinstance(word, str) or not 0 < len(word) <= 64:
        return ""
    folded = {name.lower(): name for name in known}
    near = folded.get(word.replace("_", "").replace("-", "").lower())
    close = [near] if near else get_close_matches(word, list(known), 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else ""


def _known(kind: inspect.StructType) -> str:
    return f"known here: {', '.join(field.encode_name for field in kind.fields)}"


def _example(kind: inspect.Type, name: str) -> str:
    if isinstance(kind, inspect.LiteralType) and len(kind.values) == 1:
        return f"add {name}: {kind.values[0]}"
    if isinstance(kind, inspect.StructType):
        inner = ", ".join(f"{field.encode_name}: …" for field in kind.fields if field.required)
        return f"add {name}: {{{inner}}}"
    return f"add {name}: …"


def _quoted(language: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "write one text"
    if language == "bound":
        return f"add a comparator and quotes, as in '>= {_shown(value)}'"
    if language in ("duration", "pause", "settle") and isinstance(value, int) and not isinstance(value, bool):
        return f"add a unit, as in {_shown(value)}s"
    return "put it in quotes"
