"""The `finality` command as people run it: a process of its own, in a folder without any context."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from support.tree import ROOT

SECONDS = 180  # for one command on a busy machine


class Ended(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON document, and nothing else."""
        return json.loads(self.out)


def finality(*words: object, folder: Path, **environment: str) -> Ended:
    """Run a command in a folder."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FINALITY_")}
    done = subprocess.run(
        [sys.executable, "-m", "finality", *map(str, words)],
        cwd=folder,
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def faults_of(name: str, document: Any) -> list[str]:
    """Where a document leaves the schema `schemas/cli/NAME.json`."""
    schema = json.loads((ROOT / "schemas" / "cli" / f"{name}.json").read_text("utf-8"))
    found = jsonschema_rs.validator_for(schema).iter_errors(document)
    return [f"{'/'.join(map(str, fault.instance_path))}: {fault.message}" for fault in found]
