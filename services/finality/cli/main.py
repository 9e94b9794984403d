"""The `finality` command: sub-commands, global options, and the one place where errors become lines and exit codes.

Exit codes: 0 done; 1 failed as reported; 2 wrong usage or settings; 3 a dependency cannot be reached; 4 integrity
fault, never restart automatically; 5 fenced.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from finality import __version__
from finality.core.errors import FinalityError

__all__ = ["app", "run"]

app = typer.Typer(
    name="finality",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="How every job ended, and the proof of it.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"finality {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Option(help="Context file; default FINALITY_CONFIG, then .finality/stack/current.toml.")
    ] = None,
    debug: Annotated[bool, typer.Option(help="Show the trace of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    context.obj = {"config": config, "debug": debug}
    if debug:
        os.environ["FINALITY_DEBUG"] = "1"


def _mount() -> None:
    """Sub-commands are imported here, so that `finality --help` and completion stay quick to start."""
    from finality.cli import contract_commands, contracts, demo, jobs, replay, services, setup, sources, stack, verify

    assert contract_commands  # adds its commands to `contracts`
    app.add_typer(stack.app, name="stack")
    app.add_typer(setup.app, name="setup")
    app.add_typer(sources.app, name="sources")
    app.add_typer(contracts.app, name="contracts")
    app.add_typer(jobs.app, name="jobs")
    app.command("run")(services.run)
    app.command("replay")(replay.replay)
    app.command("verify")(verify.verify)
    app.command("demo")(demo.demo)


def run() -> None:
    """Entry point of the `finality` script."""
    _mount()
    code = 0
    try:
        app()
    except FinalityError as error:
        if "--debug" in sys.argv or os.environ.get("FINALITY_DEBUG"):
            traceback.print_exc()
        sys.stderr.write(f"finality: {error}\n")
        code = error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    sys.stdout.flush()
    sys.exit(code)
