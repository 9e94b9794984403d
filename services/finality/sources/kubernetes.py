"""Kubernetes objects that run to an end: watch frames, single objects, lists of them.

The identity is the object's uid, for names are used again. An object without a uid (a manifest, an archive that left it
out) is known by namespace and name; one without both is refused. The kind belongs to the identity.

`metadata.resourceVersion` orders the states of one object (numbers, compared as such since Kubernetes 1.35 by contract
and before by practice). Where it is missing, times decide. Two contents at one version are reported by the fold.

A watch frame DELETED before an end means that the object was cancelled; after an end it changes nothing. BOOKMARK and
ERROR frames say nothing of a job. A missing status is a job that no controller has looked at: PENDING.

An ending without a time keeps none: the start is no end, and a run time of zero would be a lie.
`deletionTimestamp` is kept as the condition `deleting`: the object says how it stands until it is gone.
What each kind says is in `kubernetes_states.py`; workflows and their nodes in `kubernetes_argo.py`.
Left out: YAML; Deployments and all other things that do not end.

Codes: those of `payload` and of job keys; NO_KIND (neither kind nor a shape that tells it); NO_ID; NOT_AN_OBJECT;
BAD_NODES.

Source: Kubernetes API conventions ("Resource Versions", "Efficient detection of changes"), KEP-5504.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from finality.core.errors import Rejected
from finality.core.event import ENDED, MAX_TIME, Event
from finality.core.jobkey import job_key
from finality.sources.base import NOTHING, Headers, Mapped, Reading, SourceSettings
from finality.sources.kubernetes_argo import Node, nodes_of, workflow
from finality.sources.kubernetes_states import KINDS, MOST_ATTEMPTS, Box, State, foreign
from finality.sources.payload import clip, json_object, number_text, object_at, read_json, text_at
from finality.sources.times import iso

__all__ = ["Kubernetes"]

_FRAMES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"))
_SHAPES = (  # fields of spec or status that only one kind has, for objects that were stored without their kind
    ("Workflow", (("spec", "entrypoint"), ("status", "nodes"))),
    ("PipelineRun", (("spec", "pipelineRef"), ("spec", "pipelineSpec"), ("status", "pipelineSpec"))),
    ("TaskRun", (("spec", "taskRef"), ("spec", "taskSpec"), ("status", "taskSpec"))),
    ("Pod", (("spec", "containers"), ("status", "containerStatuses"))),
)
_NOT_CUSTOM = re.compile(r"(?:(?:.*\.)?k8s\.io|[a-z]*)", re.ASCII)  # core, apps, *.k8s.io: kinds that we know
_X_K8S = ".x-k8s.io"  # job kinds of Kubernetes subprojects
_LIKES = re.compile(
    rb'"resourceVersion"\s*:\s*"|"apiVersion"\s*:\s*"[a-z0-9./-]+"|"(?:containerStatuses|pipelineRef|taskRef)"\s*:',
    re.ASCII,
)
_NAMES = re.compile(rb'"(?:metadata|status|items)"\s*:\s*[\[{]', re.ASCII)
_MOST_LABELS = 64


class Kubernetes:
    """Jobs, Pods, Argo Workflows and nodes, Tekton runs, and custom resources that run to an end."""

    name = "kubernetes"
    takes = "Kubernetes objects as JSON: watch frames {type, object}, single objects, lists (`kubectl get -o json`)"
    order = "metadata.resourceVersion, as the revision; without it the times in status"
    identity = "kind in lower case, workflow-node, workflow-node-attempt: metadata.uid, else namespace/name"

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """An object with an apiVersion or resourceVersion, and metadata, status or items."""
        if value.lstrip()[:1] != b"{":
            return False
        return _LIKES.search(value) is not None and _NAMES.search(value) is not None

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The states in one frame, object or list. Raises `Rejected`."""
        record = json_object(value)
        frame = text_at(record, "type")
        inner = record.get("object")
        if type(inner) is dict and "metadata" not in record and "kind" not in record:
            if frame in ("BOOKMARK", "ERROR"):
                return NOTHING
            if frame and frame not in _FRAMES:
                return Mapped((), (f"frame:{clip(frame, 64)}",))
            return self._object(inner, frame)
        kind, items = text_at(record, "kind"), record.get("items")
        if kind.endswith("List") and type(items) is list:
            return self._list(record, kind[: -len("List")], items)
        return self._object(record, "")

    def read(self, path: Path) -> Iterator[Reading]:
        """JSON lines (a watch), an array, or one document such as a list."""
        return read_json(path)

    def _list(self, record: Box, kind: str, items: list[Any]) -> Mapped:
        """One bad object of a list is counted and loses no other; a list of nothing but bad ones is rejected.

        The API leaves kind and apiVersion out of the items of a typed list: they are those of the list.
        """
        events: list[Event] = []
        unknown: list[str] = []
        refused: Rejected | None = None
        for item in items:
            try:
                if type(item) is not dict:
                    raise Rejected("NOT_AN_OBJECT", "an item of the list is no object")
                named = (
                    {"kind": kind, "apiVersion": text_at(record, "apiVersion")} if kind and "kind" not in item else {}
                )
                mapped = self._object(named | item, "")
            except Rejected as error:
                refused = error
                unknown.append(f"item:{error.code}")
            else:
                events.extend(mapped.events)
                unknown.extend(mapped.unknown)
        if refused is not None and not events:
            raise refused
        return Mapped(tuple(events), tuple(unknown))

    def _object(self, box: Box, frame: str) -> Mapped:
        kind = text_at(box, "kind") or _kind_by_shape(box)
        group = text_at(box, "apiVersion").rpartition("/")[0]
        if not kind:
            raise Rejected("NO_KIND", "the object has no kind, and its shape does not tell it")
        if kind == "Workflow" and (not group or group == "argoproj.io"):
            return self._workflow(box, frame)
        ending, reader = KINDS.get(kind, ("", None))
        if reader is not None and (not text_at(box, "apiVersion") or _in_group(group, ending)):
            state: State | None = reader(box)
            kind_word = kind.lower()
        elif _NOT_CUSTOM.fullmatch(group) and not group.endswith(_X_K8S):
            return NOTHING
        else:
            state = foreign(box)
            kind_word = kind.lower() if reader is None and kind != "Workflow" else f"{kind.lower()}.{group}"
        if state is None:
            return Mapped((), (f"kind:{clip(kind, 64)}",))
        key = self._key(kind_word, _ident(box, kind))
        event, unknown = self._event(box, key, state, frame)
        return Mapped((event,), unknown)

    def _workflow(self, box: Box, frame: str) -> Mapped:
        ident = _ident(box, "Workflow")
        root = self._key("workflow", ident)
        event, unknown = self._event(box, root, workflow(box), frame)
        nodes, missed = nodes_of(box)
        events = [event]
        notes = [*unknown, *missed]
        for node in nodes:
            node_event, words = self._node(box, ident, root, node, frame)
            events.append(node_event)
            notes.extend(words)
        return Mapped(tuple(events), tuple(notes))

    def _node(self, box: Box, ident: str, root: str, node: Node, frame: str) -> tuple[Event, tuple[str, ...]]:
        kind = "workflow-node-attempt" if node.attempt_of else "workflow-node"
        parent = self._key("workflow-node", f"{ident}/{node.attempt_of}") if node.attempt_of else root
        extra = {"parent": parent, "root": root, "name": clip(node.name), "type": node.type}
        return self._event(box, self._key(kind, f"{ident}/{node.id}"), node.state, frame, extra)

    def _event(
        self, box: Box, key: str, state: State, frame: str, node: dict[str, str] | None = None
    ) -> tuple[Event, tuple[str, ...]]:
        """The event of a state. node: fields of a workflow node, whose workflow `box` is."""
        metadata = object_at(box, "metadata")
        unknown: list[str] = []
        if state.phase == "UNKNOWN":
            unknown.append(f"word:{clip(state.word, 64)}")
        created = iso(text_at(metadata, "creationTimestamp"))[0] if node is None else ""
        start = iso(state.start)[0]
        end = iso(state.end)[0]
        if start and end and int(start) > int(end):
            start = ""
            unknown.append("times:end before start")
        phase, reason, occurred = state.phase, state.reason, state.at
        if phase not in ENDED:
            occurred = occurred or state.start or (text_at(metadata, "creationTimestamp") if node is None else "")
            if frame == "DELETED":
                phase, reason, occurred = "CANCELLED", "DELETED", text_at(metadata, "deletionTimestamp")
        at, precision = iso(occurred)
        revision = number_text(metadata.get("resourceVersion"))
        ordered = revision != "" and int(revision) <= MAX_TIME
        labels = _labels(metadata)
        event = Event(
            job=key,
            at=at,
            precision=precision,
            attempt=state.attempt if state.attempt <= MOST_ATTEMPTS else 0,
            max_attempts=state.limit,
            conditions={"deleting": True} if node is None and text_at(metadata, "deletionTimestamp") else {},
            created=created,
            deleted=frame == "DELETED",
            start=start if phase != "PENDING" else "",
            end=end,
            phase=phase,
            reason=reason,
            word=state.word,
            revision=str(int(revision)) if ordered else "",
            metrics=state.metrics,
            name=node["name"] if node else clip(text_at(metadata, "name")),
            labels=labels | {"node_type": node["type"]} if node else labels,
            parent=node["parent"] if node else self._owner(metadata),
            root=node["root"] if node else "",
            snapshot=not frame,
        )
        return event, tuple(unknown)

    def _owner(self, metadata: Box) -> str:
        """The job that controls this object, where it is a job."""
        owners = metadata.get("ownerReferences")
        for owner in owners if type(owners) is list else []:
            if type(owner) is dict and owner.get("controller") is True:
                kind, uid = text_at(owner, "kind"), text_at(owner, "uid")
                if uid and (kind == "Workflow" or kind in KINDS):
                    return self._key(kind.lower(), uid)
        return ""

    def _key(self, kind: str, ident: str) -> str:
        return job_key(self._settings.tenant, "kubernetes", self._settings.instance, kind, ident)


def _kind_by_shape(box: Box) -> str:
    for kind, places in _SHAPES:
        if any(name in object_at(box, part) for part, name in places):
            return kind
    return ""


def _in_group(group: str, ending: str) -> bool:
    return group == ending or (bool(ending) and group.endswith("." + ending))


def _ident(box: Box, kind: str) -> str:
    """The uid, else namespace/name. A uid holds no slash, so the two cannot be mixed up."""
    metadata = object_at(box, "metadata")
    uid = text_at(metadata, "uid")
    if uid:
        return uid
    name = text_at(metadata, "name")
    if not name:
        raise Rejected("NO_ID", f"the {clip(kind, 64)} has neither uid nor name")
    return f"{text_at(metadata, 'namespace')}/{name}"


def _labels(metadata: Box) -> dict[str, str]:
    """The object's labels and its namespace; at most 64, by name."""
    own = object_at(metadata, "labels")
    texts = sorted(
        (name, text) for name, text in own.items() if type(text) is str and name.isascii() and len(name) <= 320
    )
    labels = {name: clip(text, 128) for name, text in texts[:_MOST_LABELS]}
    if text_at(metadata, "namespace"):
        labels["namespace"] = clip(text_at(metadata, "namespace"), 256)
    return labels
