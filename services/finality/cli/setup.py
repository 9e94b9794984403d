"""`finality setup`: topics and genesis at every site of the context."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from finality.cli.output import note, show_json, show_table
from finality.cli.wiring import context_of
from finality.core.errors import Failed
from finality.core.genesis import LogTimeMode, Parameters
from finality.core.names import Names
from finality.kafka import admin
from finality.kafka.connection import KafkaSettings
from finality.kafka.plan import new_genesis
from finality.settings import Context
from finality.sources.registry import SOURCES

__all__ = ["app", "apply_setup"]

app = typer.Typer(no_args_is_help=True, help="Create topics and genesis; check what is there.")


class LogTime(StrEnum):
    """How log time is told."""

    TICKS = "ticks"
    EVENTS = "events"


def sites_of(context: Context) -> dict[str, admin.Site]:
    """The sites of a context as set-up sees them."""
    names = Names.of(context.namespace)
    return {name: admin.Site(KafkaSettings.of(site.kafka), names) for name, site in context.sites.items()}


def apply_setup(context: Context, partitions: int, log_time: str, active: str, memory_days: int = 30) -> admin.Applied:
    """Create what is missing at every site; safe to repeat."""
    mode: LogTimeMode = "events" if log_time == "events" else "ticks"
    parameters = Parameters(log_time=mode, memory=str(memory_days * 86_400 * 10**9))
    voters = {name: site.voters for name, site in context.sites.items()}
    start_ns = time.time_ns() if mode == "ticks" else 0
    return admin.apply(
        sites_of(context),
        lambda: new_genesis(
            voters, active, partitions=partitions, log_time=mode, start_ns=start_ns, parameters=parameters
        ),
        [source.name for source in SOURCES],
    )


@app.command()
def apply(
    ctx: typer.Context,
    partitions: Annotated[int, typer.Option(help="Input partitions, fixed for ever.")] = 8,
    log_time: Annotated[LogTime, typer.Option(help="ticks, or events for replays of recorded data.")] = LogTime.TICKS,
    active: Annotated[str, typer.Option(help="The site that begins.")] = "primary",
    memory_days: Annotated[int, typer.Option(help="How long finished jobs are remembered.")] = 30,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Create topics and genesis at every site. Safe to run twice.

    Example: finality setup apply --partitions 8
    """
    done = apply_setup(context_of(ctx), partitions, log_time.value, active, memory_days)
    created = sum(len(topics) for topics in done.created.values())
    if json:
        show_json({"created": done.created, "genesis": done.record.value.decode(), "written": done.written})
    else:
        genesis = done.record.genesis
        note(f"{created} topics created; genesis {genesis.nonce[:8]}, {genesis.partitions} partitions")


@app.command()
def check(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare topics and settings with the plan; exit 1 when something differs.

    Example: finality setup check
    """
    context = context_of(ctx)
    rows = []
    for name, site in sites_of(context).items():
        rows += [(name, *difference) for difference in admin.check(site)]
    if json:
        show_json({"differences": [[str(cell) for cell in row] for row in rows]})
    elif rows:
        show_table(("site", "topic", "setting", "found", "wanted"), rows)
    else:
        note("all topics are as planned")
    if rows:
        raise Failed(f"{len(rows)} settings differ from the plan; change them, or the plan")
