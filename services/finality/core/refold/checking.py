"""Judges one partition: is the attested log exactly what its input says, and if not, where first.

Two ways to differ. A block that counts, but says something else than this code computes (`Refold.verdict`). And a block
in the place of the next one that does not even recompute: damaged bytes, since a leader's mistakes would carry a quorum
of other values. Records that acceptance ignores for other reasons (deposed or doubled writers) are counted, no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from finality.core.refold.partition import Refold

__all__ = ["check_partition"]

_DAMAGE = ("UNREADABLE", "CHAIN", "POSITION", "ORDER", "CUT", "ENTRY_SIZE", "EMPTY", "CONTROL")
Headers = Sequence[tuple[str, bytes | None]]


def check_partition(
    refold: Refold,
    log: Iterable[tuple[bytes | None, Headers]],
    inputs: Iterable[tuple[bytes | None, bytes | None, Headers]],
) -> dict[str, Any]:
    """The verdict as a document: ok, entries, blocks, ignored, behind, repeats, difference.

    behind: entries of the own fold that no block covers yet. repeats: input records that the fold dropped as repeats.
    difference: None, or index, position, ordinal, class (INPUT, FOLD, LOG), certified and computed entry as text.
    """
    blocks, leaders = 0, 0
    suspect: bytes | None = None
    for value, headers in log:
        before = refold.log.index
        reason = refold.feed_log(value, headers)
        if reason is None:
            moved = refold.log.index != before
            blocks += moved
            leaders += not moved
            suspect = None if moved else suspect
        elif reason in _DAMAGE and suspect is None:
            suspect = value if value is not None else b""
    for key, value, headers in inputs:
        refold.feed_input(key, value, headers)
    difference = _difference(refold)
    if difference is None and suspect is not None:
        difference = _damage(refold, suspect)
    return {
        "ok": difference is None,
        "entries": refold.log.index,
        "blocks": blocks,
        "leaders": leaders,
        "ignored": dict(sorted(refold.refused.items())),
        "behind": max(0, refold.index - refold.log.index),
        "repeats": refold.repeats,
        "chain": refold.log.chain.hex(),
        "difference": difference,
    }


def _difference(refold: Refold) -> dict[str, Any] | None:
    verdict = refold.verdict()
    if verdict is not None:
        return {
            "index": verdict.index,
            "position": verdict.position,
            "ordinal": verdict.ordinal,
            "class": verdict.cause,
            "certified": verdict.certified.decode(errors="replace"),
            "computed": verdict.own.decode(errors="replace"),
        }
    if refold.index < refold.log.index:
        return {
            "index": refold.index + 1,
            "position": refold.input.position,
            "ordinal": 0,
            "class": "INPUT",
            "certified": "",
            "computed": "",
        }
    return None


def _damage(refold: Refold, value: bytes) -> dict[str, Any]:
    """The first entry of a damaged block that is not what the input says; the block's first one if none can be told."""
    index = refold.log.index + 1
    place: dict[str, Any] = {"index": index, "position": refold.log.position, "ordinal": 0, "class": "LOG"}
    for number, (position, ordinal, certified) in enumerate(_entries(value), start=index):
        own = refold.computed(number)
        if own is None or own != certified:
            return {
                **place,
                "index": number,
                "position": position,
                "ordinal": ordinal,
                "certified": certified.decode(errors="replace"),
                "computed": (own or b"").decode(errors="replace"),
            }
    return {**place, "certified": "", "computed": (refold.computed(index) or b"").decode(errors="replace")}


def _entries(value: bytes) -> list[tuple[int, int, bytes]]:
    """(position, ordinal, entry) of a block that may be damaged anywhere; [] when it is no JSON any more.

    Entries are written again in canonical form for the comparison: only what is shown to a person depends on it.
    """
    try:
        rows = json.loads(value)["entries"]
        return [(int(row[0]), int(row[1]), _canonical(row[2])) for row in rows]
    except (ValueError, KeyError, TypeError, IndexError):
        return []


def _canonical(entry: object) -> bytes:
    return json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
