"""Contracts can be looked at and rehearsed before anything runs: faults by line, outcomes by count."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import faults_of, finality
from support.mapped_files import DATA, SHIPPED

CONTRACTS = sorted((SHIPPED / "contracts").glob("*.yaml"))
BORG = SHIPPED / "contracts" / "borg.yaml"
KNOWN = {"CANCELLED": 19_570, "OPEN": 4_008, "SATISFIED": 28_770, "UNPROVEN": 75, "VIOLATED": 1_619}


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.name)
def test_packaged_contracts_have_no_fault(path: Path, tmp_path: Path) -> None:
    done = finality("contracts", "check", path, "--json", folder=tmp_path)
    assert (done.code, faults_of("contracts-check", done.document)) == (0, [])
    assert [fault for row in done.document["files"] for fault in row["faults"] if not fault["warning"]] == []


def test_every_fault_of_a_file_is_a_line_that_editors_jump_to(tmp_path: Path) -> None:
    text = BORG.read_text().replace("settle: none", "setle: none").replace("runTime: 1h", "runTime: 1 fortnight")
    (tmp_path / "bad.yaml").write_text(text)
    done = finality("contracts", "check", "bad.yaml", folder=tmp_path)
    assert done.code == 2
    lines = done.out.splitlines()
    assert len(lines) == 2, done.out
    assert any(line.startswith("bad.yaml:8: ") and "runTime" in line for line in lines), done.out
    assert any(line.startswith("bad.yaml:9: ") and "settle" in line for line in lines), done.out
    document = finality("contracts", "check", "bad.yaml", "--json", folder=tmp_path)
    assert (document.code, document.err, faults_of("contracts-check", document.document)) == (2, "", [])
    assert [row["contract"] for row in document.document["files"]] == [None]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"- 1\n- 2\n", b"{", b"a: b\n" * 300_000])
def test_what_is_no_contract_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    done = finality("contracts", "check", "bad.yaml", folder=tmp_path)
    assert (done.code, done.out.startswith("bad.yaml:"), done.err) == (2, True, "")


def test_a_rehearsal_of_all_borg_jobs_gives_the_known_outcomes(tmp_path: Path) -> None:
    words = ("contracts", "dry-run", BORG, SHIPPED / "borg-jobs.csv.gz", "--source", "google-borg")
    done = finality(*words, "--json", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert faults_of("contracts-dry-run", done.document) == []
    assert done.document == {"by_outcome": KNOWN, "jobs": 54_042, "selected": 54_042, "rejected": 0}


def test_a_rehearsal_for_people_counts_what_is_selected(tmp_path: Path) -> None:
    words = ("contracts", "dry-run", BORG, DATA / "google-borg-2011" / "job-events-rare.csv")
    done = finality(*words, "--source", "google-borg", folder=tmp_path)
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["outcome", "jobs"]
    assert "45 of 45 jobs are selected by borg; 0 records rejected" in done.err
