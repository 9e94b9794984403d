"""Globs over job names, with the meaning of `fnmatch.fnmatchcase` and a bounded cost.

`fnmatch` makes one regular expression of a pattern, and such an expression can try every way to share a name out among
its stars. Here a pattern is cut at its stars into pieces of fixed length, and each piece is looked for once, leftmost
first, so that a name of n characters costs at most n times the pattern's length.
"""

from __future__ import annotations

import re
from fnmatch import translate

__all__ = ["Glob"]

_MAGIC = frozenset("*?[")


class Glob:
    """A compiled pattern. literal: how many of its characters stand for themselves; exact: all of them do."""

    __slots__ = ("_first", "_last", "_middle", "_text", "exact", "literal", "pattern")

    def __init__(self, pattern: str) -> None:
        pieces = _pieces(pattern)
        self.pattern = pattern
        self.exact = _MAGIC.isdisjoint(pattern)
        self.literal = sum(len(item) == 1 and item not in _MAGIC for piece in pieces for item in piece)
        self._text = pattern if self.exact else None
        self._first = _Piece(pieces[0])
        self._middle = [_Piece(piece) for piece in pieces[1:-1] if piece]
        self._last = _Piece(pieces[-1]) if len(pieces) > 1 else None

    def matches(self, name: str) -> bool:
        """True when the whole name fits the pattern."""
        if self._text is not None:
            return name == self._text
        end = self._first.at(name, 0)
        if end < 0:
            return False
        if self._last is None:
            return end == len(name)
        for piece in self._middle:
            end = piece.after(name, end)
            if end < 0:
                return False
        begin = len(name) - self._last.size
        return begin >= end and self._last.at(name, begin) >= 0


class _Piece:
    """A part of a pattern without stars: every match has the same length."""

    __slots__ = ("_match", "_search", "size")

    def __init__(self, items: list[str]) -> None:
        self.size = len(items)
        compiled = re.compile("".join([_expression(item) for item in items]), re.DOTALL)
        self._match = compiled.match
        self._search = compiled.search

    def at(self, name: str, begin: int) -> int:
        """Where a match that begins here ends, -1 for none."""
        found = self._match(name, begin)
        return found.end() if found else -1

    def after(self, name: str, begin: int) -> int:
        """Where the leftmost match from here on ends, -1 for none."""
        found = self._search(name, begin)
        return found.end() if found else -1


def _pieces(pattern: str) -> list[list[str]]:
    """The pattern cut at its stars; each piece is a list of characters, `?` and whole `[…]` sets."""
    pieces: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        end = _set_end(pattern, at) if char == "[" else 0
        if char == "*":
            pieces.append([])
            at += 1
        elif end:
            pieces[-1].append(pattern[at:end])
            at = end
        else:
            pieces[-1].append(char)
            at += 1
    return pieces


def _set_end(pattern: str, at: int) -> int:
    """Behind the bracket that closes the set opened at `at`, 0 when none does (then `[` stands for itself)."""
    begin = at + 1
    if pattern[begin : begin + 1] == "!":
        begin += 1
    if pattern[begin : begin + 1] == "]":
        begin += 1
    return pattern.find("]", begin) + 1


def _expression(item: str) -> str:
    if len(item) == 1 and item != "?":
        return re.escape(item)
    return translate(item)[4:-3]  # without (?s: and )\Z
