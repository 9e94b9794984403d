"""The demo, as a person runs it: every outcome is the known truth, and a lost event makes it fail."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from finality.lab.demo import packaged
from support.command import faults_of

ROOT = Path(__file__).resolve().parents[2]
TRUTH = {"CANCELLED": 19_570, "OPEN": 4_008, "SATISFIED": 28_770, "UNPROVEN": 75, "VIOLATED": 1_619}
LIMIT_S = 600
NEEDED = ("make", "touch", "rm", "mkdir", "uname")


def bare_path(folder: Path) -> str:
    """A PATH of Python, make and the plainest tools: no Java, Maven, Docker or Redis."""
    folder.mkdir()
    for name in NEEDED:
        found = shutil.which(name)
        assert found, f"{name} is needed to run the demo"
        (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    for name in ("java", "mvn", "docker", "redis-server", "valkey-server"):
        assert shutil.which(name, path=str(folder)) is None
    return str(folder)


def test_demo_shows_the_known_truth_with_python_and_make_alone(tmp_path: Path) -> None:
    figures_file = tmp_path / "figures.json"
    surroundings = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "MAKEFLAGS", "MAKELEVEL")
    }
    done = subprocess.run(
        ["make", "demo", f"JSON={figures_file}"],
        cwd=ROOT,
        env={**surroundings, "PATH": bare_path(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures: dict[str, Any] = json.loads(figures_file.read_text())
    assert faults_of("demo", figures) == []
    assert figures["by_outcome"] == TRUTH
    assert figures["by_phase"]["RUNNING"] == 4_007
    assert figures["jobs"] == 54_042
    assert figures["events_in"] == 158_120
    assert figures["truth_ok"] is True
    assert figures["verify"]["ok"] is True
    assert figures["tamper"]["found"] is True
    first, last = figures["tamper"]["indices"]
    assert first <= figures["tamper"]["verdict"]["difference"]["index"] <= last
    assert figures["rejected"] == 0
    assert "54,042 of 54,042 outcomes" in done.stdout


@pytest.mark.chaos
def test_demo_fails_when_one_event_is_missing(tmp_path: Path) -> None:
    rows = gzip.decompress(packaged("borg-jobs.csv.gz").read_bytes()).splitlines(keepends=True)
    ending = next(place for place, row in enumerate(rows) if row.split(b",")[3] == b"4")
    short = tmp_path / "short.csv.gz"
    short.write_bytes(gzip.compress(b"".join(rows[:ending] + rows[ending + 1 :])))
    done = subprocess.run(
        [sys.executable, "-m", "finality", "demo", "--data", str(short)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "differ from the truth" in done.stderr
