"""What the tests of the local stack have in common: a folder to work in, the command, and a look at what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from finality.lab.stack import stop_stack
from finality.lab.stack.jars import JarCache, cache_folders, local_repository
from finality.lab.stack.lock import load_lock
from finality.lab.stack.process import recorded

PATIENCE_S = 300.0
TOOL = [sys.executable, "-c", "from finality.cli.main import run; run()", "stack"]
NARROW = ["/bin/sh", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "sh"]  # files of 2 or 4 KiB, no more


class Folder:
    """A working folder of the command, and what runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stacks = path / ".finality" / "stack"
        self.lines: list[str] = []

    def home(self, name: str = "default") -> Path:
        return self.stacks / name

    def tool(self, *words: str, narrow: bool = False, **changes: str) -> subprocess.Popen[str]:
        environment = {**os.environ, **changes}
        environment.pop("FINALITY_CONFIG", None)
        return subprocess.Popen(
            [*(NARROW if narrow else ()), *TOOL, *words],
            cwd=self.path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, code: int = 0, narrow: bool = False, **changes: str) -> tuple[str, str]:
        process = self.tool(*words, narrow=narrow, **changes)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert code == process.returncode, f"{out}\n{err}"
        return out, err

    def failure(self, *words: str, code: int, narrow: bool = False, **changes: str) -> str:
        """The one line of a command that fails; checks that it is one, without a trace, and that nothing runs."""
        _, err = self.run(*words, code=code, narrow=narrow, **changes)
        assert "Traceback" not in err
        last = [line for line in err.splitlines() if line.startswith("finality: ")]
        assert len(last) == 1, err
        assert self.running() == []
        return last[0]

    def running(self, name: str = "default") -> list[str]:
        return [process.name for process in recorded(self.home(name)) if process.pid is not None]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder of its own; whatever runs in it at the end is ended."""
    made = Folder(tmp_path)
    yield made
    for home in made.stacks.glob("*/"):
        stop_stack(home, delete=True)


def alive(pid: int) -> bool:
    """Whether a process of that number runs; one that only waits for its parent does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def warm_cache() -> Path:
    """The folder of jars that this machine uses, filled if it was not."""
    JarCache(cache_folders(os.environ), load_lock(), local_repository(os.environ), lambda line: None).provide()
    return next(folder for folder in cache_folders(os.environ) if folder.exists())
