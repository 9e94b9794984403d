"""The parts of `docs/FOLD.md` that are made from the code: the diagram of a job's life, and one example of each entry.

Run as a program it writes them again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from finality.core.entries import RANKS
from finality.core.reconcile import LIFE
from finality.core.refold.writing import canonical
from support.small_partition import Partition

DOCUMENT = Path(__file__).parents[2] / "docs" / "FOLD.md"
_STATES = re.compile(r"\b(open|settling|compensating|final)\b")


def diagram() -> str:
    """The table of life as a mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for begin, when, end in LIFE:
        for source in _STATES.findall(begin) or ["[*]"]:
            lines += [f"    {source} --> {target}: {when}" for target in _STATES.findall(end)]
    return "\n".join([*lines, "```"])


def examples() -> str:
    """One entry of each kind, as it is hashed, from a small history."""
    rule = {"on": "VIOLATED", "action": "rerun-step", "backoff": "2ns", "expires": "9ns"}
    part = Partition({"settle": "none", "compensations": [rule]}, digest_every=7, max_finished=1)
    part.event("FAILED", at=2, reason="OOM", word="Killed")
    part.event("SUCCEEDED", at=5, start=3)
    part.event("SUCCEEDED", "default/s/i/run/2", at=8)
    part.event(at=1)
    part.event("DONE", "default/s/i/run/3")
    part.event("RUNNING", at=4)
    part.event("RUNNING", at=5)
    first = {entry["kind"]: entry for entry in reversed(part.said)}
    return "\n".join(["```json", *[canonical(first[kind]).decode() for kind in RANKS], "```"])


def current(text: str) -> str:
    """The document with its made parts made again."""
    for name, made in (("life", diagram()), ("examples", examples())):
        begin, end = f"<!-- made: {name} -->", "<!-- end -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{made}\n\n{end}{tail}"
    return text


def quoted_json(text: str) -> list[object]:
    """Every JSON document in the text's code blocks, one a line."""
    blocks = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    return [json.loads(line) for block in blocks for line in block.splitlines()]


if __name__ == "__main__":
    DOCUMENT.write_text(current(DOCUMENT.read_text()))
    sys.stdout.write(f"wrote {DOCUMENT.name}\n")
