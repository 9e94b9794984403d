"""`finality demo`: the main job end to end, on a local stack of its own, with real data."""

from __future__ import annotations

import json as json_module
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from finality.cli.contract_commands import apply_contract
from finality.cli.output import note, show_table
from finality.cli.process import SystemClock
from finality.cli.replay import send_files
from finality.cli.setup import apply_setup
from finality.cli.verify import check_records, verify_site
from finality.cli.wiring import SiteHandle, open_site
from finality.core.errors import Failed
from finality.core.logview import LogView
from finality.core.records import Record
from finality.kafka.reader import KafkaReader
from finality.kafka.tail import read_to_end
from finality.lab.demo import Demo, DemoPorts, Report, Service, packaged, service_command
from finality.lab.stack import Stack
from finality.settings import Context, load_context

__all__ = ["demo"]

_PARTITIONS = 4


class _Wires:
    """The demo's ports on the real stack."""

    def __init__(self, context: Context, site: SiteHandle, folder: Path) -> None:
        self._context = context
        self._site = site
        self._folder = folder
        starts = dict.fromkeys(range(site.genesis.partitions), 0)
        self._log = KafkaReader(site.kafka, site.names.topic("log"), starts, SystemClock(), dense=True)

    def ports(self) -> DemoPorts:
        """All of them."""
        return DemoPorts(
            self._start,
            lambda source, paths: send_files(self._site, source, paths),
            lambda: self._log.poll(5_000, 0.2),
            lambda: verify_site(self._context, self._site.name, list(range(self._site.genesis.partitions))),
            self._refold,
            self._input_times,
            self._read_log,
            lambda partition: LogView(self._site.genesis_value, partition, self._site.home),
            self._site.genesis.partitions,
        )

    def close(self) -> None:
        self._log.close()

    def _start(self, name: str) -> Service:
        command = service_command("--config", self._context.path, "run", name, "--site", self._site.name)
        return Service(command, self._folder / f"{name}.log", os.environ)

    def _refold(self, partition: int, log: list[Record]) -> dict[str, Any]:
        site = self._site
        inputs = read_to_end(site.kafka, site.names.topic("input"), partition)
        return check_records(site, partition, log, inputs)

    def _input_times(self, partition: int) -> list[int]:
        topic = self._site.names.topic("input")
        return [record.timestamp for record in read_to_end(self._site.kafka, topic, partition)]

    def _read_log(self, partition: int) -> list[Record]:
        return list(read_to_end(self._site.kafka, self._site.names.topic("log"), partition))


def demo(
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
    keep: Annotated[bool, typer.Option(help="Leave the stack running afterwards.")] = False,
    data: Annotated[Path | None, typer.Option(help="Another file of Borg job events.", hidden=True)] = None,
) -> None:
    """Run the main job end to end with real data; exit 0 only if every outcome is the known truth.

    Example: finality demo --json figures.json
    """
    stack = Stack.start(Path(".finality/demo"), _fresh_name(), tied=not keep, progress=note)
    try:
        context = load_context(str(stack.context_path))
        apply_setup(context, _PARTITIONS, "events", "primary", memory_days=3650)
        site = open_site(context, "primary")
        apply_contract(site, packaged("contracts/borg.yaml"))
        wires = _Wires(context, site, stack.home)
        try:
            report = Demo(wires.ports(), note, data).run()
        finally:
            wires.close()
        _print(report)
        if json is not None:
            json.write_text(json_module.dumps(report.figures, indent=1, sort_keys=True) + "\n")
        if report.ok and (keep or (sys.stdin.isatty() and sys.stdout.isatty())):
            _linger(stack.context_path, keep)
    finally:
        if not keep:
            stack.delete()
    if not report.ok:
        raise Failed(_what_is_wrong(report))


def _fresh_name() -> str:
    """Two demos at once do not meet."""
    return f"demo-{secrets.token_hex(3)}"


def _linger(path: Path, keep: bool) -> None:
    typer.echo("\nThe stack is up. Try in another terminal:")
    for words in ("jobs list --outcome VIOLATED --limit 5", "verify"):
        typer.echo(f"  .venv/bin/finality --config {path} {words}")
    if not keep:
        typer.echo("Enter stops it.")
        sys.stdin.readline()


def _what_is_wrong(report: Report) -> str:
    if report.differences:
        return f"{len(report.differences)} jobs differ from the truth; the first: {report.differences[0]}"
    if not report.figures["verify"]["ok"]:
        return "the independent refold differs from the attested log; run 'finality verify' for the place"
    return "the flipped byte was not found"


def _print(report: Report) -> None:
    figures = report.figures
    rows = [(outcome, count) for outcome, count in figures["by_outcome"].items()]
    typer.echo(f"\n{figures['jobs']:,} jobs of a Google Borg cell, contract: SUCCEEDED within 1 h of the start")
    show_table(("outcome", "jobs"), rows)
    right = figures["jobs"] - len(report.differences)
    typer.echo(f"truth    {right:,} of {figures['jobs']:,} outcomes are what the rows themselves say")
    _print_sample(report)
    verdict = "equal" if figures["verify"]["ok"] else "DIFFERENT"
    typer.echo(
        f"verify   {figures['entries']:,} entries in {figures['blocks']:,} blocks, refolded independently: {verdict}"
    )
    tamper = report.tamper
    if tamper["found"]:
        index = tamper["verdict"]["difference"]["index"]
        typer.echo(f"tamper   one byte flipped in a copy: named, partition {tamper['partition']}, index {index}")
    typer.echo(
        f"figures  first outcome after {figures['seconds_to_first_outcome']} s, "
        f"all after {figures['seconds_total']} s; "
        f"{figures['events_per_s']:,} events/s, {figures['events_per_cpu_s']:,} per CPU second"
    )


def _print_sample(report: Report) -> None:
    document: Mapping[str, Any] = report.sample.decoded()
    lacks = ", ".join(
        f"{item} expected {document['expected'][item]}, is {document['actual'][item]}" for item in document["delta"]
    )
    typer.echo(f"delta    {document['job']}: {document['outcome']}, {lacks}")
    typer.echo(
        f"proof    partition {report.sample_partition}, index {report.sample.number}, computed by "
        f"{', '.join(report.sample.voters)}, chain {report.sample.chain.hex()[:32]}…"
    )
