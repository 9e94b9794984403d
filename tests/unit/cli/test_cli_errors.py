"""What goes wrong is one line that says what, where and what to do; the exit code tells a script the kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.command import Ended, finality
from support.mapped_files import DATA

CONTEXT = """
[sites.primary]
kafka = {"bootstrap.servers" = "127.0.0.1:1"}
redis = {url = "redis://127.0.0.1:1/0"}
"""
HALF = (DATA / "kubernetes" / "objects.ndjson.gz").read_bytes()[:4_000]
CONTRACT = """
apiVersion: finality.dev/v1alpha1
kind: StatefulJob
metadata: {name: short}
spec: {targetState: {phase: SUCCEEDED}}
"""


def one_line(done: Ended) -> str:
    """The only line on standard error; standard output is empty."""
    assert done.out == ""
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1, done.err
    assert done.err.startswith("finality: ")
    return done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("jobs", "lst"), "Did you mean 'list'?"),
        (("verfy",), "Did you mean 'verify'?"),
        (("jobs", "list", "--jsn"), "--json"),
        (("run", "injest"), "'ingest'"),
        (("sources", "check"), "Missing argument 'files'"),
        (("stack", "up", "--brokers", "many"), "--brokers"),
        (("--config", "absent.toml", "jobs", "list"), "absent.toml"),
        (("sources", "check", "--source", "slurn", "file"), "'slurm'"),
        (("sources", "check", "--limit", "-1", "file"), "--limit"),
    ],
)
def test_wrong_usage_is_2_with_a_suggestion(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = finality(*words, folder=tmp_path)
    assert (done.code, says in one_line(done)) == (2, True), done


@pytest.mark.parametrize("words", [(), ("jobs",)])
def test_a_bare_group_shows_its_help_once(words: tuple[str, ...], tmp_path: Path) -> None:
    done = finality(*words, folder=tmp_path)
    assert (done.code, (done.out + done.err).count("Usage:")) == (2, 1)


@pytest.mark.parametrize("words", [("jobs", "list"), ("verify",), ("setup", "check"), ("run", "ingest", "--wait", "0")])
def test_no_site_at_all_is_3(words: tuple[str, ...], tmp_path: Path) -> None:
    done = finality(*words, folder=tmp_path)
    assert (done.code, "finality stack up" in one_line(done)) == (3, True), done


@pytest.mark.parametrize("words", [("setup", "check"), ("verify",)])
def test_brokers_that_cannot_be_reached_are_3(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(CONTEXT)
    done = finality("--config", "sites.toml", *words, folder=tmp_path)
    assert (done.code, "127.0.0.1:1" in one_line(done)) == (3, True), done


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "is no TOML"),
        ("[sites.primary]\nredis = {}\n", "kafka"),
        (CONTEXT.replace("kafka", "kafak"), "kafak"),
        ("namespce = 'x'\n" + CONTEXT, "did you mean 'namespace'"),
        ("", "no site"),
    ],
)
def test_a_wrong_context_is_2_and_names_the_place(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(text)
    done = finality("jobs", "list", folder=tmp_path, FINALITY_CONFIG="sites.toml")
    line = one_line(done)
    assert (done.code, says in line or "sites" in line, "sites.toml" in line) == (2, True, True), done


def test_the_trace_is_shown_with_debug_only(tmp_path: Path) -> None:
    assert "Traceback" not in finality("jobs", "list", folder=tmp_path).err
    shown = finality("--debug", "jobs", "list", folder=tmp_path)
    assert (shown.code, "Traceback" in shown.err, shown.err.splitlines()[-1][:10]) == (3, True, "finality: ")


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (None, 3, "No such file"),
        (b"", 2, "empty"),
        (bytes(range(256)) * 40, 2, "no source knows"),
        (b"just words\nand more\n", 2, "no source knows"),
        (b"{}\n[]\n", 2, "no source knows"),
        (HALF, 2, "damaged gzip"),
    ],
    ids=["absent", "empty", "junk", "prose", "bare-json", "torn-gzip"],
)
def test_a_file_that_cannot_be_mapped_is_one_line(content: bytes | None, code: int, says: str, tmp_path: Path) -> None:
    name = "events.gz" if content and content[:2] == b"\x1f\x8b" else "events.ndjson"
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = finality("sources", "check", name, folder=tmp_path)
    line = one_line(done)
    assert (done.code, says in line, name in line) == (code, True, True), done


@pytest.mark.parametrize("words", [("sources", "check"), ("contracts", "check")])
def test_a_directory_is_no_file(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = finality(*words, "folder", folder=tmp_path)
    assert (done.code, "irectory" in one_line(done)) == (3, True), done


def test_rehearsals_name_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(CONTRACT)
    (tmp_path / "bad.yaml").write_text(CONTRACT.replace("targetState", "targetStat"))
    log = DATA / "slurm" / "sacct.log"
    cases = [
        (("bad.yaml", log, "--source", "slurm"), 2, "targetState"),
        (("absent.yaml", log, "--source", "slurm"), 3, "absent.yaml"),
        (("short.yaml", "absent.log", "--source", "slurm"), 3, "absent.log"),
        (("short.yaml", log, "--source", "slrm"), 2, "'slurm'"),
    ]
    for words, code, says in cases:
        done = finality("contracts", "dry-run", *words, folder=tmp_path)
        assert (done.code, says in one_line(done)) == (code, True), done


def test_a_reader_who_leaves_early_is_no_error(tmp_path: Path) -> None:
    path = DATA / "kubernetes" / "objects.ndjson.gz"
    words = [sys.executable, "-m", "finality", "sources", "check", "--json", str(path)]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(120), said) == (0, b"")
