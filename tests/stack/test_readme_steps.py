"""The README's step-by-step block, line by line in one shell, on a stack of its own; and the documents that commands
print about a running site."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended, faults_of, finality
from support.readme import block_with, checkout

LINES = block_with("stack up").lines
KEY = "default/google-borg/default/job/6132986890"
SECONDS = 300


class Shell:
    """One shell that is told lines, as a person would type them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "shell.log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FINALITY_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash"], cwd=folder, env=clean, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self._told = 0

    def tell(self, line: str) -> int:
        """Type a line; the exit code once the shell is ready for the next."""
        self._told += 1
        mark = self.folder / f"line-{self._told}"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\necho $? > {mark.name}.new; mv {mark.name}.new {mark.name}\n".encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + SECONDS
        while not mark.exists():
            assert time.monotonic() < deadline, f"{line}: no end\n{self.said()}"
            assert self._process.poll() is None, self.said()
            time.sleep(0.05)
        return int(mark.read_text())

    def said(self) -> str:
        """All that was printed so far."""
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """End it with everything that it started in the background."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell that has gone through the block up to `replay`."""
    found = Shell(checkout(tmp_path_factory.mktemp("readme")))
    try:
        for line in LINES[: _place("replay") + 1]:
            assert tell(found, line) == 0, f"{line}\n{found.said()}"
        yield found
    finally:
        found.tell(".venv/bin/finality stack down --delete")
        found.close()


def _place(words: str) -> int:
    (place,) = [place for place, line in enumerate(LINES) if words in line]
    return place


def ask(shell: Shell, *words: object) -> Ended:
    """A command's answer; one that could not reach a starved broker (exit 3) is asked again, as a script would."""
    deadline = time.monotonic() + SECONDS
    while True:
        done = finality(*words, folder=shell.folder)
        if done.code != 3 or time.monotonic() > deadline:
            return done


def tell(shell: Shell, line: str) -> int:
    """The same for a line of the block that may be run twice."""
    deadline = time.monotonic() + SECONDS
    while True:
        code = shell.tell(line)
        if code != 3 or time.monotonic() > deadline or not re.search(r"finality (setup|contracts|jobs|verify)", line):
            return code


def document_of(shell: Shell, name: str, *words: str) -> Any:
    """What a command prints with --json: one document of its schema, and nothing beside it."""
    done = ask(shell, *words, "--json")
    assert (done.code, done.err) == (0, ""), done
    assert faults_of(name, done.document) == []
    return done.document


def all_jobs(shell: Shell) -> dict[str, Any]:
    """The listing, once all 45 jobs are in it."""
    deadline = time.monotonic() + SECONDS
    while True:
        found: dict[str, Any] = document_of(shell, "jobs-list", "jobs", "list", "--limit", "0")
        if sum(bool(job["outcome"]) for job in found["jobs"]) == 42 and found["total"] == 45:
            return found
        assert time.monotonic() < deadline, (found, shell.said())
        time.sleep(0.5)


def test_listing_shows_every_job(shell: Shell) -> None:
    jobs = all_jobs(shell)["jobs"]
    assert {job["contract"] for job in jobs} == {"borg"}
    few = document_of(shell, "jobs-list", "jobs", "list", "--outcome", "violated", "--limit", "3")
    assert (few["total"], len(few["jobs"])) == (38, 3)
    people = ask(shell, "jobs", "list", "--limit", "5")
    assert people.code == 0
    assert max(map(len, people.out.splitlines())) <= 100


def test_a_job_shows_its_proof(shell: Shell) -> None:
    all_jobs(shell)
    job = document_of(shell, "jobs-show", "jobs", "show", KEY)
    assert (job["outcome"], job["delta"]["phase"]) == ("VIOLATED", "UNMET")
    assert json.loads(job["proof"]["entry"])["job"] == KEY
    assert job["proof"]["voters"] == ["r1"]
    people = ask(shell, "jobs", "show", KEY)
    assert (people.code, job["proof"]["chain"] in people.out) == (0, True)


def test_wrong_words_are_named(shell: Shell) -> None:
    for words, says in (
        (("jobs", "list", "--outcome", "VIOLTED"), "VIOLATED"),
        (("verify", "--partition", "4"), "0 to 3"),
        (("verify", "--site", "primry"), "primary"),
    ):
        done = ask(shell, *words)
        assert (done.code, says in done.err, done.err.count("\n")) == (2, True, 1), done


def test_wrong_keys_are_named(shell: Shell) -> None:
    absent = ask(shell, "jobs", "show", "default/google-borg/default/job/1")
    assert (absent.code, "finality jobs list" in absent.err) == (2, True)
    assert ask(shell, "jobs", "show", "no-key").code == 2


def test_the_refold_agrees(shell: Shell) -> None:
    all_jobs(shell)
    verdict = document_of(shell, "verify", "verify")
    assert (verdict["ok"], len(verdict["partitions"])) == (True, 4)
    assert document_of(shell, "verify", "verify", "--partition", "2")["partitions"][0]["partition"] == 2


def test_set_up_contracts_and_stack_are_told(shell: Shell) -> None:
    assert document_of(shell, "setup-check", "setup", "check") == {"differences": []}
    assert (
        document_of(shell, "setup-apply", "setup", "apply", "--partitions", "4", "--log-time", "events")["written"]
        == {}
    )
    listed = document_of(shell, "contracts-list", "contracts", "list")
    assert [row["name"] for row in listed["contracts"]] == ["borg"]
    states = document_of(shell, "stack-status", "stack", "status")
    assert {row["state"] for row in states["processes"]} == {"ready"}


def test_the_rest_of_the_block_works(shell: Shell) -> None:
    """Last in this file: it ends with the stack's end."""
    all_jobs(shell)
    for line in LINES[_place("replay") + 1 :]:
        assert tell(shell, line) == 0, f"{line}\n{shell.said()}"
    assert not (shell.folder / ".finality" / "stack" / "default").exists()
    assert "Traceback" not in shell.said()
