"""Runs every bench, each in a process of its own, and prints one table; `--write` puts it into docs/EVIDENCE.md.

    .venv/bin/python tests/bench/run.py [parts] [state] [line] [--write]

Takes about four minutes on two quiet cores. A figure of one day says little; the column of ratios against the bare loop
of the same run says more.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
EVIDENCE = ROOT / "docs" / "EVIDENCE.md"
BEGIN, END = "<!-- bench: begin -->\n", "<!-- bench: end -->\n"
BENCHES = ("parts", "state", "line")
LIMIT_S = 300.0


def measure(name: str) -> bytes:
    """One bench, in this process; its tables as JSON."""
    if name == "parts":
        from bench.bench_parts import parts

        return msgspec.json.encode(parts())
    if name == "line":
        from bench.bench_line import line

        return msgspec.json.encode(line())
    from bench.bench_parts import bare_cost
    from bench.bench_state import memory, sizes
    from support.borg_history import event_records, sample_events

    bare = bare_cost(event_records(sample_events()[:40_000]))
    return msgspec.json.encode([sizes(bare), memory()])


def run(name: str) -> list[str]:
    """Lines of one bench, measured in a child process. Exits with its code where it fails."""
    from bench.bench_rows import Table

    began = time.monotonic()
    child = subprocess.run(
        [sys.executable, str(Path(__file__)), "--measure", name], stdout=subprocess.PIPE, timeout=LIMIT_S, check=False
    )
    if child.returncode:
        sys.exit(child.returncode)
    tables = msgspec.json.decode(child.stdout, type=list[Table])
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return [line for table in tables for line in table.lines()]


def machine() -> str:
    """Where and on what this was measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    load = os.getloadavg()[0]
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{today}, commit {commit.stdout.strip() or 'unknown'}, {os.cpu_count()} × {model}, Python "
        f"{platform.python_version()}, load {load:.1f} at the start"
    )


def write(lines: list[str]) -> None:
    """Replace the part of docs/EVIDENCE.md between the marks."""
    text = EVIDENCE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    EVIDENCE.write_text(before + BEGIN + "\n".join(lines) + END + after)


def main(words: list[str]) -> int:
    """See the module's head."""
    if words[:1] == ["--measure"]:
        sys.stdout.buffer.write(measure(words[1]))
        return 0
    chosen = [word for word in words if word != "--write"] or list(BENCHES)
    if not set(chosen) <= set(BENCHES):
        print(f"bench: {' '.join(chosen)}: use {', '.join(BENCHES)} and --write", file=sys.stderr)
        return 2
    lines = [machine(), ""]
    for name in chosen:
        lines += run(name)
    print("\n".join(lines))
    if "--write" in words:
        write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
