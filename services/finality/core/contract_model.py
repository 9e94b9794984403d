"""The contract document: one msgspec struct per level, the only description of its shape.

The YAML loader, the check of a command's bytes, the JSON Schema and the CRD are all made from these structs. Unknown
keys are refused everywhere. `extra={"is": …}` names the small language of a text (duration, bound, …); `contract_check`
reads it and replaces the text by its canonical form, so that two ways of writing one contract have one version.

Numbers here are limits against absurd documents, not tuning: each is far above what a person writes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "API_VERSION",
    "BUILT_IN",
    "KIND",
    "CompensationRule",
    "Document",
    "HttpGet",
    "JobLeaseTimes",
    "Metadata",
    "Selector",
    "Spec",
]

API_VERSION: Literal["finality.dev/v1alpha1"] = "finality.dev/v1alpha1"
KIND: Literal["StatefulJob"] = "StatefulJob"
BUILT_IN = "default"  # the contract of jobs that no other selects; nobody else's may be called so

DURATION = r"^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?([0-9]+ns)?$"

Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        description="Lower-case letters, digits and hyphens.",
        extra={"hint": "lower-case letters, digits and hyphens"},
    ),
]
Tenant = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]*$",
        max_length=63,
        description="Tenant whose jobs may be selected.",
        extra={"hint": "letters, digits and -_."},
    ),
]
Word = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.:/]*$",
        max_length=128,
        extra={"hint": "letters, digits and -_.:/"},
    ),
]
Identifier = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        max_length=63,
        extra={"hint": "letters, digits and underscores, no digit first"},
    ),
]
Glob = Annotated[
    str, Meta(min_length=1, max_length=256, description="Pattern over the job's name: * any text, ? one, [a-z] a set.")
]
LabelName = Annotated[str, Meta(pattern=r"^[!-~]+$", max_length=128, extra={"hint": "printable ASCII without spaces"})]
Duration = Annotated[
    str,
    Meta(
        pattern=DURATION,
        min_length=2,
        max_length=64,
        description="Whole numbers with d, h, m, s, ms (us, ns), the largest first: 1h30m, 800ms.",
        extra={"is": "duration"},
    ),
]
Pause = Annotated[
    str,
    Meta(pattern=DURATION, min_length=2, max_length=64, description="A duration, or 0s.", extra={"is": "pause"}),
]
Settle = Annotated[
    str,
    Meta(
        pattern=f"^none$|{DURATION}",
        max_length=64,
        description="How long an ending must stand before it is final; none only for sources that never reopen a job.",
        extra={"is": "settle"},
    ),
]
BoundText = Annotated[
    str,
    Meta(
        pattern=r"^ *(<|<=|>|>=|==|!=|≤|≥|≠) *-?[0-9]+(\.[0-9]+)? *(%|req/s|B|KiB|MiB|GiB|ms|s|m|h|d)? *$",
        max_length=80,
        description="Comparator, number, unit: '>= 1200 req/s'. A metric is taken in the unit's base (s, B, req/s, %).",
        extra={"is": "bound"},
    ),
]
Expression = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1024,
        description="CEL expression of type bool, without comprehensions and maps. Every number is a double.",
        extra={"is": "cel"},
    ),
]
Url = Annotated[
    str, Meta(pattern=r"^https?://[^\s/]+[^\s]*$", max_length=2048, extra={"hint": "http://… or https://…"})
]

Ended = Literal["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "INCONCLUSIVE", "CONTINUED"]


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A level of the document: camel-case keys, no others."""


class Selector(Level, frozen=True):
    """Which jobs. What is left out selects all; of several contracts the most specific one is taken."""

    source: Word | None = None
    kind: Word | None = None
    job: Glob | None = None
    labels: Annotated[dict[LabelName, Annotated[str, Meta(max_length=256)]], Meta(max_length=16)] = {}


class TargetState(Level, frozen=True):
    """The terminal state that is owed."""

    phase: Ended = "SUCCEEDED"
    metrics: Annotated[dict[Word, BoundText], Meta(max_length=32)] = {}


class Limits(Level, frozen=True):
    """runTime: of the last attempt. latency: from creation to end. retries: attempts - 1."""

    run_time: Duration | None = None
    latency: Duration | None = None
    retries: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None


class Ordering(Level, frozen=True):
    """contiguous: a jump in the source's revisions is held, up to holdMax events and holdFor of log time."""

    revisions: Literal["contiguous", "any"] = "any"
    hold_max: Annotated[int, Meta(ge=1, le=4096)] | None = None
    hold_for: Duration | None = None


class PredicateText(Level, frozen=True):
    """A free condition."""

    name: Identifier
    cel: Expression


class Cascade(Level, frozen=True):
    """Children end with their root, in one step. Needs a source that is partitioned by root."""

    parent: Literal["root"]


class JobLeaseTimes(Level, frozen=True):
    """ttl >= 1.5 x longestStep, keepAlive <= ttl / 3."""

    ttl: Duration
    keep_alive: Duration
    longest_step: Duration


class HttpGet(Level, frozen=True):
    """A probe by HTTP."""

    url: Url
    period: Duration = "10s"
    failure_threshold: Annotated[int, Meta(ge=1, le=1000)] = 3


class LivenessProbe(Level, frozen=True):
    """How to see that the job's worker is alive."""

    http_get: HttpGet


class CompensationRule(Level, frozen=True):
    """What is ordered when the outcome would be `on`. budget: how often. breaker: failures in a row that stop it."""

    on: Literal["VIOLATED", "EXPIRED", "UNPROVEN"]
    action: Name
    backoff: Pause = "10s"
    budget: Annotated[int, Meta(ge=1, le=1000)] = 1
    expires: Duration = "5m"
    breaker: Annotated[int, Meta(ge=1, le=1000)] = 5


class Metadata(Level, frozen=True):
    """Who this is."""

    name: Name
    tenant: Tenant = "default"


class Spec(Level, frozen=True):
    """What is owed, by when, and what is done about it."""

    selector: Selector = Selector()
    target_state: TargetState = TargetState()
    limits: Limits = Limits()
    deadline: Annotated[Duration, Meta(description="Log time since the job's first record.")] | None = None
    settle: Settle = "30s"
    reconcile_policy: Literal["eventual", "strict"] = "eventual"
    ordering: Ordering = Ordering()
    predicates: Annotated[tuple[PredicateText, ...], Meta(max_length=16)] = ()
    stages: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    cascade: Cascade | None = None
    follow: Literal["pinned", "latest"] = "pinned"
    job_lease: JobLeaseTimes | None = None
    liveness_probe: LivenessProbe | None = None
    compensations: Annotated[tuple[CompensationRule, ...], Meta(max_length=16)] = ()


class Document(Level, frozen=True):
    """One terminal-state contract for all jobs that it selects."""

    api_version: Literal["finality.dev/v1alpha1"]
    kind: Literal["StatefulJob"]
    metadata: Metadata
    spec: Spec
