"""Runs test groups, each under its own time-out, and prints the minutes that they took.

`fast` is what `make test` runs: lint, unit, property and golden tests, and one end-to-end run. `ci` adds everything
that needs servers. `chaos` runs the long versions. A group that fails does not stop the next one; the exit code tells.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent


class Group(NamedTuple):
    """A name, a command, how many minutes it may take, and whether the next group runs beside it.

    again: real servers on a shared machine may starve; a group that fails is run once more, and the table says so.
    """

    name: str
    command: list[str]
    minutes: float
    beside: bool = False
    again: bool = False


def pytest(*words: str) -> list[str]:
    """A pytest command with this interpreter."""
    return [sys.executable, "-m", "pytest", *words]


LINT = [
    Group("ruff", [str(BIN / "ruff"), "check", "services", "tests"], 1),
    Group("format", [str(BIN / "ruff"), "format", "--check", "services", "tests"], 1),
    Group("mypy", [str(BIN / "mypy")], 4),
    Group("imports", [str(BIN / "lint-imports")], 2),
]
SOURCES = ["tests/unit/sources", "tests/unit/contracts"]
PURE = [  # the two run side by side
    Group("sources, contracts", pytest(*SOURCES), 15, beside=True),
    Group("core, property", pytest("tests/unit", "tests/property", *[f"--ignore={path}" for path in SOURCES]), 15),
]
DEMO = [Group("end to end", pytest("tests/stack/test_demo.py"), 9)]
SERVERS = [
    Group("servers", pytest("tests/stack", "--ignore=tests/stack/test_demo.py"), 16, again=True),
    Group("faults", pytest("tests/faults"), 11, again=True),
]
CHAOS = [Group("chaos", pytest("tests", "-m", "chaos"), 120)]
PLANS = {
    "fast": LINT + PURE + DEMO,
    "ci": SERVERS,
    "chaos": CHAOS,
}


class Running:
    """A group as a process; its output goes to a file, shown when it has ended."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._began = time.monotonic()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # read when the process has ended
        self._process = subprocess.Popen(
            group.command, cwd=ROOT, start_new_session=True, stdout=self._output, stderr=subprocess.STDOUT
        )

    def finish(self) -> tuple[str, int, float]:
        """Wait for the end: name, exit code (124 when its time is over, with everything it started ended), minutes."""
        left = self.group.minutes * 60 - (time.monotonic() - self._began)
        try:
            code = self._process.wait(max(left, 1))
        except subprocess.TimeoutExpired:
            self.kill()
            code = 124
        self._output.seek(0)
        print(f"== {self.group.name}", flush=True)
        sys.stdout.buffer.write(self._output.read())
        sys.stdout.flush()
        return self.group.name, code, (time.monotonic() - self._began) / 60

    def kill(self) -> None:
        """End the group and all that it started in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def main(plan: str) -> int:
    """Run a plan; 0 when every group passed."""
    rows = []
    together: list[Running] = []
    try:
        for group in PLANS[plan]:
            together.append(Running(group))
            if group.beside:
                continue
            rows += [running.finish() for running in together]
            together = []
            if group.again and rows[-1][1]:
                name, code, minutes = Running(group).finish()
                rows.append((f"{name}, second try", code, minutes))
                rows[-2] = (rows[-2][0], code, rows[-2][2])
    finally:
        for running in together:
            running.kill()
    print("\ngroup                 minutes  result")
    for name, code, minutes in rows:
        print(f"{name:20}  {minutes:7.1f}  {'ok' if code == 0 else f'failed ({code})'}")
    return 1 if any(code for _, code, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "fast"))
