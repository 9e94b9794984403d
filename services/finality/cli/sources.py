"""`finality sources`: what formats are understood, and what your own file says. No broker, no settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from finality.cli.output import note, plain, show_json, show_table
from finality.core.errors import Rejected, UsageError
from finality.core.event import ENDED, Event, encode_event
from finality.core.fold import Fold
from finality.core.genesis import Genesis, Parameters, Voters
from finality.core.job import NO_TIME, Job
from finality.core.jobkey import parse_job_key
from finality.core.records import EVENT
from finality.core.state import State
from finality.sources.base import Mapped, Reading, Source
from finality.sources.registry import SOURCES, build, detect, source_by_name

__all__ = ["app", "check_files"]

app = typer.Typer(no_args_is_help=True, help="Formats that are understood; what a file says.")
_PROBE = 200  # readings that detection looks at


@app.command("list")
def list_sources(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """What each source takes, how it orders, what identifies a job.

    Example: finality sources list
    """
    rows = [(kind.name, kind.takes, kind.order, kind.identity) for kind in SOURCES]
    if as_json:
        show_json({"sources": [dict(zip(("name", "takes", "order", "identity"), row, strict=True)) for row in rows]})
        return
    for name, takes, order, identity in rows:
        typer.echo(f"{name}\n  takes     {takes}\n  order     {order}\n  identity  {identity}")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Files of job events, plain or .gz.")],
    source: Annotated[str, typer.Option(help="Pin the source instead of detecting it.")] = "",
    limit: Annotated[int, typer.Option(help="Jobs shown, 0 = all.", min=0)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Map files without any broker: how every job in them ended, conflicts, unknown words.

    Example: finality sources check events.ndjson
    """
    found = check_files(files, source)
    if as_json:
        show_json(found)
        return
    jobs = found["jobs"]
    shown = jobs[:limit] if limit else jobs
    show_table(
        ("job", "attempt", "phase", "reason", "word"),
        [
            (
                job["key"],
                job["attempt"],
                job["phase"] + (" (conflict)" if job["conflict"] else ""),
                job["reason"],
                job["word"],
            )
            for job in shown
        ],
    )
    phases = ", ".join(f"{phase} {count}" for phase, count in found["by_phase"].items())
    note(f"{len(jobs)} jobs ({phases or 'none'}); {len(shown)} shown")
    records = found["records"]
    note(
        f"{records['total']} records: {records['rejected']} rejected, {records['unknown']} with unknown words, "
        f"{records['duplicates']} repeated"
    )
    for what, rows in (("rejected", found["rejections"]), ("unknown", found["unknown_words"])):
        for word, count in list(rows.items())[:5]:
            note(f"  {what}: {plain(word)} ({count})")


def check_files(files: list[Path], source: str = "") -> dict[str, Any]:
    """The document that `--json` prints. Raises `UsageError` when no source knows a file's shape."""
    state, counts = _rehearsal()
    rejections: Counter[str] = Counter()
    words: Counter[str] = Counter()
    seen: set[bytes] = set()
    fold, position = Fold(state[0], state[1]), 1
    for path in files:
        for reading, mapped in _mapped(path, source, rejections, counts):
            if reading.value in seen:
                counts["duplicates"] += 1
            seen.add(reading.value)
            words.update(mapped.unknown)
            counts["unknown"] += bool(mapped.unknown)
            for event in mapped.events:
                position += 1
                _fold(fold, position, event, rejections, counts)
    jobs = [_row(job) for _, job in sorted(_all_jobs(state[1]).items())]
    return {
        "jobs": jobs,
        "records": {name: counts[name] for name in ("total", "unknown", "rejected", "duplicates")},
        "by_phase": dict(sorted(Counter(job["phase"] for job in jobs).items())),
        "rejections": dict(rejections.most_common()),
        "unknown_words": dict(words.most_common()),
    }


def _rehearsal() -> tuple[tuple[Genesis, State], Counter[str]]:
    parameters = Parameters(log_time="events", memory=str(2**62), settle=str(2**62))
    genesis = Genesis(1, "0", "rehearsal", parameters, 1, "here", (Voters(1, "here", ("r1",)),))
    return (genesis, State(genesis)), Counter()


def _mapped(
    path: Path, pinned: str, rejections: Counter[str], counts: Counter[str]
) -> Iterator[tuple[Reading, Mapped]]:
    sources = build()
    reader = source_by_name(pinned) if pinned else _reader_of(path, sources)
    for reading in reader.read(path):
        counts["total"] += 1
        chosen = reader if pinned else detect(reading.value, reading.headers, sources.values()) or reader
        try:
            yield reading, chosen.map(reading.value, reading.headers)
        except Rejected as refusal:
            rejections[refusal.code] += 1
            counts["rejected"] += 1


def _reader_of(path: Path, sources: dict[str, Source]) -> Source:
    """The source that knows most of a file's first records when it reads the file itself."""
    best: tuple[int, Source] | None = None
    for candidate in sources.values():
        known = 0
        for number, reading in enumerate(candidate.read(path)):
            if number >= _PROBE:
                break
            found = detect(reading.value, reading.headers, sources.values())
            known += found is candidate
        if known and (best is None or known > best[0]):
            best = (known, candidate)
    if best is None:
        if not path.stat().st_size:
            raise UsageError(f"{path}: the file is empty; name one with job events")
        raise UsageError(f"{path}: no source knows these records; name one with --source (finality sources list)")
    return best[1]


def _fold(fold: Fold, position: int, event: Event, rejections: Counter[str], counts: Counter[str]) -> None:
    for made in fold.step(position, EVENT, None, encode_event(event), ()):
        if made.kind == "rejected":
            rejections[str(msgspec.json.decode(made.entry)["code"])] += 1
            counts["rejected"] += 1


def _all_jobs(state: State) -> dict[str, Job]:
    jobs = dict(state.jobs)
    for key in state.tombstones:
        job = state.revive(key)
        assert job is not None
        jobs[key] = job
    return jobs


def _row(job: Job) -> dict[str, Any]:
    parts = parse_job_key(job.key)
    ended = job.phase in ENDED
    return {
        "key": job.key,
        "kind": parts.kind,
        "id": parts.id,
        "attempt": job.attempts,
        "phase": "CONFLICT" if job.conflict else job.phase or "UNKNOWN",
        "reason": job.reason,
        "word": job.word,
        "started": "" if job.start == NO_TIME else str(job.start),
        "ended": "" if job.end == NO_TIME or not ended else str(job.end),
        "conflict": bool(job.rivals),
    }
