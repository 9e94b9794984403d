"""The demo, as a person runs it: every outcome is the known truth, and a lost event makes it fail."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from finality.lab.demo import packaged

TRUTH = {"CANCELLED": 19_570, "OPEN": 4_008, "SATISFIED": 28_770, "UNPROVEN": 75, "VIOLATED": 1_619}


def run_demo(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    figures = folder / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "finality", "demo", "--json", str(figures), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done, json.loads(figures.read_text()) if figures.exists() else {}


def test_demo_shows_the_known_truth_of_all_jobs(tmp_path: Path) -> None:
    done, figures = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert figures["by_outcome"] == TRUTH
    assert figures["jobs"] == 54_042
    assert figures["events_in"] == 158_120
    assert figures["truth_ok"] is True
    assert figures["verify"]["ok"] is True  # type: ignore[index]
    assert figures["tamper"]["found"] is True  # type: ignore[index]
    assert figures["rejected"] == 0
    assert not [path for path in (tmp_path / ".finality/stack").iterdir() if path.is_dir()], "the stack was left"


@pytest.mark.chaos
def test_demo_fails_when_one_event_is_missing(tmp_path: Path) -> None:
    rows = gzip.decompress(packaged("borg-jobs.csv.gz").read_bytes()).splitlines(keepends=True)
    ending = next(place for place, row in enumerate(rows) if row.split(b",")[3] == b"4")
    short = tmp_path / "short.csv.gz"
    short.write_bytes(gzip.compress(b"".join(rows[:ending] + rows[ending + 1 :])))
    done, _ = run_demo(tmp_path, "--data", str(short))
    assert done.returncode == 1
    assert "differ from the truth" in done.stderr
