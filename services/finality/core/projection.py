"""How an attested entry looks in a plain topic: CloudEvents in binary mode, with its place in headers. Pure.

| header | content |
| --- | --- |
| `ce_specversion`, `ce_id`, `ce_source`, `ce_type`, `ce_subject` | CloudEvents 1.0; id: stream, partition, index |
| `content-type` | of the value |
| `fn-partition`, `fn-index`, `fn-epoch` | place in the attested log; the same at every site |
| `fn-entry` | dead letters only: the entry, the value being the raw bytes that were rejected |

Source: CloudEvents 1.0, Kafka protocol binding 1.0.2, binary content mode.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from finality.core.logview import Attested
from finality.core.names import PLAIN_TOPICS
from finality.core.ports import Out
from finality.core.records import Headers, Record

__all__ = ["INDEX", "MARK_TYPE", "Projected", "index_of", "project"]

INDEX = "fn-index"
MARK_TYPE = b"dev.finality.mark.v1"
_TOPICS = {
    "delta": "deltas",
    "command": "commands",
    "outcome": "outcomes",
    "amendment": "outcomes",
    "rejected": "dead-letters",
    "beyond-memory": "dead-letters",
}
_JSON = b"application/json"
_BYTES = b"application/octet-stream"


class _Head(msgspec.Struct):
    kind: str
    job: str = ""
    position: int = 0
    sha256: str = ""


_head_decoder = msgspec.json.Decoder(_Head)


class Projected(NamedTuple):
    """One record to come. sha256 not empty: its value is the raw input record at `position` with that hash."""

    attested: Attested
    kind: str
    job: str
    position: int
    sha256: str
    mark: bool

    def out(self, partition: int, stream: bytes, raw: Record | None) -> Out:
        """The record. raw: the input record of a dead letter."""
        attested = self.attested
        number = str(attested.number).encode()
        kind = MARK_TYPE if self.mark else f"dev.finality.{self.kind}.v1".encode()
        headers: list[tuple[str, bytes | None]] = [
            ("ce_specversion", b"1.0"),
            ("ce_id", f"{stream.hex()[:16]}-{partition}-{attested.number}".encode()),
            ("ce_source", f"/finality/{stream.hex()[:16]}/{partition}".encode()),
            ("ce_type", kind),
            ("content-type", _BYTES if raw is not None else _JSON),
            ("fn-partition", str(partition).encode()),
            (INDEX, number),
            ("fn-epoch", str(attested.epoch).encode()),
        ]
        if self.job:
            headers.append(("ce_subject", self.job.encode()))
        key = self.job.encode() if self.job else None
        if raw is None:
            return Out(attested.number, key, attested.entry, headers)
        headers.append(("fn-entry", attested.entry))
        headers += [pair for pair in raw.headers if pair[0] in ("fn-src", "traceparent")]
        return Out(attested.number, key or raw.key, raw.value, headers)


def project(attested: Attested) -> list[tuple[str, Projected]]:
    """(plain topic, record to come) for each topic that an entry goes to."""
    head = _head_decoder.decode(attested.entry)
    if head.kind == "digest":
        return [(topic, Projected(attested, "mark", "", 0, "", True)) for topic in PLAIN_TOPICS]
    topic = _TOPICS.get(head.kind)
    if topic is None:
        return []
    return [(topic, Projected(attested, head.kind, head.job, head.position, head.sha256, False))]


def index_of(headers: Headers) -> int | None:
    """The index in a plain record's headers, None for a record that is none of ours."""
    for name, content in headers:
        if name == INDEX and content is not None and content.isdigit():
            return int(content)
    return None
