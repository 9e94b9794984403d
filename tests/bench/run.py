"""`make bench`: all benches in one run, one table each, about four minutes on an idle machine.

`--write` puts the figures with date, commit and machine into `docs/EVIDENCE.md`; `--quick` leaves the million jobs out.
Figures are medians; ratios are against the bare loop of the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]


def main(words: list[str]) -> int:
    """Run the benches; 0 when the outcomes that they assert are right."""
    from bench_line import line
    from bench_parts import bare_cost, parts
    from bench_rows import Table
    from bench_state import memory, sizes

    from support.borg_history import event_records, sample_events

    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args(words)
    tables: list[Table] = parts()
    bare = bare_cost(event_records(sample_events()))
    tables += [sizes(bare, 100_000 if chosen.quick else 1_000_000), memory(), *line()]
    lines = [text for table in tables for text in table.lines()]
    print("\n".join(lines))
    if chosen.write:
        _write(lines)
    return 0


def _write(lines: list[str]) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    when = time.strftime("%Y-%m-%d", time.gmtime())
    head = [
        "# Evidence",
        "",
        "Figures of `make bench`, written by `tests/bench/run.py --write`. CPU figures are of our own processes, the",
        "brokers' apart; ratios are against a bare Python loop (receive, decode, minimal fold, chain, append).",
        "",
        f"## {when}, commit {commit.stdout.strip()}",
        "",
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}; "
        f"load average {os.getloadavg()[0]:.1f} at the end.",
        "",
    ]
    (ROOT / "docs" / "EVIDENCE.md").write_text("\n".join(head + lines).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
