"""Every name that Finality gives to something outside, made from the namespace in one place.

A drill runs in a namespace of its own; nothing it makes can collide with the real one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from finality.core.errors import UsageError

__all__ = ["PLAIN_TOPICS", "Names", "is_namespace"]

PLAIN_TOPICS = ("deltas", "commands", "dead-letters", "outcomes")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


def is_namespace(text: str) -> bool:
    """True for a name that Kafka and Redis take as a prefix."""
    return _NAMESPACE.fullmatch(text) is not None


class Names(NamedTuple):
    """Names of one topic generation of one namespace. Generation 1 carries no suffix."""

    namespace: str = "finality"
    generation: int = 1

    @classmethod
    def of(cls, namespace: str, generation: int = 1) -> Names:
        """Checked constructor. Raises `UsageError` for a namespace that Kafka or Redis would not take."""
        if not is_namespace(namespace):
            raise UsageError(
                f"namespace {namespace!r}: use up to 63 of a-z, 0-9, '.', '-', beginning with a letter or digit"
            )
        return cls(namespace, generation)

    def topic(self, kind: str) -> str:
        """Topic of this generation: input, log, state, deltas, commands, dead-letters, outcomes."""
        suffix = f".g{self.generation}" if self.generation > 1 else ""
        return f"{self.namespace}.{kind}{suffix}"

    @property
    def control(self) -> str:
        """The control topic; it has no generations."""
        return f"{self.namespace}.control"

    def raw(self, source: str) -> str:
        """Topic that producers of `source` write to."""
        return f"{self.namespace}.raw.{source}"

    def group(self, service: str) -> str:
        """Consumer group of a service that uses one (ingest)."""
        return f"{self.namespace}.{service}"

    def transactional_id(self, link: str, topic: str, partition: int) -> str:
        """One id per (namespace, generation, link, target topic, partition), shared by all processes."""
        return f"{self.namespace}.g{self.generation}.{link}.{topic}.{partition}"

    def redis(self, site: str, partition: int, what: str) -> str:
        """Redis key of one partition; the braces keep a partition's keys in one cluster slot."""
        return f"{{{self.namespace}:{site}:g{self.generation}:{partition}}}:{what}"
