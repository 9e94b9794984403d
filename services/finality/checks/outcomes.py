"""What the certified log says of jobs, held against what they must come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from finality.checks.findings import Finding

__all__ = ["check_outcomes", "said_of_jobs"]

_SAYS = ("delta", "outcome", "amendment")


def said_of_jobs(entries: Iterable[bytes]) -> dict[str, tuple[str, str]]:
    """The latest word on every job: (phase, outcome) with amendments, ("", "") for one that is open.

    The phase of an open job is no more than what its last delta happened to be about, so it is left out.
    """
    said: dict[str, tuple[str, str]] = {}
    for entry in entries:
        document: dict[str, Any] = msgspec.json.decode(entry)
        if document["kind"] in _SAYS:
            outcome = str(document.get("outcome", ""))
            said[str(document["job"])] = (str(document.get("phase", "")) if outcome else "", outcome)
    return said


def check_outcomes(wanted: Mapping[str, tuple[str, str]], found: Mapping[str, tuple[str, str]]) -> list[Finding]:
    """Every job came to what it must come to."""
    findings = []
    for job in sorted(wanted.keys() | found.keys()):
        want, have = wanted.get(job), found.get(job)
        if want == have:
            continue
        name = "LOST" if have is None else "FOREIGN" if want is None else "FLIPPED"
        findings.append(Finding(name, job, f"{have} instead of {want}"))
    return findings
