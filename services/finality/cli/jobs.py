"""`finality jobs`: outcomes and proofs, read from the attested log itself."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from finality.cli.output import show_json, show_table
from finality.cli.wiring import SiteHandle, context_of, open_site
from finality.core.canonical import entry_hash
from finality.core.errors import UsageError
from finality.core.jobkey import is_job_key, partition_of
from finality.core.logview import Attested, LogView
from finality.kafka.tail import read_to_end

__all__ = ["app", "attested_of", "proof_of", "state_of_jobs"]

app = typer.Typer(no_args_is_help=True, help="How jobs ended, what they still lack, and the proof.")
_OUTCOMES = ("SATISFIED", "VIOLATED", "EXPIRED", "CANCELLED", "UNPROVEN")
_SAYS = ("delta", "outcome", "amendment")


def attested_of(site: SiteHandle, partition: int) -> Iterator[Attested]:
    """Every certified entry of a partition, in index order."""
    view = LogView(site.genesis_value, partition, site.home)
    for record in read_to_end(site.kafka, site.names.topic("log"), partition):
        yield from view.read(record)


def state_of_jobs(site: SiteHandle) -> dict[str, dict[str, Any]]:
    """The latest certified word on every job: its outcome with amendments, else its delta."""
    jobs: dict[str, dict[str, Any]] = {}
    for partition in range(site.genesis.partitions):
        for attested in attested_of(site, partition):
            document = attested.decoded()
            if document["kind"] in _SAYS:
                jobs[str(document["job"])] = document | {"partition": partition, "index": attested.number}
    return jobs


def proof_of(attested: Attested, partition: int) -> dict[str, Any]:
    """All that a person needs to recompute one link of the chain, and who computed the same."""
    return {
        "partition": partition,
        "index": attested.number,
        "position": attested.position,
        "ordinal": attested.ordinal,
        "entry": attested.entry.decode(),
        "entry_hash": entry_hash(attested.entry).hex(),
        "previous_chain": attested.previous.hex(),
        "chain": attested.chain.hex(),
        "block_offset": attested.offset,
        "term": attested.term,
        "epoch": attested.epoch,
        "voters": list(attested.voters),
    }


@app.command("list")
def list_jobs(
    ctx: typer.Context,
    site: Annotated[str, typer.Option(help="Site of the context.")] = "primary",
    outcome: Annotated[str, typer.Option(help="Only this outcome; OPEN for jobs that have none.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many, 0 = all.", min=0)] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Jobs and how they ended.

    Example: finality jobs list --outcome VIOLATED --limit 20
    """
    wanted = _outcome(outcome)
    jobs = [
        {
            "key": key,
            "phase": document.get("phase", ""),
            "outcome": document.get("outcome", ""),
            "contract": document["contract"][0],
            "delta": document["delta"],
            "index": document["index"],
            "partition": document["partition"],
        }
        for key, document in sorted(state_of_jobs(open_site(context_of(ctx), site)).items())
    ]
    if wanted is not None:
        jobs = [job for job in jobs if job["outcome"] == wanted]
    shown = jobs[:limit] if limit else jobs
    if json:
        show_json({"jobs": shown, "total": len(jobs)})
        return
    rows = [(job["key"], job["phase"], job["outcome"] or "open", ", ".join(job["delta"]) or "-") for job in shown]
    show_table(("job", "phase", "outcome", "not met"), rows)
    if len(shown) < len(jobs):
        typer.echo(f"{len(shown)} of {len(jobs)}; --limit 0 shows all")


def _outcome(word: str) -> str | None:
    """What `--outcome` asks for: None = any, "" = jobs without one. Raises `UsageError` with the nearest known word."""
    if not word:
        return None
    if word.upper() not in (*_OUTCOMES, "OPEN"):
        near = get_close_matches(word.upper(), [*_OUTCOMES, "OPEN"], 1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_OUTCOMES)}, OPEN"
        raise UsageError(f"{word!r} is no outcome; {hint}")
    return "" if word.upper() == "OPEN" else word.upper()


@app.command()
def show(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(help="Job key: tenant/source/instance/kind/id.")],
    site: Annotated[str, typer.Option(help="Site of the context.")] = "primary",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """One job: its outcome, delta, history and proof.

    Example: finality jobs show default/google-borg/default/job/6251639640
    """
    if not is_job_key(key):
        raise UsageError(f"{key!r} is no job key; write tenant/source/instance/kind/id, percent-encoded")
    handle = open_site(context_of(ctx), site)
    partition, history = _history(handle, key)
    said = [row for row in history if row.decoded()["kind"] in _SAYS]
    if not said:
        raise UsageError(f"no certified entry names job {key}; 'finality jobs list' shows what is there")
    document = said[-1].decoded()
    answer = {
        "key": key,
        "phase": document.get("phase", ""),
        "outcome": document.get("outcome", ""),
        "contract": document["contract"],
        "expected": document["expected"],
        "actual": document["actual"],
        "delta": document["delta"],
        "history": [{"index": row.number, **row.decoded()} for row in history],
        "proof": proof_of(said[-1], partition),
    }
    if json:
        show_json(answer)
        return
    _print_job(answer)


def _history(site: SiteHandle, key: str) -> tuple[int, list[Attested]]:
    """Certified entries about a job and where they lie: in its key's partition, unless its source keeps families of
    jobs together (`partition_by = "root"`)."""
    mark = f'"job":"{key}"'.encode()
    home = partition_of(key.encode(), site.genesis.partitions)
    for partition in sorted(range(site.genesis.partitions), key=lambda number: number != home):
        found = [row for row in attested_of(site, partition) if mark in row.entry]
        if found:
            return partition, found
    return home, []


def _print_job(answer: dict[str, Any]) -> None:
    typer.echo(f"{answer['key']}\n  {answer['phase']}, {answer['outcome'] or 'open'}, contract {answer['contract'][0]}")
    rows = [
        (item, expected, answer["actual"].get(item, ""), answer["delta"].get(item, "met"))
        for item, expected in answer["expected"].items()
    ]
    show_table(("item", "expected", "actual", "verdict"), rows)
    proof = answer["proof"]
    typer.echo(
        f"proof: partition {proof['partition']}, index {proof['index']}, position {proof['position']}, "
        f"computed by {', '.join(proof['voters'])}\n"
        f"  entry    {proof['entry_hash']}\n  previous {proof['previous_chain']}\n  chain    {proof['chain']}"
    )
