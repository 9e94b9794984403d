"""The local stack: two sites of real Apache Kafka and one Redis-compatible server, from Python packages alone.

`Stack.start` brings it up and returns when every server answers; what was started outlives the starting process until
`stop_all`. Both sites start side by side. A start that fails or is interrupted ends what it began. A stack that was
left half started by a killed process is cleaned up first; one that ran before starts again on its data and ports.

Left out: security, more than one machine, brokers that are not controllers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from finality.core.errors import UsageError
from finality.lab.stack.broker import SMALL_JVM, Broker, KafkaProgram
from finality.lab.stack.guard import Guard
from finality.lab.stack.home import alone, end_all, erase, redis_urls, unset_current
from finality.lab.stack.jars import JarCache, cache_folders, local_repository
from finality.lab.stack.java import find_java
from finality.lab.stack.lock import load_lock
from finality.lab.stack.plan import SITES, StackPlan, read_plan
from finality.lab.stack.ports import HOST
from finality.lab.stack.process import ServerProcess
from finality.lab.stack.ready import await_all
from finality.lab.stack.redis_server import RedisServer, find_redis
from finality.lab.stack.startup import Startup, Wish

__all__ = ["Cluster", "Stack", "silent", "stop_stack"]


def silent(line: str) -> None:
    """Take a line about progress and say nothing."""


class Cluster:
    """The brokers of one site."""

    def __init__(self, site: str, brokers: Sequence[Broker]) -> None:
        self.site = site
        self.brokers = list(brokers)

    @property
    def bootstrap(self) -> str:
        """The brokers' own addresses."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def advertised(self) -> str:
        """The addresses that clients are told: proxies', where there are some."""
        return ",".join(f"{HOST}:{broker.advertised}" for broker in self.brokers)


class Stack:
    """A stack that was started. Made by `start` or `open`; as a context manager it is deleted at the end."""

    def __init__(self, home: Path, plan: StackPlan, program: KafkaProgram, redis_program: Path | None) -> None:
        self.home = home
        self.plan = plan
        self.name = plan.name
        clusters = {site: [Broker(plan, one, home, program) for one in plan.of_site(site)] for site in plan.clusters}
        self._clusters = {site: Cluster(site, brokers) for site, brokers in clusters.items()}
        self.redis_urls = redis_urls(plan)
        self.redis = RedisServer(plan.redis.port, home, redis_program) if redis_program else None
        self.archive = program.archive
        self._guard: Guard | None = None

    @classmethod
    def start(
        cls,
        directory: Path,
        name: str = "default",
        *,
        brokers: int = 1,
        dr_brokers: int = 1,
        with_dr: bool = True,
        voters: int = 1,
        port: int | None = None,
        redis_url: str = "",
        session_timeout_ms: int = 9_000,
        jvm: Sequence[str] = SMALL_JVM,
        overrides: Mapping[str, str] | None = None,
        advertised: Mapping[str, int] | None = None,
        deadline_s: float = 60.0,
        tied: bool = False,
        progress: Callable[[str], None] = silent,
    ) -> Stack:
        """Bring a stack up in `directory/name` and wait until all of it answers.

        port: the first of a block of ports, else free ones; advertised: broker name (`primary-1`) to the port that
        clients are told; overrides: broker settings, last word; session_timeout_ms: after which a silent broker counts
        as dead; tied: the stack is ended and deleted when this process ends, even by SIGKILL. A stack that already runs
        in this shape is taken as it is.

        Raises `DependencyError` (no Java, no network, no room, port taken, a server does not start: nothing is left
        running), `UsageError` (another shape than the stack that is there), `Failed` (another command is at work).
        """
        wish = Wish(
            name=name,
            sites={"primary": brokers, "dr": dr_brokers} if with_dr else {"primary": brokers},
            voters=voters,
            port=port,
            redis_url=redis_url,
            session_timeout_ms=session_timeout_ms,
            jvm=tuple(jvm),
            overrides=dict(overrides or {}),
            advertised=dict(advertised or {}),
        )
        wish.check()
        home = directory.absolute() / name
        with alone(home):
            guard = Guard(home) if tied else None
            try:
                stack = cls._brought_up(home, Startup(home, wish, deadline_s, progress), progress)
            except BaseException:
                if guard is not None:
                    guard.release()
                raise
        stack._guard = guard
        return stack

    @classmethod
    def _brought_up(cls, home: Path, startup: Startup, progress: Callable[[str], None]) -> Stack:
        jars = JarCache(cache_folders(os.environ), load_lock(), local_repository(os.environ), progress)
        while True:
            stack = cls._assembled(home, startup.settle(), jars)
            if any(broker.pid is None for broker in stack.every_broker):
                stack.archive.make(progress)
            if startup.bring_up(stack.every_broker, stack.redis, stack.redis_urls[SITES[0]], jars):
                stack.archive.recorded()
                return stack

    @classmethod
    def open(cls, home: Path) -> Stack:
        """A stack that is there, running or not. Raises `UsageError` when the folder holds none."""
        plan = read_plan(home)
        if plan is None:
            raise UsageError(f"no stack in {home}: start it with 'finality stack up --name {home.name}'")
        jars = JarCache(cache_folders(os.environ), load_lock(), local_repository(os.environ), silent)
        return cls._assembled(home.absolute(), plan, jars)

    @classmethod
    def _assembled(cls, home: Path, plan: StackPlan, jars: JarCache) -> Stack:
        program = KafkaProgram(find_java(os.environ), jars.provide())
        return cls(home, plan, program, None if plan.redis.url else find_redis(os.environ))

    @property
    def primary(self) -> Cluster:
        """The primary site."""
        return self._clusters[SITES[0]]

    @property
    def dr(self) -> Cluster:
        """The second site. Raises `UsageError` in a stack without one."""
        if SITES[1] not in self._clusters:
            raise UsageError(f"stack {self.name!r} was started without a second site")
        return self._clusters[SITES[1]]

    @property
    def redis_url(self) -> str:
        """The ledger of the primary site."""
        return self.redis_urls[SITES[0]]

    @property
    def context_path(self) -> Path:
        """The context file, for `--config`."""
        return self.home / "context.toml"

    def cluster(self, site: str) -> Cluster:
        """A site by name."""
        return self._clusters[site]

    def brokers(self, site: str = "primary") -> list[Broker]:
        """The brokers of a site, by node number."""
        return self._clusters[site].brokers

    @property
    def every_broker(self) -> list[Broker]:
        """The brokers of all sites."""
        return [broker for cluster in self._clusters.values() for broker in cluster.brokers]

    def stop_all(self, gently: bool = True) -> None:
        """End every process; data and logs stay. gently: let them finish, else SIGKILL."""
        stop_stack(self.home, delete=False, gently=gently)

    def delete(self) -> None:
        """SIGKILL every process and delete the folder."""
        stop_stack(self.home, delete=True, gently=False)
        if self._guard is not None:
            self._guard.release()

    def heal(self, deadline_s: float = 60.0) -> None:
        """Resume what is paused, start what is dead, wait until every broker knows its whole cluster again."""
        servers: list[ServerProcess] = [*self.every_broker, *([self.redis] if self.redis else [])]
        for server in servers:
            server.resume()
        for broker in self.every_broker:
            if broker.pid is None:
                broker.begin()
        if self.redis is not None:
            self.redis.start(deadline_s)
        await_all(
            {broker.name: (broker, broker.question(len(self.brokers(broker.site)))) for broker in self.every_broker},
            deadline_s,
            silent,
        )

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.delete()


def stop_stack(home: Path, delete: bool, gently: bool = True) -> int:
    """End whatever runs of a stack, also one that was half started or whose plan is lost; returns how many ran.

    Raises `Failed` when another command is at work on it.
    """
    home = home.absolute()
    with alone(home):
        count = end_all(home, gently and not delete)
        unset_current(home)
        if delete:
            erase(home)
    return count
