"""The `finality` command: sub-commands, global options, and the one place where errors become lines and exit codes.

Exit codes: 0 done; 1 failed as reported; 2 wrong usage or settings; 3 a dependency cannot be reached; 4 integrity
fault, never restart automatically; 5 fenced.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from finality import __version__
from finality.core.errors import FinalityError

__all__ = ["COMMANDS", "command_line", "run"]

COMMANDS: Mapping[str, tuple[str, str]] = {  # in the order of help: where each lives in this room
    "demo": ("demo", "demo"),
    "stack": ("stack", "app"),
    "setup": ("setup", "app"),
    "run": ("services", "run"),
    "replay": ("replay", "replay"),
    "sources": ("sources", "app"),
    "contracts": ("contract_commands", "app"),
    "jobs": ("jobs", "app"),
    "verify": ("verify", "verify"),
}


def _version(value: bool) -> None:
    if value:
        typer.echo(f"finality {__version__}")
        raise typer.Exit


def _globals(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Option(help="Context file; default FINALITY_CONFIG, then .finality/stack/current.toml.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    context.obj = {"config": config, "debug": debug}
    if debug:
        os.environ["FINALITY_DEBUG"] = "1"


def command_line(only: str = "") -> typer.Typer:
    """All commands, or that one where its name is known: clients of Kafka and Redis take a second to load, and
    `finality sources check` needs none of them."""
    app = typer.Typer(
        name="finality",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="How every job ended, and the proof of it.\n\nExample: finality sources check events.ndjson",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_globals)
    for name, (module, attribute) in COMMANDS.items():
        if only in COMMANDS and name != only:
            continue
        found = getattr(import_module(f"finality.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def run() -> None:
    """Entry point of the `finality` script. Never returns; see the exit codes above. Ctrl-C: 130, as shells have it."""
    code = 1
    try:
        code = command_line(_first_word(sys.argv[1:]))(standalone_mode=False, prog_name="finality") or 0
        sys.stdout.flush()
    except FinalityError as error:
        code = _say(str(error), error.exit_code)
    except typer.TyperException as error:
        code = _say_usage(error)
    except typer.Abort:
        code = _say("stopped", 130)
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:  # completion ends so; and a pipe that broke within a command, whose code would be 1
        code = 0 if isinstance(end.__context__, BrokenPipeError) else _code_of(end)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = _say(
            f"unexpected {type(error).__name__}: {_line(str(error))}; run it again with --debug for the place", 1
        )
    sys.exit(code)


def _first_word(words: Sequence[str]) -> str:
    """The command's name, "" where it may be the value of an option."""
    known = [word for word in words[:1] if not word.startswith("-")]
    return known[0] if known else ""


def _say(line: str, code: int) -> int:
    """One line for people; with --debug the trace before it."""
    if "--debug" in sys.argv or os.environ.get("FINALITY_DEBUG"):
        traceback.print_exc()
    sys.stderr.write(f"finality: {line}\n")
    return code


def _say_usage(error: typer.TyperException) -> int:
    """What was wrong in the words of the command line, and where its help is; a bare group shows its help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # it has printed the help when it was made
        return error.exit_code
    command = context.command_path if context is not None else "finality"
    words = _line(error.format_message()).replace("Value error, ", "").rstrip(".")
    return _say(f"{words} (see '{command} --help')", error.exit_code)


def _code_of(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(bool(end.code))


def _line(text: str) -> str:
    return " ".join(text.split())
