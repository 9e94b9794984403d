"""What the README shows is what happens. Its step-by-step block runs in `tests/stack/test_readme_steps.py`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.readme import Block, block_with, blocks, checkout
from support.tree import ROOT

OFFLINE = [block for block in blocks() if all(re.search(r"finality (sources|contracts)", one) for one in block.lines)]
TEXT = (ROOT / "README.md").read_text("utf-8")


def test_every_block_is_run_by_a_test() -> None:
    others = [block_with("make demo"), block_with("stack up")]
    assert len(OFFLINE) == 2
    assert sorted(blocks()) == sorted(OFFLINE + others)


@pytest.mark.parametrize("block", OFFLINE, ids=lambda block: block.lines[0].split("/")[-1])
def test_commands_without_a_broker_print_what_is_shown(block: Block, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FINALITY_")}
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(block.lines)],
        cwd=checkout(tmp_path),
        env=clean,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, block.shown)


def test_make_has_the_targets_that_people_rely_on() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    wanted = [line.removeprefix("make ") for line in block_with("make demo").lines]
    assert wanted == ["demo", "test"]
    for target in (*wanted, "lint", "bench", "chaos", "setup"):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_demo_s_output_is_of_a_run_that_was_right() -> None:
    shown = block_with("make demo").shown
    counts = {word: int(count) for word, count in re.findall(r"^([A-Z]+) +(\d+)$", shown, re.M)}
    assert counts == {"CANCELLED": 19_570, "OPEN": 4_008, "SATISFIED": 28_770, "UNPROVEN": 75, "VIOLATED": 1_619}
    assert "truth    54,042 of 54,042 outcomes" in shown
    for word in ("delta", "proof", "verify", "tamper", "figures"):
        assert re.search(rf"^{word} ", shown, re.M), word


def test_the_first_screen_needs_six_words_only() -> None:
    """Other words of the glossary wait until the reader has seen it work."""
    first = TEXT[: TEXT.index("## Your own file")].lower()
    first = re.sub(r"```text\n[^`]*truth[^`]*```", "", first)  # the demo speaks for itself
    glossary = re.findall(r"^\| ([a-z][a-z ]*?) \|", (ROOT / "docs" / "GLOSSARY.md").read_text("utf-8"), re.M)[1:]
    later = set(glossary[6:]) - {"source", "index", "final"}
    assert sorted(word for word in later if re.search(rf"\b{word}s?\b", first)) == []
    assert all(re.search(rf"\b{word}", first) for word in glossary[:6])
