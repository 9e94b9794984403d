"""Runs test groups, each under its own time-out, and prints the minutes that they took.

`fast` is what `make test` runs: lint, unit, property and golden tests, and one end-to-end run. `ci` adds everything
that needs servers. `chaos` runs the long versions. A group that fails does not stop the next one; the exit code tells.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent


class Group(NamedTuple):
    """A name, a command, and how many minutes it may take."""

    name: str
    command: list[str]
    minutes: float


def pytest(*words: str) -> list[str]:
    """A pytest command with this interpreter."""
    return [sys.executable, "-m", "pytest", *words]


LINT = [
    Group("ruff", [str(BIN / "ruff"), "check", "services", "tests"], 1),
    Group("format", [str(BIN / "ruff"), "format", "--check", "services", "tests"], 1),
    Group("mypy", [str(BIN / "mypy")], 4),
    Group("imports", [str(BIN / "lint-imports")], 2),
]
PURE = [Group("unit and property", pytest("tests/unit", "tests/property"), 8)]
DEMO = [Group("end to end", pytest("tests/stack/test_demo.py"), 6)]
SERVERS = [
    Group("servers", pytest("tests/stack", "--ignore=tests/stack/test_demo.py"), 20),
    Group("faults", pytest("tests/faults"), 15),
]
CHAOS = [Group("chaos", pytest("tests", "-m", "chaos"), 120)]
PLANS = {
    "fast": LINT + PURE + DEMO,
    "ci": SERVERS,
    "chaos": CHAOS,
}


def run(group: Group) -> int:
    """Exit code of a group; 124 when its time is over, with everything it started ended."""
    print(f"== {group.name}", flush=True)
    process = subprocess.Popen(group.command, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(group.minutes * 60)
    except subprocess.TimeoutExpired:
        print(f"== {group.name}: stopped after {group.minutes} minutes", flush=True)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 124
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        raise


def main(plan: str) -> int:
    """Run a plan; 0 when every group passed."""
    rows = []
    for group in PLANS[plan]:
        began = time.monotonic()
        code = run(group)
        rows.append((group.name, code, (time.monotonic() - began) / 60))
    print("\ngroup                 minutes  result")
    for name, code, minutes in rows:
        print(f"{name:20}  {minutes:7.1f}  {'ok' if code == 0 else f'failed ({code})'}")
    return 1 if any(code for _, code, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "fast"))
