"""`finality verify`: refold the input with an independent implementation and compare with what was attested.

The refold shares no module with the fold that the services run. It proves, entry by entry, that the accepted log is
exactly what the input says, or names the first difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Annotated, Any

import typer

from finality.cli.output import note, show_json, show_table
from finality.cli.wiring import SiteHandle, context_of, open_site
from finality.core.errors import IntegrityFault, UsageError
from finality.core.records import Record
from finality.core.refold import Refold, check_partition
from finality.kafka.tail import read_to_end
from finality.settings import Context

__all__ = ["check_records", "verify", "verify_partition", "verify_site"]


def verify_partition(context: Context, site: str, partition: int) -> dict[str, Any]:
    """The verdict on one partition, as a document."""
    handle = open_site(context, site)
    names = handle.names
    log = read_to_end(handle.kafka, names.topic("log"), partition)
    inputs = read_to_end(handle.kafka, names.topic("input"), partition)
    return {"partition": partition, **check_records(handle, partition, log, inputs)}


def check_records(site: SiteHandle, partition: int, log: Iterable[Record], inputs: Iterable[Record]) -> dict[str, Any]:
    """The verdict on given records of one partition."""
    refold = Refold(site.genesis_value, partition, site.home.site, site.home.generation)
    return check_partition(
        refold,
        ((record.value, record.headers) for record in log),
        ((record.key, record.value, record.headers) for record in inputs),
    )


def verify_site(context: Context, site: str, partitions: list[int]) -> list[dict[str, Any]]:
    """Verdicts of several partitions, on as many processes as there are cores."""
    workers = min(len(partitions), os.cpu_count() or 1)
    if workers == 1:
        return [verify_partition(context, site, partition) for partition in partitions]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(verify_partition, [context] * len(partitions), [site] * len(partitions), partitions))


def verify(
    ctx: typer.Context,
    site: Annotated[str, typer.Option(help="Site of the context.")] = "primary",
    partition: Annotated[int, typer.Option(help="Only this partition; default all.")] = -1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Prove that the attested log is what the input says, or name the first difference (exit 4).

    Example: finality verify --site primary
    """
    context = context_of(ctx)
    handle = open_site(context, site)
    total = handle.genesis.partitions
    if partition >= total:
        raise UsageError(f"there is no partition {partition}: {site} has 0 to {total - 1}")
    chosen = [partition] if partition >= 0 else list(range(total))
    verdicts = verify_site(context, site, chosen)
    bad = [row for row in verdicts if not row["ok"]]
    if json:
        show_json({"ok": not bad, "site": site, "partitions": verdicts})
    else:
        rows = [
            (
                row["partition"],
                row["entries"],
                row["blocks"],
                sum(row["ignored"].values()),
                row["behind"],
                "equal" if row["ok"] else "DIFFERS",
            )
            for row in verdicts
        ]
        show_table(("partition", "entries", "blocks", "ignored", "not yet published", "verdict"), rows)
        if not bad:
            note(f"every certified entry of {site} is what its input says")
    if bad:
        first = bad[0]["difference"]
        raise IntegrityFault(
            "CHAIN_DIFFERS",
            f"{site} partition {bad[0]['partition']} index {first['index']} (input position {first['position']}): "
            f"the log says otherwise than its input; class {first['class']}",
        )
