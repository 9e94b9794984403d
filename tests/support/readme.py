"""The README's blocks: what it tells people to type, and what it says they will see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from support.tree import ROOT

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A block of shell lines, and the text block that follows it directly ("" = none)."""

    lines: tuple[str, ...]
    shown: str


def blocks() -> list[Block]:
    """Every shell block of the README, in order."""
    text = (ROOT / "README.md").read_text("utf-8")
    fences = list(_FENCE.finditer(text))
    found = []
    for place, fence in enumerate(fences):
        if fence.group(1) == "sh":
            after = fences[place + 1] if place + 1 < len(fences) else None
            near = after is not None and after.group(1) == "text" and "\n#" not in text[fence.end() : after.start()]
            shown = after.group(2) if near and after is not None else ""
            found.append(Block(tuple(line for line in fence.group(2).splitlines() if line), shown))
    return found


def block_with(words: str) -> Block:
    """The only block in which a line holds these words."""
    (found,) = [block for block in blocks() if any(words in line for line in block.lines)]
    return found


def checkout(folder: Path) -> Path:
    """A folder that looks like a clone after `make setup`, so that what commands leave behind stays out of ours."""
    for name in (".venv", "services", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder
