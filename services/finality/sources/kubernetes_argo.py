"""Argo Workflows: the workflow, and each of its nodes as a job of its own.

A Retry node is one job whose attempts are its children. The children are jobs of the kind `workflow-node-attempt`, so
that a contract on nodes does not take a failed first try for a failed node. Nodes carry no revision; they were written
with the workflow and take its `resourceVersion`.

A controller that runs again over an old pod writes a start later than the finish (recorded: `failed-retries-tjjsc`).
Then the start is left out and the pair is reported: no duration is negative.

Large workflows keep their nodes packed in `compressedNodes` (read here, within limits) or in a database of Argo's
(`offloadNodeStatusVersion`: not in the object, reported).

Source: Argo Workflows `pkg/apis/workflow/v1alpha1/workflow_types.go`.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator

from finality.core.errors import Rejected
from finality.sources.kubernetes_states import Box, State, phase_of
from finality.sources.payload import MAX_BYTES, clip, json_object, object_at, text_at

__all__ = ["Node", "nodes_of", "workflow"]

_WAITS = ("Suspend",)


class Node:
    """One node: id, name, the id of the Retry node it is an attempt of ("" = none), its state and its type."""

    __slots__ = ("attempt_of", "id", "name", "state", "type")

    def __init__(self, ident: str, name: str, attempt_of: str, state: State, kind: str) -> None:
        self.id = ident
        self.name = name
        self.attempt_of = attempt_of
        self.state = state
        self.type = clip(kind, 128)


def workflow(box: Box) -> State:
    """State of a whole workflow. The label `workflows.argoproj.io/phase` is a copy and may be ahead: it is not read."""
    status = object_at(box, "status")
    state = _state(status)
    if state.phase == "FAILED" and text_at(box, "spec", "shutdown"):
        return state._replace(phase="CANCELLED", reason="USER")
    if state.phase == "RUNNING" and text_at(box, "spec", "shutdown"):
        return state._replace(phase="CANCELLING")
    if state.phase == "RUNNING" and object_at(box, "spec").get("suspend") is True:
        return state._replace(phase="PAUSED")
    return state


def _state(box: Box) -> State:
    """State of a workflow's status or of a node."""
    word = text_at(box, "phase")
    start, end = text_at(box, "startedAt"), text_at(box, "finishedAt")
    if not word:
        return State("RUNNING" if start else "PENDING", start=start)
    phase, reason = phase_of(word) or ("UNKNOWN", "")
    if phase in ("PENDING", "RUNNING", "UNKNOWN"):
        end = ""
    return State(phase, clip(word, 128), reason, end, start, end)


def nodes_of(box: Box) -> tuple[list[Node], list[str]]:
    """The nodes, and what could not be read. Raises `Rejected` (BAD_NODES) for packed nodes that do not unpack."""
    status = object_at(box, "status")
    rows = object_at(status, "nodes")
    unknown: list[str] = []
    if not rows and text_at(status, "compressedNodes"):
        rows = _unpacked(text_at(status, "compressedNodes"))
    elif not rows and text_at(status, "offloadNodeStatusVersion"):
        unknown.append("nodes:offloaded")
    nodes = {ident: row for ident, row in rows.items() if type(row) is dict}
    if len(nodes) != len(rows):
        unknown.append("nodes:not an object")
    attempts = {ident: list(_attempts(row, nodes)) for ident, row in nodes.items() if text_at(row, "type") == "Retry"}
    owners = {child: ident for ident, children in attempts.items() for child in children}
    found = []
    for ident, row in nodes.items():
        state = _state(row)
        if state.phase == "RUNNING" and text_at(row, "type") in _WAITS:
            state = state._replace(phase="PAUSED")
        if ident in attempts:
            state = _retry(state, [nodes[child] for child in attempts[ident]])
        elif ident not in owners:
            state = state._replace(attempt=1)
        name = text_at(row, "displayName") or text_at(row, "name") or ident
        found.append(Node(ident, name, owners.get(ident, ""), state, text_at(row, "type")))
    return found, unknown


def _attempts(row: Box, nodes: dict[str, Box]) -> Iterator[str]:
    """Children of a Retry node that are its attempts, in order; a hook is none."""
    children = row.get("children")
    for child in children if type(children) is list else []:
        if type(child) is str and child in nodes and object_at(nodes[child], "nodeFlag").get("hooked") is not True:
            yield child


def _retry(state: State, children: list[Box]) -> State:
    """A Retry node runs while its last attempt failed: another one is owed."""
    last = _state(children[-1]) if children else None
    if state.phase == "RUNNING" and last is not None and last.phase == "FAILED":
        state = state._replace(phase="RETRYING")
    return state._replace(attempt=max(len(children), 1))


def _unpacked(text: str) -> Box:
    """The nodes in base64 of gzip. An unpacked size over the payload limit is refused before it is built."""
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(base64.b64decode(text, validate=True), MAX_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise Rejected("BAD_NODES", "status.compressedNodes does not unpack") from None
    return json_object(content)
