"""`finality run SERVICE`: one service in the foreground, until SIGTERM."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol

import typer

from finality.cli.output import note
from finality.cli.process import patiently, run_loop
from finality.cli.wiring import context_of, ingest_of, open_site, projector_of, reconciler_of

__all__ = ["Service", "run"]


class Loop(Protocol):
    """What every service is."""

    def step(self) -> int:
        """One round; how many records it read."""

    def close(self) -> None:
        """Free what it holds."""


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
    wait: Annotated[float, typer.Option(help="Seconds to wait for brokers and Redis at the start.")] = 60,
) -> None:
    """Run one service in the foreground; SIGTERM drains it.

    Example: finality run reconciler --site primary --replica r1 --slot 0/1
    """
    context = context_of(ctx)
    name = site or ("dr" if service is Service.STANDBY else "primary")
    context.site(name)

    def build() -> Loop:
        handle = open_site(context, name)
        if service is Service.INGEST:
            return ingest_of(handle, topic or ())
        if service is Service.PROJECTOR:
            return projector_of(handle, slot)
        return reconciler_of(handle, replica, slot)

    loop = patiently(build, note, wait)
    note(f"{service.value} at {name} is running")
    run_loop(loop.step, loop.close, note)
