"""Processes of a test: the product's command and the launcher, with what they print, and waiting on conditions.

Nothing here sleeps for a fixed time to hope that something has happened: `until` asks again and again, and says what
it waited for when its generous time is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["PATIENCE_S", "Running", "finality", "launch", "until"]

PATIENCE_S = 90.0
_LAUNCHER = Path(__file__).with_name("launch.py")
T = TypeVar("T")


def until(
    condition: Callable[[], T],
    what: str | Callable[[], str],
    meanwhile: Callable[[], object] = lambda: None,
    patience_s: float = PATIENCE_S,
) -> T:
    """The first true value of `condition`. meanwhile: done between two questions. Fails when the time is over.

    A round counts for two seconds at most: while the whole machine stands still, nothing under test could go on either.
    """
    spent_s, asked_at = 0.0, time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        if spent_s >= patience_s:
            raise AssertionError(f"waited {patience_s:g} s for {what() if callable(what) else what}")
        meanwhile()
        time.sleep(0.02)
        now = time.monotonic()
        spent_s, asked_at = spent_s + min(now - asked_at, 2.0), now


class Running:
    """A child process whose output goes to a file. name: for messages."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code (-9 after SIGKILL), None while it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """All that it has printed so far."""
        return self.log.read_text(errors="replace")

    def says(self, line: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until it has printed a line that begins so."""

        def found() -> bool:
            there = any(row.startswith(line) for row in self.said.splitlines())
            assert there or self.code is None, f"{self} ended with {self.code}"
            return there

        until(found, lambda: f"{line!r} of {self}", meanwhile)

    def ends(self, code: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait for its end, which must be this one."""
        until(lambda: self.code is not None, lambda: f"the end of {self}", meanwhile)
        assert self.code == code, f"{self} ended with {self.code}"

    def stands_still(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until SIGSTOP has stopped it."""
        ask = ["ps", "-o", "state=", "-p", str(self.pid)]
        until(
            lambda: subprocess.run(ask, check=False, capture_output=True).stdout.startswith(b"T"),
            lambda: f"the stop of {self}",
            meanwhile,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for the end; SIGKILL when it takes too long."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} did not end within 30 s of SIGTERM") from None

    def __str__(self) -> str:
        return f"{self.name} (its last words: {self.said[-600:]!r})"


def launch(log: Path, service: str, config: Path, *words: str) -> Running:
    """A service under the launcher, see `launch.py`."""
    command = [sys.executable, str(_LAUNCHER), service, "--config", str(config), *words]
    return Running(service, command, log)


def finality(log: Path, config: Path, *words: str) -> Running:
    """The product's own command."""
    return Running(" ".join(words[:2]), [sys.executable, "-m", "finality", "--config", str(config), *words], log)
