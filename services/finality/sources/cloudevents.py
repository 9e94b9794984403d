"""CloudEvents 1.0 on Kafka, both modes, around events that another source here understands.

The mode is decided by the `content-type` header alone: a value that begins with `application/cloudevents` is structured
(the value is the envelope), anything else is binary (attributes are `ce_` headers, the value is the data). A structured
message may mirror its attributes in `ce_` headers; they are ignored. A record of a file has no headers at all and is
read as structured.

Strict, because a lenient reader loses events: an id is never invented, attribute names are lower-case letters and
digits, no header or member comes twice. The envelope gives no identity and no order (`time` is not one): both come from
the data. Data is understood by `type`: `dev.finality.event.v1` our own event, `dev.cdevents.…` a CDEvent.

Codes: those of `payload`, MISSING_ATTRIBUTE (id, source, specversion or type), BAD_ATTRIBUTE (name, type, or an empty
value), DUPLICATE_ATTRIBUTE, BAD_VERSION, UNSUPPORTED_FORMAT (Avro, protobuf, batches), NO_DATA, NOT_JSON (data of
another content type), UNKNOWN_TYPE (no source for it), and those of the source that reads the data.

Source: cloudevents/spec 1.0.2: spec.md, json-format.md, kafka-protocol-binding.md section 3.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from finality.core.errors import Rejected
from finality.sources.base import Headers, Mapped, Reading, SourceSettings
from finality.sources.canonical import Canonical
from finality.sources.cdevents import PREFIX, CDEvents
from finality.sources.payload import json_object, read_json

__all__ = ["EVENT_TYPE", "CloudEvents", "Envelope", "open_envelope"]

EVENT_TYPE = "dev.finality.event.v1"
_STRUCTURED = "application/cloudevents"
_REQUIRED = ("id", "source", "specversion", "type")
_NAME = re.compile(r"[a-z0-9]{1,40}", re.ASCII)
_JSON = re.compile(r"(?:application|text)/(?:[^;\s]+\+)?json\s*(?:;.*)?", re.ASCII | re.IGNORECASE)


class Envelope(NamedTuple):
    """attributes: name to text, bool or integer. data: parsed JSON object."""

    attributes: dict[str, Any]
    data: dict[str, Any]


class CloudEvents:
    """CloudEvents in structured and binary mode."""

    name = "cloudevents"
    takes = "CloudEvents 1.0, both Kafka modes, with our own event or a CDEvent as data"
    order = "as the data's own source"
    identity = "as the data's own source; never the envelope"

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` for an unknown zone."""
        self._canonical = Canonical(settings)
        self._cdevents = CDEvents(settings)

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """By headers where there are any, else an object with the members that every CloudEvent has."""
        for name, content in headers:
            if name == "ce_specversion":
                return True
            if name.lower() == "content-type" and (content or b"").lower().startswith(_STRUCTURED.encode()):
                return True
        return not headers and b'"specversion"' in value and b'"context"' not in value

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The events of the data. Raises `Rejected`."""
        envelope = open_envelope(value, headers)
        kind = envelope.attributes["type"]
        if kind == EVENT_TYPE:
            return self._canonical.of(envelope.data)
        if kind.startswith(PREFIX):
            return self._cdevents.of(envelope.data)
        raise Rejected("UNKNOWN_TYPE", kind[:120])

    def read(self, path: Path) -> Iterator[Reading]:
        """Structured events, as JSON lines or an array."""
        return read_json(path)


def open_envelope(value: bytes, headers: Headers) -> Envelope:
    """Attributes and data of one message. Raises `Rejected`."""
    kind = _texts([pair for pair in headers if pair[0].lower() == "content-type"])
    content_type = next(iter(kind.values()), "").strip()
    if not headers or content_type.lower().startswith(_STRUCTURED):
        return _structured(value, content_type)
    named = [(name.removeprefix("ce_"), content) for name, content in headers if name.startswith("ce_")]
    attributes = _texts(named)
    _check(attributes)
    if not value:
        raise Rejected("NO_DATA", "the message has no value")
    if content_type and not _JSON.fullmatch(content_type):
        raise Rejected("NOT_JSON", content_type[:80])
    return Envelope(attributes, json_object(value))


def _structured(value: bytes, content_type: str) -> Envelope:
    form = content_type.lower().removeprefix(_STRUCTURED).partition(";")[0].strip()
    if form not in ("", "+json"):
        raise Rejected("UNSUPPORTED_FORMAT", content_type[:80])
    members = json_object(value)
    data, packed = members.pop("data", None), members.pop("data_base64", None)
    attributes = {name: item for name, item in members.items() if item is not None}
    _check(attributes)
    if packed is not None:
        if data is not None or type(packed) is not str:
            raise Rejected("BAD_ATTRIBUTE", "data_base64 must be text, and excludes data")
        try:
            data = json_object(base64.b64decode(packed, validate=True))
        except (binascii.Error, ValueError):
            raise Rejected("BAD_ATTRIBUTE", "data_base64 is not base64") from None
    if data is None:
        raise Rejected("NO_DATA", "the envelope has no data")
    if not _JSON.fullmatch(attributes.get("datacontenttype", "application/json")):
        raise Rejected("NOT_JSON", attributes["datacontenttype"][:80])
    if type(data) is not dict:
        raise Rejected("NOT_AN_OBJECT", "data must be a JSON object")
    return Envelope(attributes, data)


def _texts(pairs: list[tuple[str, bytes | None]]) -> dict[str, Any]:
    """Headers as texts. Raises `Rejected` for a repeated name or one that is not UTF-8."""
    texts: dict[str, Any] = {}
    for name, content in pairs:
        if name in texts:
            raise Rejected("DUPLICATE_ATTRIBUTE", name[:60])
        try:
            texts[name] = (content or b"").decode()
        except UnicodeDecodeError:
            raise Rejected("NOT_UTF8", f"header {name[:60]}") from None
    return texts


def _check(attributes: dict[str, Any]) -> None:
    """Raise `Rejected` where a set of attributes breaks the specification."""
    for name in _REQUIRED:
        if name not in attributes:
            raise Rejected("MISSING_ATTRIBUTE", name)
    for name, item in attributes.items():
        if not _NAME.fullmatch(name):
            raise Rejected("BAD_ATTRIBUTE", f"name {name[:60]!r}")
        context = name in _REQUIRED or name in ("subject", "time", "dataschema", "datacontenttype")
        if type(item) is not str and (context or type(item) not in (bool, int)):
            raise Rejected("BAD_ATTRIBUTE", f"{name} is of a wrong type")
        if context and not item:
            raise Rejected("BAD_ATTRIBUTE", f"{name} is empty")
    if attributes["specversion"] != "1.0":
        raise Rejected("BAD_VERSION", str(attributes["specversion"])[:40])
