"""A namespace on a running stack, for one measurement, and the log's readers that hold its outcomes against the table.

Settings are the product's own (drivers, options and loops are built by the wiring of its commands); only the calls of
`step` are made here, so that nothing but the measured loop uses CPU time of this process.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from finality.cli.setup import apply_setup
from finality.cli.wiring import SiteHandle, open_site
from finality.core.errors import Failed
from finality.core.logview import Attested, LogView
from finality.kafka.reader import KafkaReader
from finality.lab.stack import Stack
from finality.settings import load_context

__all__ = ["PARTITIONS", "Clock", "Follower", "Spent", "drive", "new_site"]

PARTITIONS = 4
_PATIENCE_S = 120.0


class Clock:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        """Wall clock."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Monotonic clock."""
        return time.monotonic_ns()


class Spent(NamedTuple):
    """CPU seconds (user + system, of this process with its clients' threads) and wall seconds."""

    cpu_s: float
    wall_s: float


def drive(step: Callable[[], object], done: Callable[[], bool], what: str) -> Spent:
    """Call `step` until `done`, and say what that took. Raises `Failed` after two minutes."""
    gc.collect()
    gc.freeze()  # both as the services do
    gc.set_threshold(50_000, 50, 100)
    cpu, wall = time.process_time(), time.monotonic()
    while not done():
        step()
        if time.monotonic() - wall > _PATIENCE_S:
            raise Failed(f"bench: {what} did not end within {_PATIENCE_S:.0f} s")
    return Spent(time.process_time() - cpu, time.monotonic() - wall)


def new_site(stack: Stack, namespace: str) -> tuple[SiteHandle, Path]:
    """A namespace of its own, set up in events mode, and the path of its context file."""
    path = stack.home / f"{namespace}.toml"
    lines = [line for line in stack.context_path.read_text().splitlines() if not line.startswith("namespace")]
    path.write_text("\n".join([f'namespace = "{namespace}"', *lines]) + "\n")
    context = load_context(str(path))
    apply_setup(context, PARTITIONS, "events", "primary", memory_days=3650)
    return open_site(context, "primary"), path


class Follower:
    """Reads the attested log as anybody would: by acceptance. outcomes: effective ones, by job."""

    def __init__(self, site: SiteHandle) -> None:
        starts = dict.fromkeys(range(PARTITIONS), 0)
        self._reader = KafkaReader(site.kafka, site.names.topic("log"), starts, Clock(), dense=True)
        self._views = {partition: LogView(site.genesis_value, partition, site.home) for partition in range(PARTITIONS)}
        self.outcomes: dict[str, str] = {}
        self.blocks = self.entries = 0

    @property
    def leaders(self) -> int:
        """Partitions that somebody leads."""
        return sum(1 for view in self._views.values() if view.leaders)

    def read(self, wait_s: float) -> list[tuple[int, Attested]]:
        """Entries that came, with their partition."""
        found: list[tuple[int, Attested]] = []
        for record in self._reader.poll(2_000, wait_s):
            entries = self._views[record.partition].read(record)
            self.blocks += bool(entries)
            found += [(record.partition, entry) for entry in entries]
        self.entries += len(found)
        return found

    def count(self) -> Counter[str]:
        """Read the log to its end as it now stands: how many jobs ended how."""
        while found := self.read(0.5):
            for _, entry in found:
                if b'"outcome":' in entry.entry:
                    document = entry.decoded()
                    self.outcomes[str(document["job"])] = str(document["outcome"])
        return Counter(self.outcomes.values())

    def close(self) -> None:
        """Free the connection."""
        self._reader.close()
