"""`finality stack`: the local stack for people. Progress goes to standard error, answers to standard output."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from finality.cli.output import note, show_json, show_table
from finality.core.errors import Failed, UsageError

__all__ = ["app"]

DIRECTORY = Path(".finality/stack")
FOLLOW_S = 0.2

app = typer.Typer(no_args_is_help=True, help="The local stack: primary and DR Kafka, Redis; nothing but Python needed.")

Name = Annotated[str, typer.Option(help="Which stack; several run side by side.")]


@app.command()
def up(
    name: Name = "default",
    brokers: Annotated[int, typer.Option(help="Brokers of the primary site, 1 or 3.")] = 1,
    dr_brokers: Annotated[int, typer.Option(help="Brokers of the DR site, 1 or 3.")] = 1,
    voters: Annotated[int, typer.Option(help="Voters r1 to rV of a site.")] = 1,
    port: Annotated[int | None, typer.Option(help="First of a block of ports; default: free ones.")] = None,
    redis: Annotated[
        str, typer.Option(help="redis:// address of a server that is there; default: one of our own.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds that all servers together may take.")] = 60.0,
) -> None:
    """Start it, wait until all of it answers, and make it the current context. Running parts stay as they are.

    Example: finality stack up --brokers 3
    """
    from finality.lab.stack import Stack

    began = time.monotonic()
    with _ended_by_signals():
        stack = Stack.start(
            DIRECTORY,
            name,
            brokers=brokers,
            dr_brokers=dr_brokers,
            voters=voters,
            port=port,
            redis_url=redis,
            deadline_s=timeout,
            progress=note,
        )
    note(f"up in {time.monotonic() - began:.1f} s; context: {DIRECTORY / 'current.toml'}")
    for site in stack.plan.clusters:
        typer.echo(f"{site:8} kafka {stack.cluster(site).advertised}  redis {stack.redis_urls[site]}")


@app.command()
def status(
    name: Name = "default",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """What runs, where it listens, and whether it answers. Exit 1 when a part does not.

    Example: finality stack status
    """
    from finality.lab.stack.survey import survey

    rows = survey(_home(name))
    if as_json:
        show_json({"name": name, "processes": [row.document() for row in rows]})
    else:
        show_table(
            ("process", "state", "pid", "port", "MB", "log"),
            [(row.name, row.state, row.pid or "-", row.port, row.megabytes, row.log) for row in rows],
        )
    missing = [row.name for row in rows if row.state != "ready"]
    if missing:
        raise Failed(f"not ready: {', '.join(missing)}; 'finality stack up --name {name}' starts what does not run")


@app.command()
def logs(
    process: Annotated[
        str | None, typer.Argument(help="One process, such as primary-1 or redis; default: all.")
    ] = None,
    name: Name = "default",
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many last lines of each.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")] = False,
) -> None:
    """The last lines of the logs, also of a start that failed.

    Example: finality stack logs primary-1 --follow
    """
    files = sorted((_home(name, planned=False) / "logs").glob("*.log"))
    chosen = [file for file in files if process in (None, file.stem)]
    if not chosen:
        known = ", ".join(file.stem for file in files) or "none"
        raise UsageError(f"no log of {process or 'any process'} in stack {name!r}; there are: {known}")
    places: dict[Path, int] = {}
    for file in chosen:
        content = file.read_bytes()
        places[file] = len(content)
        typer.echo(f"==> {file} <==")
        typer.echo("\n".join(content.decode(errors="replace").splitlines()[-lines:] if lines > 0 else []))
    if follow:
        _follow(places, typer.echo)


@app.command()
def down(
    name: Name = "default",
    delete: Annotated[bool, typer.Option("--delete", help="Forget its data and logs too.")] = False,
) -> None:
    """End all of it, whatever state it is in. Data stays for the next `up` unless --delete is given.

    Example: finality stack down --delete
    """
    from finality.lab.stack import stop_stack

    home = DIRECTORY / name
    if not home.is_dir():
        note(f"no stack {name!r} in {DIRECTORY}: nothing to end")
        return
    count = stop_stack(home, delete)
    note(f"stack {name!r}: {count} process(es) ended" + ("; its folder is deleted" if delete else ""))


def _home(name: str, planned: bool = True) -> Path:
    home = DIRECTORY / name
    if not home.is_dir() or (planned and not (home / "stack.json").exists()):
        raise UsageError(f"no stack {name!r} in {DIRECTORY}: start it with 'finality stack up --name {name}'")
    return home


def _follow(places: dict[Path, int], out: Callable[[str], Any]) -> None:
    last: Path | None = None
    while True:
        for file, place in places.items():
            if file.exists() and file.stat().st_size > place:
                with file.open("rb") as handle:
                    handle.seek(place)
                    fresh = handle.read()
                places[file] = place + len(fresh)
                if file is not last:
                    out(f"==> {file} <==")
                    last = file
                out(fresh.decode(errors="replace").rstrip("\n"))
        time.sleep(FOLLOW_S)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the start as Ctrl-C does: what it began is ended too."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        note("stopped; nothing of the stack was left running")
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
