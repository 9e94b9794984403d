"""What a source is: one foreign format, and how its records become canonical events.

A source is a pure translator. It takes identity from the payload only (never from a Kafka key), states what the record
states and invents nothing: a missing time stays "", an unknown word stays in `word` under phase UNKNOWN. Order,
attempts, conflicts and finality are the fold's business, not a source's.

A record gives events, or nothing (it is sound and says nothing of a job), or `Rejected` (it becomes a dead letter with
its bytes). `unknown` names what the source met and could not interpret, for counting; it never holds a whole payload.

Left out: Kafka, files' discovery, settings files. `registry.py` lists the sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from finality.core.event import Event

__all__ = ["NOTHING", "Headers", "Mapped", "Reading", "Source", "SourceSettings"]

Headers = Sequence[tuple[str, bytes | None]]


class SourceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one source instance.

    tenant, instance: parts of every job key the source makes (an instance is one cluster, one server, one account).
    zone: IANA name of the zone for times that carry none; "" = such times are unknown.
    """

    tenant: str = "default"
    instance: str = "default"
    zone: str = ""


class Reading(NamedTuple):
    """One record of a file, as a topic would carry it. where: `file:line` (or `file#place` inside an array)."""

    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()
    where: str = ""


class Mapped(NamedTuple):
    """What one record says. unknown: short texts naming words, types or times that nobody knows, for counting."""

    events: tuple[Event, ...]
    unknown: tuple[str, ...] = ()


NOTHING = Mapped(())


class Source(Protocol):
    """One foreign format. The four texts are shown by `sources list`."""

    name: str  # stable; second part of the job keys it makes
    takes: str  # one line: which records
    order: str  # one line: what puts two records of one job in order
    identity: str  # one line: kinds, and which fields make the id

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` for a zone that does not exist."""

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """True when a record is probably of this source: cheap, from headers or shape; never raises."""

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The events of one record. Raises `Rejected` with a stable code, and nothing else, whatever the bytes."""

    def read(self, path: Path) -> Iterator[Reading]:
        """The records of a file (plain or .gz). A bad record is yielded, not raised.

        Raises `DependencyError` when the file cannot be opened, `UsageError` when its compression is damaged.
        """
