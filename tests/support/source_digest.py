"""Prints a hash over all events of all records under `tests/data` of the sources named on the command line.

Run as a program under different zones, locales and hash seeds: the hash must not change.
"""

from __future__ import annotations

import sys
from hashlib import sha256

from finality.core.event import encode_event
from finality.sources.registry import source_by_name
from support.mapped_files import DATA
from support.sourced import give

FILES = {
    "kubernetes": ("kubernetes/objects.ndjson.gz",),
    "github": ("github-actions/run-polls.ndjson.gz", "github-actions/webhooks.ndjson.gz"),
    "temporal": ("temporal/histories.ndjson.gz",),
    "slurm": ("slurm/sacct.log",),
}


def digest(names: list[str]) -> str:
    """Hash of everything that the records of these sources give, in file order."""
    total = sha256()
    for name in names:
        source = source_by_name(name)
        for file in FILES[name]:
            for reading in source.read(DATA / file):
                given = give(source, reading)
                for event in given.events:
                    total.update(encode_event(event))
                total.update(repr((given.unknown, given.code)).encode())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest(sys.argv[1:]))
