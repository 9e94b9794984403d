"""`finality contracts apply|list|dry-run`: commands to the fold, and a rehearsal without one."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from finality.cli.contracts import app
from finality.cli.output import note, show_json, show_table
from finality.cli.wiring import SiteHandle, context_of, open_site
from finality.core.commands import CommandRecord
from finality.core.contract import Contract, compile_contract
from finality.core.contract_yaml import load_contract
from finality.core.errors import DependencyError, UsageError
from finality.core.event import encode_event
from finality.core.fold import Fold
from finality.core.genesis import Genesis, Parameters, Voters
from finality.core.logview import LogView
from finality.core.records import COMMAND, EVENT
from finality.kafka.control import append_command, read_control
from finality.kafka.tail import read_to_end
from finality.sources.registry import source_by_name

__all__ = ["app", "apply_contract"]

_WAIT_S = 30.0


def load(path: Path) -> Contract:
    """A contract file. Raises `UsageError` with the first fault, `DependencyError` when it cannot be read."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DependencyError(f"{path} cannot be read: {error}; name a contract file") from None
    contract, faults = load_contract(text, str(path))
    if contract is None:
        more = f" (and {len(faults) - 1} more: finality contracts check {path})" if len(faults) > 1 else ""
        raise UsageError(faults[0].render() + more)
    return contract


def apply_contract(site: SiteHandle, path: Path) -> tuple[Contract, tuple[int, int]]:
    """Append the command that makes a contract the newest of its name; its (epoch, number)."""
    contract = load(path)
    document = msgspec.Raw(contract.document)
    done = append_command(
        site.kafka,
        site.names,
        lambda epoch, number: CommandRecord(epoch=epoch, number=number, op="contract", document=document),
    )
    return contract, done.place


@app.command()
def apply(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Contract files.")],
    site: Annotated[str, typer.Option(help="Site whose control takes the command.")] = "primary",
    wait: Annotated[float, typer.Option(help="Seconds to wait until every partition has folded it; 0 = do not.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Apply contracts, and say how far each partition has come.

    Example: finality contracts apply nightly.yaml
    """
    handle = open_site(context_of(ctx), site)
    rows = []
    for path in files:
        contract, place = apply_contract(handle, path)
        folded = _await(handle, place, wait)
        rows.append({"name": contract.name, "version": contract.version, "number": place[1], "partitions": folded})
        if not as_json:
            total = handle.genesis.partitions
            note(
                f"{contract.name} {contract.version}: command {place[1]}, folded by {len(folded)} of {total} partitions"
            )
    if as_json:
        show_json({"applied": rows})


def _await(site: SiteHandle, place: tuple[int, int], wait: float) -> list[int]:
    """Partitions whose certified log holds the command's entry, after at most `wait` seconds."""
    deadline = time.monotonic() + wait
    open_ones = set(range(site.genesis.partitions))
    views = {partition: LogView(site.genesis_value, partition, site.home) for partition in open_ones}
    offsets = dict.fromkeys(open_ones, 0)
    while wait and open_ones:
        for partition in sorted(open_ones):
            for record in read_to_end(site.kafka, site.names.topic("log"), partition, offsets[partition]):
                offsets[partition] = record.offset + 1
                for attested in views[partition].read(record):
                    document = attested.decoded()
                    if document["kind"] == "control" and (document["epoch"], document["number"]) >= place:
                        open_ones.discard(partition)
        if time.monotonic() > deadline:
            break
        time.sleep(0.2 if open_ones else 0)
    return sorted(set(range(site.genesis.partitions)) - open_ones) if wait else []


@app.command("list")
def list_contracts(
    ctx: typer.Context,
    site: Annotated[str, typer.Option(help="Site of the context.")] = "primary",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """The newest version of every contract that was applied.

    Example: finality contracts list
    """
    handle = open_site(context_of(ctx), site)
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for numbered in read_control(handle.kafka, handle.names).commands:
        command = msgspec.json.decode(numbered.value, type=CommandRecord)
        if command.op == "contract":
            contract = compile_contract(bytes(command.document))
            newest[contract.tenant, contract.name] = {
                "tenant": contract.tenant,
                "name": contract.name,
                "version": contract.version,
                "number": command.number,
                "expected": contract.expected,
            }
        elif command.op == "contract-delete":
            newest.pop((command.tenant, command.name), None)
    rows = [newest[key] for key in sorted(newest)]
    if as_json:
        show_json({"contracts": rows})
    else:
        show_table(
            ("tenant", "name", "version", "expected"),
            [
                (row["tenant"], row["name"], row["version"], ", ".join(f"{k} {v}" for k, v in row["expected"].items()))
                for row in rows
            ],
        )


@app.command("dry-run")
def dry_run(
    contract_file: Annotated[Path, typer.Argument(help="The contract.")],
    files: Annotated[list[Path], typer.Argument(help="Recorded data of one source.")],
    source: Annotated[str, typer.Option(help="Name of the source, see 'finality sources list'.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fold recorded data against a contract, without any broker, and show what would come of it.

    Example: finality contracts dry-run borg.yaml job-events.csv.gz --source google-borg
    """
    contract = load(contract_file)
    jobs, rejected = rehearse(contract, source, files)
    counts = Counter(str(job.get("outcome") or "OPEN") for job in jobs.values())
    selected = sum(1 for job in jobs.values() if job["contract"][0] == contract.name)
    if as_json:
        show_json({"by_outcome": dict(counts), "jobs": len(jobs), "selected": selected, "rejected": rejected})
        return
    show_table(("outcome", "jobs"), sorted(counts.items()))
    note(f"{selected} of {len(jobs)} jobs are selected by {contract.name}; {rejected} records rejected")


def rehearse(contract: Contract, source: str, files: list[Path]) -> tuple[dict[str, dict[str, Any]], int]:
    """The latest word on every job of recorded data under one contract, and how many records were rejected."""
    from finality.core.errors import Rejected

    parameters = Parameters(log_time="events", memory=str(2**62))
    genesis = Genesis(1, "0", "rehearsal", parameters, 1, "here", (Voters(1, "here", ("r1",)),))
    fold = Fold(genesis)
    reader = source_by_name(source)
    command = b'{"document":' + contract.document + b',"epoch":1,"number":1,"op":"contract"}'
    made = fold.step(2, COMMAND, None, command, ())
    position, rejected = 2, 0
    jobs: dict[str, dict[str, Any]] = {}
    for path in files:
        for reading in reader.read(path):
            try:
                events = reader.map(reading.value, reading.headers).events
            except Rejected:
                rejected += 1
                continue
            for event in events:
                position += 1
                made = fold.step(position, EVENT, None, encode_event(event), ())
                for entry in made:
                    if entry.kind in ("delta", "outcome", "amendment"):
                        document = msgspec.json.decode(entry.entry)
                        jobs[document["job"]] = document
                    elif entry.kind == "rejected":
                        rejected += 1
    return jobs, rejected
