"""The list of sources, and which one a record is of.

Detection asks each source in the order of this list, the most telling shape first, and takes the first that knows the
record. It reads shapes, not meaning: pinning a topic or file to a source is always the surer way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from finality.core.errors import UsageError
from finality.sources.base import Headers, Source, SourceSettings
from finality.sources.canonical import Canonical
from finality.sources.cdevents import CDEvents
from finality.sources.cloudevents import CloudEvents
from finality.sources.dbt import Dbt
from finality.sources.github import GitHub
from finality.sources.google_borg import GoogleBorg
from finality.sources.kubernetes import Kubernetes
from finality.sources.openlineage import OpenLineage
from finality.sources.slurm import Slurm
from finality.sources.temporal import Temporal

__all__ = ["SOURCES", "build", "detect", "source_by_name"]

# A new source is one line here. Order matters for `detect`.
SOURCES: tuple[type[Source], ...] = (
    CloudEvents,
    CDEvents,
    Canonical,
    GoogleBorg,
    Dbt,
    Temporal,
    OpenLineage,
    GitHub,
    Kubernetes,
    Slurm,
)


def build(settings: Mapping[str, SourceSettings] | None = None) -> dict[str, Source]:
    """All sources by name, each with its settings, or the defaults. Raises `UsageError` for a setting of no source."""
    chosen = dict(settings or {})
    made = {kind.name: kind(chosen.pop(kind.name, SourceSettings())) for kind in SOURCES}
    for name in chosen:
        raise UsageError(_no_source(name))
    return made


def source_by_name(name: str, settings: SourceSettings | None = None) -> Source:
    """One source. Raises `UsageError` for a name that does not exist, or a bad setting."""
    for kind in SOURCES:
        if kind.name == name:
            return kind(settings or SourceSettings())
    raise UsageError(_no_source(name))


def detect(value: bytes, headers: Headers, sources: Iterable[Source]) -> Source | None:
    """The first of `sources` (in the order of `build`) that knows the record's shape; None if none does."""
    for source in sources:
        if source.looks_like(value, headers):
            return source
    return None


def _no_source(name: str) -> str:
    names = [kind.name for kind in SOURCES]
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return f"source {name!r} does not exist; {hint}"
