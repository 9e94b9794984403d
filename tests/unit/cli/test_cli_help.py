"""Help says what a command does, shows one use of it, and fits on a page; shells can complete the words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from finality import __version__
from finality.cli.main import command_line
from support.command import finality

APP = command_line()


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    yield from _below(typer.main.get_command(APP), ())


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from _below(inner, (*words, name))


ALL = list(commands())


def is_group(words: tuple[str, ...]) -> bool:
    """Groups hold commands and do nothing by themselves."""
    return any(len(other) == len(words) + 1 and other[: len(words)] == words for other in ALL)


def help_of(words: tuple[str, ...], width: int) -> str:
    done = CliRunner().invoke(APP, [*words, "--help"], env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.output


def test_the_commands_that_people_rely_on_exist() -> None:
    known = {" ".join(words) for words in ALL}
    wanted = {"demo", "replay", "run", "verify"}
    wanted |= {f"stack {verb}" for verb in ("up", "status", "logs", "down")}
    wanted |= {f"setup {verb}" for verb in ("apply", "check")}
    wanted |= {f"sources {verb}" for verb in ("list", "check")}
    wanted |= {f"contracts {verb}" for verb in ("check", "apply", "dry-run", "list")}
    wanted |= {f"jobs {verb}" for verb in ("list", "show")}
    assert wanted <= known


@pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(words) or "finality")
def test_help_fits_and_shows_an_example(words: tuple[str, ...]) -> None:
    page = help_of(words, 100)
    assert [line for line in page.splitlines() if cell_len(line) > 100] == []
    if not is_group(words):
        example = re.search(r"Example: (finality [^\n]+)", page)
        assert example, "no example"
        assert example.group(1).startswith(" ".join(("finality", *words))), example.group(1)


@pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(words) or "finality")
def test_every_option_says_what_it_is(words: tuple[str, ...]) -> None:
    command = typer.main.get_command(APP)
    for word in words:
        command = command.commands[word]  # type: ignore[attr-defined]
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", "")] == []


def test_the_version_is_the_package_s(tmp_path: Path) -> None:
    assert finality("--version", folder=tmp_path) == (0, f"finality {__version__}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_have_completion(shell: str, tmp_path: Path) -> None:
    done = finality(folder=tmp_path, _FINALITY_COMPLETE=f"source_{shell}")
    assert (done.code, "_FINALITY_COMPLETE=complete_" + shell in done.out) == (0, True), done


def test_completion_can_be_installed() -> None:
    page = help_of((), 100)
    assert "--install-completion" in page
    assert "--show-completion" in page


def test_completion_offers_what_fits(tmp_path: Path) -> None:
    words = {"_FINALITY_COMPLETE": "complete_bash", "COMP_WORDS": "finality sources ch", "COMP_CWORD": "2"}
    done = finality(folder=tmp_path, **words)
    assert done.out.split() == ["check"], done
