"""JSON, read strictly with the standard library, and where each value of a document lies in its bytes.

The logs carry JSON as RFC 8259 has it: UTF-8, no NaN, no half characters, nothing behind the document. Of two equal
keys the last one counts, but both must be what they should be: `shaped` looks at every pair.

Raw bytes matter in two places, a block's entries (they were hashed as they lie there) and a command's contract document
(its size is bounded): `spans` gives them without parsing JSON a second time by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "BadJson",
    "Pairs",
    "Shape",
    "depth",
    "document_of",
    "is_list",
    "is_text",
    "is_truth",
    "is_whole",
    "last_of_equals",
    "list_of",
    "map_of",
    "maybe",
    "shaped",
    "spans",
]

_SPACE = " \t\n\r"
_LONGEST = 4000  # digits of a number; longer ones are out of every range here

Shape = Callable[[Any], Any]  # the value as it is used; raises BadJson


class BadJson(ValueError):
    """The bytes are not JSON, or not of the shape that is asked for."""


class Pairs(list[tuple[str, Any]]):
    """The pairs of one object, repeats included."""


def document_of(value: bytes) -> Any:
    """The document with its objects as `Pairs`. Raises `BadJson`."""
    try:
        text = value.decode("utf-8")
        tree = json.loads(text, object_pairs_hook=Pairs, parse_constant=_refuse, parse_int=_whole)
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except ValueError as error:
        raise BadJson(str(error)) from None
    if "\\u" in text:
        _no_halves(tree)
    return tree


def _refuse(word: str) -> Any:
    raise BadJson(f"{word} is no JSON")


def _whole(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST else float("inf")


def _no_halves(tree: Any) -> None:
    rest = [tree]
    while rest:
        item = rest.pop()
        if isinstance(item, list | tuple):
            rest.extend(item)
        elif isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise BadJson("half a character") from None


def last_of_equals(tree: Any) -> Any:
    """The tree without the pairs that a later one with the same key replaces."""
    if isinstance(tree, Pairs):
        return Pairs([(key, last_of_equals(item)) for key, item in dict(tree).items()])
    if isinstance(tree, list):
        return [last_of_equals(item) for item in tree]
    return tree


def depth(tree: Any) -> int:
    """How many lists and objects stand inside each other at most."""
    level, deepest = [tree], 0
    while level := [item for item in level if isinstance(item, list)]:
        deepest += 1
        level = [part[1] if isinstance(item, Pairs) else part for item in level for part in item]
    return deepest


# -- shapes --------------------------------------------------------------------------------------


def is_text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise BadJson("is no text")
    return value


def is_whole(value: Any) -> int:
    """A whole number written as one: no truth value, no fraction."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadJson("is no whole number")
    return value


def is_truth(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise BadJson("is no truth value")
    return value


def is_list(value: Any) -> list[Any]:
    """A list of anything."""
    if not isinstance(value, list) or isinstance(value, Pairs):
        raise BadJson("is no list")
    return value


def list_of(shape: Shape) -> Shape:
    """A list whose items have a shape."""
    return lambda value: [shape(item) for item in is_list(value)]


def map_of(shape: Shape) -> Shape:
    """An object whose values have a shape, under any keys."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Pairs):
            raise BadJson("is no object")
        return {key: shape(item) for key, item in value}

    return check


def maybe(shape: Shape) -> Shape:
    """null, or a shape."""
    return lambda value: None if value is None else shape(value)


def shaped(
    value: Any, needed: Mapping[str, Shape], extra: Mapping[str, Shape] | None, strict: bool = True
) -> dict[str, Any]:
    """An object with all of the `needed` keys and perhaps some of `extra`; strict: and with no others."""
    if not isinstance(value, Pairs):
        raise BadJson("is no object")
    known = {**needed, **(extra or {})}
    found: dict[str, Any] = {}
    for key, item in value:
        if key in known:
            found[key] = known[key](item)
        elif strict:
            raise BadJson(f"unknown key {key[:40]!r}")
    for key in needed:
        if key not in found:
            raise BadJson(f"lacks {key!r}")
    return found


# -- places --------------------------------------------------------------------------------------


def spans(text: str) -> list[tuple[str | None, str]]:
    """The parts of a list or object that `document_of` took: (key or None, the part's own text)."""
    decoder = json.JSONDecoder(parse_int=_whole)
    at = _skip(text, 0)
    is_object = text[at] == "{"
    parts: list[tuple[str | None, str]] = []
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        key: str | None = None
        if is_object:
            key, at = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        _, end = decoder.raw_decode(text, at)
        parts.append((key, text[at:end]))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return parts


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
