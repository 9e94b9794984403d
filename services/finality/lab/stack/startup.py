"""How a stack comes up: what is there already, which ports, format, start, wait; and the way back when that fails.

The plan is written before the first process starts and says `starting` until all of them answered. So a killed start is
seen by the next command; a failed one ends its processes, deletes data that it made itself, and keeps the logs.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from finality.core.errors import DependencyError, UsageError
from finality.lab.stack.broker import Broker
from finality.lab.stack.home import context_text, end_all, erase, redis_urls, set_current
from finality.lab.stack.jars import JarCache
from finality.lab.stack.lock import KAFKA
from finality.lab.stack.plan import BrokerPlan, RedisPlan, StackPlan, new_cluster_id, read_plan, write_plan
from finality.lab.stack.ports import choose_ports, is_free, take_ports
from finality.lab.stack.process import ServerProcess, recorded
from finality.lab.stack.ready import await_all, explain, pings
from finality.lab.stack.redis_server import RedisServer

__all__ = ["Startup", "Wish"]

TRIES = 3  # with ports of our own choice, when somebody was quicker
ROOM_BYTES = 64_000_000  # per broker, before it holds anything
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Wish(msgspec.Struct, frozen=True):
    """What is asked for. sites: number of brokers by site."""

    name: str
    sites: dict[str, int]
    voters: int
    port: int | None
    redis_url: str
    session_timeout_ms: int
    jvm: tuple[str, ...]
    overrides: dict[str, str]
    advertised: dict[str, int]

    def check(self) -> None:
        """Raises `UsageError`."""
        if not _NAME.fullmatch(self.name) or self.name == "current":
            raise UsageError(f"a stack's name is of a-z, 0-9 and '-', at most 32, not 'current': {self.name!r}")
        for site, count in self.sites.items():
            if count not in (1, 3):
                raise UsageError(f"{count} brokers at {site}: a site has 1 or 3")
        if not 1 <= self.voters <= 9:
            raise UsageError(f"{self.voters} voters: a site has 1 to 9")

    @property
    def names(self) -> list[tuple[str, int]]:
        """Site and node number of every broker."""
        return [(site, node) for site, count in self.sites.items() for node in range(1, count + 1)]


class Startup:
    """One start. home: the stack's folder, held by the caller; deadline_s: for all servers together."""

    def __init__(self, home: Path, wish: Wish, deadline_s: float, progress: Callable[[str], None]) -> None:
        self._home = home
        self._wish = wish
        self._deadline_s = deadline_s
        self._progress = progress
        self._tries = 0
        self._fresh = True
        self._kept: frozenset[str] = frozenset()  # ran before; no failure of ours ends them
        self._plan: StackPlan | None = None

    def settle(self) -> StackPlan:
        """Look at what is there and make the plan; cleans up after a start that did not end."""
        old = read_plan(self._home)
        running = [process for process in recorded(self._home) if process.pid is not None]
        if old is not None and old.phase != "ready":
            self._progress(f"cleaning up after a start of {old.name!r} that did not end")
            end_all(self._home, gently=False)
            running = []
        elif old is None and running:
            end_all(self._home, gently=False)
            running = []
        self._fresh = old is None
        self._kept = frozenset(process.name for process in running)
        self._plan = self._new() if old is None else self._again(old, bool(running))
        redis_urls(self._plan)
        return self._plan

    def bring_up(self, brokers: Sequence[Broker], redis: RedisServer | None, url: str, jars: JarCache) -> bool:
        """Start what does not run and wait for all of it. Returns False when a port was lost meanwhile: settle anew."""
        assert self._plan is not None
        self._tries += 1
        try:
            self._room(len([broker for broker in brokers if broker.pid is None]))
            if not self._kept:
                write_plan(self._home, msgspec.structs.replace(self._plan, phase="starting"))
            self._start(brokers, redis, url)
            set_current(self._home, context_text(self._plan))
            write_plan(self._home, msgspec.structs.replace(self._plan, phase="ready"))
        except OSError as error:
            self._back()
            what = "no room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else error.strerror
            raise DependencyError(f"{self._home}: {what}; free some, or run in another folder") from None
        except DependencyError as error:
            lost = "its port is taken" in str(error) and self._wish.port is None and self._tries < TRIES
            self._back()
            damaged = jars.damaged()
            if damaged:
                names = ", ".join(path.name for path in damaged)
                raise DependencyError(f"{error}; {names} in the cache was damaged and is removed: try again") from None
            if not lost:
                raise
            self._progress("a port was taken meanwhile; choosing others")
            return False
        except BaseException:
            self._back()
            raise
        return True

    def _start(self, brokers: Sequence[Broker], redis: RedisServer | None, url: str) -> None:
        idle = [broker for broker in brokers if broker.pid is None]
        if not idle and (redis is None or redis.pid is not None):
            self._progress(f"stack {self._wish.name!r} is running already")
        if redis is not None and redis.pid is None:
            redis.begin()
        self._format(idle)
        for broker in idle:
            broker.begin(recording=broker is idle[0])
        if idle:
            self._progress(f"starting {len(idle)} broker(s): {', '.join(broker.name for broker in idle)}")
        questions: dict[str, tuple[ServerProcess | None, Callable[[], bool]]] = {
            "redis": (redis, lambda: pings(url)),
        }
        for broker in brokers:
            questions[broker.name] = (broker, broker.question(self._wish.sites[broker.site]))
        await_all(questions, self._deadline_s, self._progress)

    def _format(self, brokers: Sequence[Broker]) -> None:
        tools = [(broker, tool) for broker in brokers if (tool := broker.prepare()) is not None]
        if tools:
            self._progress(f"formatting {len(tools)} data folder(s)")
        for broker, tool in tools:
            if not tool.wait_gone(self._deadline_s):
                raise DependencyError(explain(tool, f"has not ended after {self._deadline_s:.0f} s"))
            if tool.exit_code != 0:
                raise DependencyError(explain(tool, "failed"))
            broker.formatted()

    def _back(self) -> None:
        """End what was begun. Data that this start made goes, so the next one is free to be another; logs stay."""
        end_all(self._home, gently=False, spare=self._kept)
        if self._fresh:
            erase(self._home, keep_logs=True)

    def _room(self, count: int) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._home).free
        if free < count * ROOM_BYTES:
            raise DependencyError(
                f"no room on the disk of {self._home}: {free / 1e6:.0f} MB free, {count} broker(s) need "
                f"{count * ROOM_BYTES / 1e6:.0f} MB; free some, or run in another folder"
            )

    def _new(self) -> StackPlan:
        return self._planned({site: new_cluster_id() for site in self._wish.sites}, None)

    def _again(self, old: StackPlan, running: bool) -> StackPlan:
        """The plan for a stack that was there before: its cluster ids, and its ports if they are still to be had."""
        wish = self._wish
        delete = f"'finality stack down --name {old.name} --delete'"
        if old.kafka != KAFKA:
            raise UsageError(f"the data of stack {old.name!r} is of Kafka {old.kafka}, this is {KAFKA}: {delete} first")
        if {site: len(old.of_site(site)) for site in old.clusters} != wish.sites:
            asked = "+".join(str(count) for count in wish.sites.values())
            raise UsageError(
                f"stack {old.name!r} has {old.shape} brokers, not {asked}: {delete} first, or another --name"
            )
        keep = running or (wish.port is None and all(is_free(port) for port in old.ports))
        made = self._planned(old.clusters, old if keep else None)
        if running and made != msgspec.structs.replace(old, voters=wish.voters):
            raise UsageError(
                f"stack {old.name!r} runs with other options: 'finality stack down --name {old.name}' first"
            )
        return made

    def _planned(self, clusters: dict[str, str], old: StackPlan | None) -> StackPlan:
        wish = self._wish
        names = wish.names
        ports = self._ports(len(names), old)
        brokers = []
        for index, (site, node) in enumerate(names):
            port, internal, controller = (
                ports[index],
                ports[len(names) + 2 * index + 1],
                ports[len(names) + 2 * index + 2],
            )
            advertised = wish.advertised.get(f"{site}-{node}", port)
            brokers.append(BrokerPlan(site, node, port, internal, controller, advertised))
        return StackPlan(
            name=wish.name,
            kafka=KAFKA,
            phase="ready",
            clusters=clusters,
            brokers=tuple(brokers),
            redis=RedisPlan(url=wish.redis_url) if wish.redis_url else RedisPlan(port=ports[len(names)]),
            voters=wish.voters,
            session_timeout_ms=wish.session_timeout_ms,
            jvm=wish.jvm,
            overrides=wish.overrides,
        )

    def _ports(self, count: int, old: StackPlan | None) -> list[int]:
        """Clients' ports of all brokers, then Redis, then two per broker for the cluster itself."""
        if old is not None:
            inner = [port for broker in old.brokers for port in (broker.internal_port, broker.controller_port)]
            return [broker.port for broker in old.brokers] + [old.redis.port] + inner
        wanted = 3 * count + 1
        return choose_ports(wanted) if self._wish.port is None else take_ports(self._wish.port, wanted)
