"""What a source is: one foreign format, and how its records become canonical events.

A source is a pure translator. It takes identity from the payload only (never from a Kafka key), states what the record
states and invents nothing: a missing time stays "", an unknown word stays in `word` under phase UNKNOWN. Order,
attempts, conflicts and finality are the fold's business, not a source's.

A record gives events, or nothing (it is sound and says nothing of a job), or `Rejected` (it becomes a dead letter with
its bytes). `unknown` names what the source met and could not interpret, for counting; it never holds a whole payload.

Left out: Kafka, files' discovery, settings files. `registry.py` lists the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from finality.core.errors import Rejected, UsageError
from finality.core.event import Event
from finality.core.jobkey import job_key

__all__ = ["NOTHING", "Headers", "Keys", "Mapped", "Reading", "Source", "SourceSettings"]

# Ids that percent-encoding leaves as they are, short enough to fit behind any beginning that `Keys` accepts.
_PLAIN = re.compile(r"[A-Za-z0-9._~:@!$'()*+,;=-]{1,256}", re.ASCII)
_LONGEST_BEGINNING = 256

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


class Keys:
    """The job keys of one source instance: equal to `job_key`, but quick for ids that need no encoding."""

    def __init__(self, settings: SourceSettings, source: str, kinds: tuple[str, ...]) -> None:
        """kinds: those that `of` will be asked for. Raises `UsageError` where no key could ever fit."""
        self._where = (settings.tenant, source, settings.instance)
        try:
            self._begin = {kind: job_key(*self._where, kind, "x")[:-1] for kind in kinds}
        except Rejected as error:
            raise UsageError(
                f"source {source}: tenant {settings.tenant[:40]!r} and instance {settings.instance[:40]!r} "
                f"make no job key ({error}); use short, non-empty names"
            ) from None
        self._quick = all(len(begin) <= _LONGEST_BEGINNING for begin in self._begin.values())

    def of(self, kind: str, ident: str) -> str:
        """The key of one job. Raises `Rejected` (KEY_EMPTY, KEY_TOO_LONG, KEY_NOT_TEXT)."""
        if self._quick and _PLAIN.fullmatch(ident):
            return self._begin[kind] + ident
        return job_key(*self._where, kind, ident)


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
