"""A stack that must not outlive its owner, whatever ends it: tests, the demo.

`kill -9` leaves no time to clean up, so another process does it. The guard holds the reading end of a pipe, the owner
the only writing end; when the owner is gone, the pipe ends, and the guard ends and deletes the stack. It has a session
of its own, so that nothing that ends the owner's group ends the guard.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from finality.core.errors import Failed
from finality.lab.stack.home import alone, end_all, erase, unset_current

__all__ = ["Guard"]

RETRY_S = 0.1
TRIES = 600


class Guard:
    """Guards one stack's folder from now on, until `release`."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "finality.lab.stack.guard", str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """The owner has cleaned up itself."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.write(b"released")
            self._process.stdin.close()
        self._process.wait()


def watch(home: Path) -> None:
    """Wait for the owner's end, then clean up, unless it says that it did."""
    if sys.stdin.buffer.read() == b"released":
        return
    for _ in range(TRIES):
        try:
            with alone(home):
                end_all(home, gently=False)
                unset_current(home)
                erase(home)
            return
        except Failed:
            time.sleep(RETRY_S)


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
