"""What a stack consists of, written down before anything starts: names, ports, options, and how far the start came.

The file is `stack.json` in the stack's folder. `phase` is `starting` until every server answered once: a start that was
killed is recognised by it and cleaned up by whoever comes next.
"""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path

import msgspec

from finality.core.errors import UsageError

__all__ = ["SITES", "BrokerPlan", "RedisPlan", "StackPlan", "new_cluster_id", "read_plan", "write_file", "write_plan"]

SITES = ("primary", "dr")


class BrokerPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One combined broker and controller. advertised: the port that clients are told, a proxy's or its own."""

    site: str
    node: int
    port: int
    internal_port: int
    controller_port: int
    advertised: int

    @property
    def name(self) -> str:
        """Name of the process, its log and its data folder."""
        return f"{self.site}-{self.node}"


class RedisPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Our own server (port), or one that was given (url)."""

    port: int = 0
    url: str = ""


class StackPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole stack. session_timeout_ms: after which a silent broker counts as dead."""

    name: str
    kafka: str
    phase: str
    clusters: dict[str, str]
    brokers: tuple[BrokerPlan, ...]
    redis: RedisPlan
    voters: int
    session_timeout_ms: int
    jvm: tuple[str, ...]
    overrides: dict[str, str] = {}

    def of_site(self, site: str) -> tuple[BrokerPlan, ...]:
        """The brokers of a site."""
        return tuple(broker for broker in self.brokers if broker.site == site)

    @property
    def shape(self) -> str:
        """How many brokers per site, for people."""
        return "+".join(str(len(self.of_site(site))) for site in self.clusters)

    @property
    def ports(self) -> list[int]:
        """Every port on which this stack listens itself."""
        own = [port for broker in self.brokers for port in (broker.port, broker.internal_port, broker.controller_port)]
        return own + ([self.redis.port] if self.redis.port else [])


def new_cluster_id() -> str:
    """A cluster id as Kafka makes them; never with a leading '-', which its tool would take for an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if made[0].isalnum():
            return made


def read_plan(home: Path) -> StackPlan | None:
    """The plan in a stack's folder, or None when there is none. Raises `UsageError` when it cannot be understood."""
    path = home / "stack.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=StackPlan)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}): 'finality stack down --name {home.name} --delete' starts over"
        ) from None


def write_plan(home: Path, plan: StackPlan) -> None:
    """Put the plan down, whole or not at all."""
    write_file(home / "stack.json", msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def write_file(path: Path, content: bytes) -> None:
    """Replace a file by one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".fresh")
    fresh.write_bytes(content)
    os.replace(fresh, path)
