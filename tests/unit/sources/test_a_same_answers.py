"""A source's answers do not depend on the machine: its zone, its locale, or the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.mapped_files import DATA, SHIPPED

DIGEST = """
import sys
from hashlib import sha256
from itertools import islice
from pathlib import Path
from finality.core.errors import Rejected
from finality.core.event import encode_event
from finality.sources.registry import source_by_name
total = sha256()
for name, file in zip(sys.argv[1::2], sys.argv[2::2]):
    source = source_by_name(name)
    for reading in islice(source.read(Path(file)), 4000):
        try:
            mapped = source.map(reading.value, reading.headers)
            total.update(b"".join(map(encode_event, mapped.events)) + repr(mapped.unknown).encode())
        except Rejected as refusal:
            total.update(repr((refusal.code, refusal.detail)).encode())
print(total.hexdigest())
"""
FILES = [
    *("openlineage", DATA / "openlineage" / "events.ndjson.gz"),
    *("dbt", DATA / "dbt" / "structured-logs.jsonl.gz"),
    *("google-borg", DATA / "google-borg-2011" / "job-events-rare.csv"),
    *("google-borg", SHIPPED / "borg-jobs.csv.gz"),
]


def digest(**surroundings: str) -> str:
    """Hash of everything the sources say, in a process of its own."""
    command = [sys.executable, "-c", DIGEST, *map(str, FILES)]
    done = subprocess.run(
        command, env=os.environ | surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def here() -> str:
    return digest(TZ="UTC", LC_ALL="C.UTF-8", PYTHONHASHSEED="0")


@pytest.mark.parametrize(
    "surroundings",
    [
        {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "1"},
        {"TZ": "America/St_Johns", "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "4294967295"},
    ],
    ids=["east", "west"],
)
def test_zone_locale_and_hash_seed_change_no_answer(here: str, surroundings: dict[str, str]) -> None:
    assert digest(**surroundings) == here
