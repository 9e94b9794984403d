"""`finality contracts check`: one line per fault, and the exit code that scripts rely on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from contract_documents import HEAD, sample
from typer.testing import CliRunner

from finality.cli.contracts import app
from finality.core.errors import DependencyError


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(sample("nightly.yaml"), encoding="utf-8")
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(HEAD + "  limts: {}\n  settle: 30\n", encoding="utf-8")
    return path


def test_a_sound_contract_is_named_with_its_version(good: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(good)])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{good}: nightly-etl ")


def test_faults_are_a_line_each_and_the_exit_code_is_two(good: Path, bad: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(bad), str(good)])
    assert result.exit_code == 2
    assert result.stdout.splitlines()[:2] == [
        f"{bad}:5: spec.limts: is not a known key; did you mean 'limits'?",
        f"{bad}:6: spec.settle: 30 is not a text; add a unit, as in 30s",
    ]


def test_json_is_one_document_with_every_fault(good: Path, bad: Path) -> None:
    result = CliRunner().invoke(app, ["check", "--json", str(bad), str(good)])
    assert result.exit_code == 2
    first, second = json.loads(result.stdout)["files"]
    assert first["contract"] is None
    assert [(fault["line"], fault["path"]) for fault in first["faults"]] == [(5, "spec.limts"), (6, "spec.settle")]
    assert second["faults"] == []
    assert second["contract"]["expected"]["latency"] == "<= 800ms"


@pytest.mark.parametrize(("content", "reason"), [(b"a" * 300_000, "longer than"), (b"a\nb\xff", ":2: .*not UTF-8")])
def test_a_file_that_is_no_text_of_a_contracts_size_is_a_fault(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 2
    assert re.search(reason, result.stdout)


def test_a_file_that_cannot_be_read_is_a_dependency(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(tmp_path / "none.yaml")])
    assert isinstance(result.exception, DependencyError)
