"""Bytes from outside to plain values, within limits.

Whatever the bytes are, reading them takes linear time and ends in a value or in `Rejected`. A JSON object that names a
key twice is refused, since two readers would take different values from it.

The check for duplicate keys costs a second pass only where it must: a document that equals its own re-encoding has
none, for an encoder cannot write a key twice.

Codes: TOO_LARGE (over 4 MiB), NOT_UTF8, BAD_JSON (broken or cut off), TOO_DEEP (over 64 levels), DUPLICATE_KEY,
NOT_AN_OBJECT, BAD_FIELD (a field of another type than the format says).

Source: RFC 8259; RFC 7493 section 2.3 (names are unique).
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BufferedIOBase
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import orjson

from finality.core.errors import DependencyError, Rejected, UsageError
from finality.sources.base import Reading

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_FILE_BYTES",
    "clip",
    "decimal_text",
    "json_object",
    "json_value",
    "number_text",
    "object_at",
    "read_json",
    "read_lines",
    "text_at",
]

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_FILE_BYTES = 256 << 20  # of a file that is one JSON document; line files have no limit

# Ends at the closing quote, or at the end of the text: every opening quote matches, so that time stays linear.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def json_value(value: bytes) -> Any:
    """The value of one JSON document. Raises `Rejected`."""
    if len(value) > MAX_BYTES:
        raise Rejected("TOO_LARGE", f"{len(value)} bytes, at most {MAX_BYTES}")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        _refuse(value, str(error))
    if value.count(b"{") + value.count(b"[") > MAX_DEPTH:
        _check_depth(parsed)
    if orjson.dumps(parsed) != value:
        _check_keys(value, parsed)
    return parsed


def json_object(value: bytes) -> dict[str, Any]:
    """The members of one JSON object. Raises `Rejected`."""
    parsed = json_value(value)
    if type(parsed) is not dict:
        raise Rejected("NOT_AN_OBJECT", "the document must be a JSON object")
    return parsed


def _refuse(value: bytes, why: str) -> NoReturn:
    """Say what is wrong with bytes that are no JSON."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise Rejected("NOT_UTF8", f"byte {error.start}") from None
    depth = deepest = 0
    for byte in _STRING.sub(b"", value):
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    if deepest > MAX_DEPTH:
        raise Rejected("TOO_DEEP", f"{deepest} levels, at most {MAX_DEPTH}")
    raise Rejected("BAD_JSON", why[:120])


def _check_depth(parsed: Any) -> None:
    level = [parsed]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for box in level
            for item in (box.values() if type(box) is dict else box)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    raise Rejected("TOO_DEEP", f"more than {MAX_DEPTH} levels")


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Rejected("DUPLICATE_KEY", repr(twice[:80]))


def _check_keys(value: bytes, parsed: Any) -> None:
    """Refuse duplicate keys in a document that is written otherwise than we would write it."""
    if orjson.dumps(parsed) == msgspec.json.format(value, indent=-1):
        return  # it differed in white space only
    json.loads(value, object_pairs_hook=_unique, parse_int=len, parse_float=len)


def clip(text: str, limit: int = 512) -> str:
    """A text for people or selectors, cut to `limit` characters so that an event stays small."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def object_at(box: dict[str, Any], *path: str) -> dict[str, Any]:
    """The object at a path of member names; {} where it is missing or is no object."""
    for name in path:
        inner = box.get(name)
        if type(inner) is not dict:
            return {}
        box = inner
    return box


def text_at(box: dict[str, Any], *path: str) -> str:
    """The string at a path of member names; "" where it is missing or is no string."""
    inner = object_at(box, *path[:-1]).get(path[-1])
    return inner if type(inner) is str else ""


def number_text(value: Any) -> str:
    """Exact decimal text of a foreign id or count: a string of digits or an integer; "" for anything else.

    Fractions and booleans give "": a number that went through a float is no longer the number that was sent.
    """
    if type(value) is int:
        return str(value) if value >= 0 else ""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= 40:
        return value
    return ""


def decimal_text(value: Any) -> str:
    """Plain decimal text of a foreign measurement (integer or fraction), "" for anything else or out of range.

    A fraction is written with the fewest digits that read back as the same double.
    """
    if type(value) is int or type(value) is float:
        text = f"{Decimal(repr(value)):f}" if isfinite(value) else ""
        return text if len(text) <= 40 else ""
    return ""


def read_lines(path: Path, skip_blank: bool = True) -> Iterator[Reading]:
    """The lines of a file, plain or .gz, without their ends. A line over the limit is yielded cut (and so refused).

    Raises `DependencyError` when the file cannot be opened, `UsageError` when its compression is damaged.
    """
    number = 0
    with _open(path) as lines:
        while True:
            line = _line(path, lines)
            if not line:
                return
            number += 1
            line = line.rstrip(b"\r\n")
            if line or not skip_blank:
                yield Reading(line, (), f"{path.name}:{number}")


def _line(path: Path, lines: BufferedIOBase) -> bytes:
    """The next line with its end, b"" at the end of the file; the rest of a line over the limit is dropped."""
    line = rest = _fetch(path, lambda: lines.readline(MAX_BYTES + 2))
    while len(rest) == MAX_BYTES + 2 and rest[-1:] != b"\n":
        rest = _fetch(path, lambda: lines.readline(MAX_BYTES + 2))
    return line


def _fetch(path: Path, take: Callable[[], bytes]) -> bytes:
    try:
        return take()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path}: damaged gzip file ({error}); copy it again") from None
    except OSError as error:
        raise DependencyError(f"{path}: cannot read it ({error.strerror or error})") from None


def _open(path: Path) -> BufferedIOBase:
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        return cast(BufferedIOBase, gzip.open(path) if packed else path.open("rb"))
    except OSError as error:
        raise DependencyError(f"{path}: cannot open it ({error.strerror or error})") from None


def read_json(path: Path) -> Iterator[Reading]:
    """The records of a JSON file: one document a line, one array of documents, or one document over many lines.

    Errors as `read_lines`. A file that is none of these is read by lines, so that each sound line still counts.
    """
    whole = _document(path)
    if whole is None:
        yield from read_lines(path)
        return
    try:
        parts = msgspec.json.decode(whole, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        yield Reading(whole, (), f"{path.name}:1")
        return
    for place, part in enumerate(parts):
        yield Reading(bytes(part), (), f"{path.name}#{place}")


def _document(path: Path) -> bytes | None:
    """The bytes of a file that is one JSON document (and not a document a line); None for any other file."""
    with _open(path) as lines:
        first = b"\n"
        while first and not first.strip():
            first = _line(path, lines)
    if first.lstrip()[:1] != b"[" and _is_json(first):
        return None
    with _open(path) as content:
        whole = _fetch(path, lambda: content.read(MAX_FILE_BYTES + 1))
    return whole if len(whole) <= MAX_FILE_BYTES and _is_json(whole) else None


def _is_json(value: bytes) -> bool:
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True
