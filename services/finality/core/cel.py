"""Predicates: CEL expressions over one job's evidence. The only file that knows the CEL library.

**Environment.** Texts `phase`, `reason`, `word`, `name`; numbers `attempts`, `retries`, `run_time_ms`, `latency_ms`,
`parts`; `fenced` (bool); the maps `labels` (texts) and `metrics` (numbers). Any other name is a metric: `rows_out > 0`
is `metrics.rows_out > 0`.

**Numbers are doubles**, whole-number literals included, so `rows_out > 0` type-checks. An expression that does not
type-check so is taken as written (`size(labels) > 2`: size gives an int). For exact decimal bounds there is
`targetState.metrics`.

**Every replica must compute the same.** The library's maps are iterated in an order that differs between processes, its
zones come from the machine, and iteration has a budget. So comprehensions, map literals, times and zones are not part
of the language here; what is left has a cost bounded by the expression's length. Functions: `has`, `size`, `matches`
with a literal pattern, `contains`, `startsWith`, `endsWith`.

**Never satisfied by accident.** A predicate must be of type bool when it is admitted. What it mentions and is missing
makes it MISSING, without evaluation; contradictory evidence makes it CONFLICT; `has(metrics.x)` is the one way to allow
for a metric that may be missing. Anything that the evaluation gives but the booleans is ERROR. Division is only by a
literal other than zero, since doubles know infinity and NaN.

Measured with cel-expr-python 0.1.3 (Google's C++ runtime); the pin is part of the fold version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from cel_expr_python import cel

__all__ = ["MAX_SOURCE", "Facts", "Predicate", "compile_predicate"]

MAX_SOURCE = 1024  # characters
MAX_TOKENS = 256

_TEXTS = ("name", "phase", "reason", "word")
_NUMBERS = ("attempts", "latency_ms", "parts", "retries", "run_time_ms")
_CONTESTED = frozenset({"phase", "reason", "word"})  # what two different endings leave open
_FIXED = frozenset({*_TEXTS, *_NUMBERS, "fenced", "labels", "metrics"})
_FUNCTIONS = frozenset({"has", "size", "matches", "contains", "startsWith", "endsWith"})
_WORDS = frozenset({"true", "false", "in", "null"})
_LOOPS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<text>[rR]"[^"\r\n]*"|[rR]'[^'\r\n]*'|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<number>[0-9]+\.[0-9]+|[0-9]+)(?![0-9A-Za-z_.])
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[<>=!]=|[-+*/%?:.,()\[\]<>!])
    """,
    re.VERBOSE,
)


class Facts(NamedTuple):
    """What a predicate may look at. A name that is not in a map is missing.

    conflict: two different endings stand side by side. contested: metrics with contradictory values.
    """

    texts: Mapping[str, str]
    numbers: Mapping[str, float]
    fenced: bool
    labels: Mapping[str, str]
    metrics: Mapping[str, float]
    conflict: bool
    contested: frozenset[str]


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class Predicate:
    """A compiled predicate. `doubts`: (reason, suggestion) of what is allowed and probably not meant."""

    __slots__ = ("_all", "_expression", "_mentions", "_numbers", "_required", "_top", "doubts", "source")

    def __init__(self, source: str, expression: Any, scan: _Scan) -> None:
        self.source = source
        self.doubts = scan.doubts()
        self._expression = expression
        self._mentions = scan.fixed
        self._top = scan.top
        self._all = scan.top | scan.selected | scan.optional
        self._required = scan.top | (scan.selected - scan.optional)
        self._numbers = scan.fixed.intersection(_NUMBERS)

    @property
    def needs_labels(self) -> bool:
        """True when it looks at labels or the name."""
        return not self._mentions.isdisjoint({"labels", "name"})

    def judge(self, facts: Facts) -> str:
        """`true`, `false`, MISSING, CONFLICT or ERROR."""
        mentions = self._mentions
        if facts.conflict and not mentions.isdisjoint(_CONTESTED):
            return "CONFLICT"
        if not facts.contested.isdisjoint(self._all):
            return "CONFLICT"
        if not (self._required <= facts.metrics.keys() and self._numbers <= facts.numbers.keys()):
            return "MISSING"
        data: dict[str, object] = {**facts.texts, **facts.numbers, "fenced": facts.fenced}
        data = {name: value for name, value in data.items() if name in mentions}
        if "labels" in mentions:
            data["labels"] = facts.labels
        if "metrics" in mentions:
            data["metrics"] = facts.metrics
        for name in self._top:
            data[name] = facts.metrics[name]
        try:
            value = self._expression.eval(data=data)
            if value.type() == cel.Type.BOOL:
                answer = value.value()
                if answer is True:
                    return "true"
                if answer is False:
                    return "false"
        except Exception:  # whatever the library raises (budget, conversion): the same code in the hashed entry
            return "ERROR"
        return "ERROR"


class _Scan:
    """What an expression mentions, found in its tokens. Raises ValueError (`reason; suggestion`)."""

    def __init__(self, source: str) -> None:
        self.tokens = _tokens(source)
        self.fixed: frozenset[str] = frozenset()
        self.top: frozenset[str] = frozenset()
        self.selected: frozenset[str] = frozenset()
        self.optional: frozenset[str] = frozenset()
        self.patterns: list[str] = []
        self._read()

    def _read(self) -> None:
        fixed: set[str] = set()
        top: set[str] = set()
        selected: set[str] = set()
        optional: set[str] = set()
        for at, token in enumerate(self.tokens):
            before, after = self._text(at - 1), self._text(at + 1)
            if token.text == "." and not (self._kind(at - 1) in ("word", "text") or before in (")", "]")):
                raise ValueError(f"begins a name with a dot at character {token.at + 1}; leave the dot out")
            if token.text in ("/", "%") and not (self._kind(at + 1) == "number" and float(after) != 0):
                raise ValueError("divides by what may be zero; multiply the other side, or divide by a number")
            if token.kind != "word" or token.text in _WORDS:
                continue
            if after == "(":
                self._function(at, before)
            elif before == ".":
                continue
            elif token.text in _FIXED:
                fixed.add(token.text)
                if token.text == "metrics":
                    name = self._selection(at)
                    (optional if self._text(at - 2) == "has" and before == "(" else selected).add(name)
            else:
                top.add(token.text)
        self.fixed, self.top = frozenset(fixed), frozenset(top)
        self.selected, self.optional = frozenset(selected), frozenset(optional)

    def _text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def _kind(self, at: int) -> str:
        return self.tokens[at].kind if 0 <= at < len(self.tokens) else ""

    def _function(self, at: int, before: str) -> None:
        name = self._text(at)
        if name in _LOOPS and before == ".":
            raise ValueError(f"uses the comprehension {name}(); write the cases out")
        if name not in _FUNCTIONS:
            close = get_close_matches(name[:64], sorted(_FUNCTIONS), 1)
            hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(sorted(_FUNCTIONS))}"
            raise ValueError(f"uses the function {name[:64]}(), which is not available; {hint}")
        if name == "matches":
            if before != "." or self._kind(at + 2) != "text" or self._text(at + 3) != ")":
                raise ValueError("uses matches() without a literal pattern; write TEXT.matches('PATTERN')")
            self.patterns.append(self._text(at + 2))

    def _selection(self, at: int) -> str:
        """The metric that `metrics` at a token selects."""
        if self._text(at + 1) == "." and self._kind(at + 2) == "word" and self._text(at + 3) != "(":
            return self._text(at + 2)
        literal = self._text(at + 2)
        if self._text(at + 1) == "[" and self._kind(at + 2) == "text" and self._text(at + 3) == "]":
            name = literal[1:-1]
            if literal[0] in "\"'" and "\\" not in name:
                return name
        raise ValueError("uses metrics as a whole; write metrics.NAME or metrics['NAME']")

    def doubts(self) -> tuple[tuple[str, str], ...]:
        """Metrics whose names are nearly those of something else."""
        found = []
        for name in sorted(self.top):
            close = get_close_matches(name[:64], sorted(_FIXED), 1, 0.8)
            if close:
                found.append((f"takes {name[:64]!r} for a metric", f"did you mean {close[0]!r}?"))
        return tuple(found)

    def doubled(self) -> tuple[str, list[int]]:
        """The expression on one line with its whole-number literals as doubles, and for each of its characters the
        character of the source."""
        text, origin = "", []
        for token in self.tokens:
            piece = f"{token.text}.0 " if token.kind == "number" and token.text.isdecimal() else f"{token.text} "
            text += piece
            origin += [token.at + min(step, len(token.text) - 1) for step in range(len(piece))]
        return text, origin


def _tokens(source: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or not match.lastgroup or _fused(match, source):
            shown = source[at : at + 8].split("\n", maxsplit=1)[0]
            raise ValueError(
                f"cannot be read at character {at + 1} ({shown!r}); maps, bytes, hexadecimal and unsigned numbers, "
                "triple quotes and back-quotes are not available"
            )
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup, match[0], at))
            if len(found) > MAX_TOKENS:
                raise ValueError(f"has more than {MAX_TOKENS} words and signs; split it into several predicates")
            if match.lastgroup == "number" and len(match[0]) > 15:
                raise ValueError(f"has a number of more than 15 digits at character {at + 1}; use targetState.metrics")
        at = match.end()
    return found


def _fused(match: re.Match[str], source: str) -> bool:
    """True where the library would read on: triple quotes and b''."""
    following = source[match.end() : match.end() + 1]
    if match.lastgroup == "text":
        return match[0][-2:] in ('""', "''") and following == match[0][-1]
    return match.lastgroup == "word" and following in ('"', "'")


def _environment(names: frozenset[str]) -> Any:
    kinds = cel.Type
    variables: dict[str, Any] = dict.fromkeys(_TEXTS, kinds.STRING)
    variables.update(dict.fromkeys(_NUMBERS, kinds.DOUBLE))
    variables.update(dict.fromkeys(names, kinds.DOUBLE))
    variables["fenced"] = kinds.BOOL
    variables["labels"] = kinds.Map(kinds.STRING, kinds.STRING)
    variables["metrics"] = kinds.Map(kinds.STRING, kinds.DOUBLE)
    return cel.NewEnv(variables=variables)


def compile_predicate(source: str) -> Predicate:
    """A predicate from its text. Raises ValueError, `reason; suggestion` on one line."""
    if len(source) > MAX_SOURCE:
        raise ValueError(f"is {len(source)} characters long; use at most {MAX_SOURCE}")
    if not source.strip():
        raise ValueError("is empty; write a condition such as 'rows_out > 0'")
    scan = _Scan(source)
    try:
        environment = _environment(scan.top)
    except Exception as error:
        raise ValueError(_one_line(error)) from None
    for pattern in scan.patterns:
        _check_pattern(environment, pattern)
    doubled, origin = scan.doubled()
    try:
        expression = environment.compile(doubled)
    except Exception as error:
        try:
            expression = environment.compile(source)
        except Exception:
            raise ValueError(_one_line(error, origin)) from None
    if expression.return_type() != cel.Type.BOOL:
        kind = expression.return_type().name().lower()
        raise ValueError(f"gives {kind}, not true or false; compare it with something")
    return Predicate(source, expression, scan)


def _check_pattern(environment: Any, pattern: str) -> None:
    try:
        value = environment.compile(f"''.matches({pattern})").eval(data={})
        sound = value.type() == cel.Type.BOOL
    except Exception:
        sound = False
    if not sound:
        raise ValueError(f"has a pattern that is no regular expression (RE2): {pattern[:40]}; correct it")


def _one_line(error: Exception, origin: list[int] | None = None) -> str:
    """The first complaint of the library, without its picture of the expression. Its columns count from 1."""
    text = str(error)
    first = text.split("ERROR: <input>:")[-1 if text.count("ERROR: <input>:") < 2 else 1]
    reason = first.split("\n")[0].strip().replace("; ", ", ")
    line, _, rest = reason.partition(":")
    column, _, complaint = rest.partition(": ")
    head = "is no condition that can be computed"
    if not (line == "1" and column.isdecimal() and origin):
        return f"{head}: {reason[:200]}; write a simpler one"
    place = origin[min(int(column), len(origin)) - 1] + 1
    hint = "write a condition such as 'rows_out > 0'"
    if "overload" in complaint:
        hint = "compare numbers with numbers and texts with texts"
    return f"{head}: {complaint[:200]} (character {place}); {hint}"
