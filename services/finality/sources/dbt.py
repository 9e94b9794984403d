"""dbt's structured logs (`--log-format json`): invocations and the nodes that each of them runs.

Most lines say nothing of a state and give no event. A node is the same in every invocation, so a run of it is
(invocation id, unique id). Only `NodeFinished` ends a node: after it come lines about the same node with `node_status`
"None" and empty times, and the last status seen is not the state. Only `CommandCompleted` ends an invocation, and lines
follow it.

`node_started_at` and `node_finished_at` carry no zone; dbt writes them in UTC, as the `ts` of the same line shows.

| line | becomes |
| --- | --- |
| MainReportVersion | invocation RUNNING, start |
| CommandCompleted | invocation SUCCEEDED or FAILED by `success` |
| NodeStart, NodeCompiling, NodeExecuting | node RUNNING |
| NodeFinished: success, pass, warn (reason WARNING) | node SUCCEEDED |
| NodeFinished: error, runtime error (ERROR), fail (TEST_FAILED), partial success (PARTIAL_SUCCESS) | node FAILED |
| NodeFinished: skipped, no-op (NO_OP) | node SKIPPED |
| NodeFinished: any other word | node UNKNOWN |

Codes: those of `payload`, NOT_DBT (no `info` with a name), NO_ID (a line about a node or command without its ids),
KEY_TOO_LONG, KEY_NOT_TEXT.

Source: dbt-core core_types.proto (EventInfo, NodeInfo, RunResultMsg) and dbt/artifacts/schemas/results.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

from finality.core.errors import Rejected
from finality.core.event import Event
from finality.sources.base import NOTHING, Headers, Keys, Mapped, Reading, SourceSettings
from finality.sources.payload import clip, decimal_text, json_object, object_at, read_json, text_at
from finality.sources.times import iso, zone_of

__all__ = ["Dbt"]

_OPEN_LINES = frozenset(("NodeStart", "NodeCompiling", "NodeExecuting"))
# By result status: phase, reason.
_STATUSES = {
    "success": ("SUCCEEDED", ""),
    "pass": ("SUCCEEDED", ""),
    "warn": ("SUCCEEDED", "WARNING"),
    "error": ("FAILED", "ERROR"),
    "runtime error": ("FAILED", "ERROR"),
    "fail": ("FAILED", "TEST_FAILED"),
    "partial success": ("FAILED", "PARTIAL_SUCCESS"),
    "skipped": ("SKIPPED", ""),
    "no-op": ("SKIPPED", "NO_OP"),
}


class Dbt:
    """JSON log lines of dbt."""

    name = "dbt"
    takes = "dbt structured log lines (dbt --log-format json)"
    order = "info.ts, then the step of life"
    identity = "invocation: invocation_id; node: invocation_id/unique_id"

    def __init__(self, settings: SourceSettings) -> None:
        """Raises `UsageError` for an unknown zone."""
        self._keys = Keys(settings, self.name, ("invocation", "node"))
        self._zone = zone_of(settings.zone) or UTC

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """An object with info, an invocation id and a ts."""
        return b'"invocation_id"' in value and b'"info"' in value and b'"ts"' in value

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The event of a line that tells of a state; nothing for the others. Raises `Rejected`."""
        line = json_object(value)
        info, data = object_at(line, "info"), object_at(line, "data")
        name = text_at(info, "name")
        if not name:
            raise Rejected("NOT_DBT", "info.name is missing")
        if name == "NodeFinished" or name in _OPEN_LINES:
            return self._node(name, info, data)
        if name in ("MainReportVersion", "CommandCompleted"):
            return self._invocation(name, info, data)
        return NOTHING

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines."""
        return read_json(path)

    def _invocation(self, name: str, info: dict[str, Any], data: dict[str, Any]) -> Mapped:
        invocation = text_at(info, "invocation_id")
        if not invocation:
            raise Rejected("NO_ID", f"{name} without invocation_id")
        at, precision = iso(text_at(info, "ts"))
        job = self._keys.of("invocation", invocation)
        if name == "MainReportVersion":
            return Mapped(
                (
                    Event(
                        at=at,
                        attempt=1,
                        created=at,
                        job=job,
                        phase="RUNNING",
                        precision=precision,
                        start=at,
                        word=name,
                    ),
                )
            )
        success = data.get("success")
        phase, word = "UNKNOWN", "success missing"
        if type(success) is bool:
            phase = "SUCCEEDED" if success else "FAILED"
            word = f"success {str(success).lower()}"
        event = Event(
            at=at,
            attempt=1,
            end=iso(text_at(data, "completed_at"), self._zone)[0],
            job=job,
            metrics=_metrics((("elapsed_s", data.get("elapsed")),)),
            phase=phase,
            precision=precision,
            reason="ERROR" if phase == "FAILED" else "",
            word=word,
        )
        return Mapped((event,), (word,) if phase == "UNKNOWN" else ())

    def _node(self, name: str, info: dict[str, Any], data: dict[str, Any]) -> Mapped:
        node = object_at(data, "node_info")
        invocation, unique_id = text_at(info, "invocation_id"), text_at(node, "unique_id")
        if not invocation or not unique_id:
            raise Rejected("NO_ID", f"{name} without invocation_id or unique_id")
        at, precision = iso(text_at(info, "ts"))
        parent = self._keys.of("invocation", invocation)
        result = object_at(data, "run_result")
        phase, reason, end = "RUNNING", "", ""
        word = text_at(node, "node_status")
        unknown: tuple[str, ...] = ()
        if name == "NodeFinished":
            word = clip(text_at(result, "status"), 64)
            phase, reason = _STATUSES.get(word, ("UNKNOWN", ""))
            end = iso(text_at(node, "node_finished_at"), self._zone)[0]
            if phase == "UNKNOWN":
                unknown = (f"status {word}",)
        labels = {"resource": clip(text_at(node, "resource_type"), 128)}
        event = Event(
            at=at,
            attempt=1,
            end=end if phase != "UNKNOWN" else "",
            job=self._keys.of("node", f"{invocation}/{unique_id}"),
            labels={key: text for key, text in labels.items() if text},
            metrics=_metrics(
                (
                    ("execution_time_s", result.get("execution_time")),
                    ("failures", result.get("num_failures")),
                    ("rows_affected", object_at(result, "adapter_response").get("rows_affected")),
                )
            ),
            name=clip(unique_id),
            parent=parent,
            phase=phase,
            precision=precision,
            reason=reason,
            root=parent,
            start=iso(text_at(node, "node_started_at"), self._zone)[0],
            word=clip(word, 64),
        )
        return Mapped((event,), unknown)


def _metrics(numbers: tuple[tuple[str, Any], ...]) -> dict[str, str]:
    """Those numbers that are there; dbt writes -1 where it does not know."""
    texts = ((name, decimal_text(number)) for name, number in numbers)
    return {name: text for name, text in texts if text and text[0] != "-"}
