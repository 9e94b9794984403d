"""A look at a stack from outside: which of its processes run, and whether each answers. Starts and needs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from finality.core.errors import UsageError
from finality.lab.stack.home import redis_urls
from finality.lab.stack.plan import read_plan
from finality.lab.stack.ports import HOST
from finality.lab.stack.process import ServerProcess
from finality.lab.stack.ready import knows_itself, pings

__all__ = ["Row", "survey"]


class Row(msgspec.Struct, frozen=True):
    """One process. state: ready, silent (runs, does not answer) or stopped; megabytes: memory held."""

    name: str
    state: str
    pid: int | None
    port: int
    megabytes: int
    log: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def survey(home: Path) -> list[Row]:
    """Every process of the stack, Redis last. Raises `UsageError` when there is no plan."""
    plan = read_plan(home)
    if plan is None:
        raise UsageError(f"no stack in {home}: start it with 'finality stack up --name {home.name}'")
    rows = []
    for broker in plan.brokers:
        process = ServerProcess(broker.name, home)
        answers = process.pid is not None and knows_itself(f"{HOST}:{broker.port}", broker.node)
        rows.append(_row(process, broker.port, answers))
    url = next(iter(redis_urls(plan).values()))
    if plan.redis.url:
        rows.append(Row("redis", "ready" if pings(url) else "silent", None, 0, 0, f"given: {plan.redis.url}"))
    else:
        process = ServerProcess("redis", home)
        rows.append(_row(process, plan.redis.port, process.pid is not None and pings(url)))
    return rows


def _row(process: ServerProcess, port: int, answers: bool) -> Row:
    pid = process.pid
    state = "stopped" if pid is None else "ready" if answers else "silent"
    return Row(process.name, state, pid, port, process.resident_bytes() >> 20, str(process.log))
