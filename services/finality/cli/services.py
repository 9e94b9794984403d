"""`finality run SERVICE`: one service in the foreground, until SIGTERM."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from finality.cli.output import note
from finality.cli.process import run_loop
from finality.cli.wiring import context_of, ingest_of, open_site, projector_of, reconciler_of

__all__ = ["Service", "run"]


class Service(StrEnum):
    """Services that exist."""

    INGEST = "ingest"
    RECONCILER = "reconciler"
    PROJECTOR = "projector"
    STANDBY = "standby"


def run(
    ctx: typer.Context,
    service: Annotated[Service, typer.Argument(help="Which service.")],
    site: Annotated[str, typer.Option(help="Site of the context.")] = "",
    replica: Annotated[str, typer.Option(help="Voter id.")] = "r1",
    slot: Annotated[str, typer.Option(help="Which partitions: k/n takes those with number mod n = k.")] = "0/1",
    topic: Annotated[list[str] | None, typer.Option(help="ingest: raw topics to read (default: all).")] = None,
) -> None:
    """Run one service in the foreground; SIGTERM drains it.

    Example: finality run reconciler --site primary --replica r1 --slot 0/1
    """
    context = context_of(ctx)
    handle = open_site(context, site or ("dr" if service is Service.STANDBY else "primary"))
    if service is Service.INGEST:
        ingest = ingest_of(handle, topic or ())
        note(f"ingest at {handle.name} is running")
        run_loop(ingest.step, ingest.close, note)
    elif service is Service.PROJECTOR:
        projector = projector_of(handle, slot)
        note(f"projector slot {slot} at {handle.name} is running")
        run_loop(projector.step, projector.close, note)
    else:
        loop = reconciler_of(handle, replica, slot)
        note(f"{service.value} {replica} slot {slot} at {handle.name} is running")
        run_loop(loop.step, loop.close, note)
