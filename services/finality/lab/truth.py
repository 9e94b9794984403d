"""The known truth of the Borg sample, computed from its rows alone.

Shares nothing with the sources or the fold: rows are grouped by job, sorted by (time, code) as Google's description of
the trace says, and judged against "succeeded, and ran at most one hour".

Source: google/cluster-data, ClusterData2011_2.md; `data/NOTICE`.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Truth", "truth_of_rows", "unpack_rows"]

_HOUR_US = 3_600_000_000
_PHASES = {"2": "FAILED", "3": "FAILED", "4": "SUCCEEDED", "5": "CANCELLED", "6": "INCONCLUSIVE"}


class Truth(NamedTuple):
    """How one job ended. outcome "": it is still open."""

    phase: str
    outcome: str
    late: bool


def unpack_rows(packed: bytes) -> list[bytes]:
    """Rows of a gzipped CSV file."""
    return gzip.decompress(packed).splitlines()


def truth_of_rows(rows: Iterable[bytes]) -> dict[str, Truth]:
    """Truth by Borg job id. Columns: time (µs, 0 = unknown), missing-info, job id, event code, class."""
    histories: dict[str, list[tuple[int, int]]] = {}
    text = io.StringIO(b"\n".join(rows).decode())
    for row in csv.reader(text):
        histories.setdefault(row[2], []).append((int(row[0]), int(row[3])))
    return {job: _judge(sorted(history)) for job, history in histories.items()}


def _judge(history: list[tuple[int, int]]) -> Truth:
    states = [(time, code) for time, code in history if code not in (7, 8)]
    time, code = states[-1]
    phase = _PHASES.get(str(code))
    if phase is None:
        return Truth("RUNNING" if code == 1 else "PENDING", "", False)
    if phase == "CANCELLED":
        return Truth(phase, "CANCELLED", False)
    if phase != "SUCCEEDED":
        return Truth(phase, "VIOLATED", False)
    starts = [at for at, what in states if what == 1 and at > 0]
    if not starts or time <= 0:
        return Truth(phase, "UNPROVEN", False)
    late = time - max(starts) > _HOUR_US
    return Truth(phase, "VIOLATED" if late else "SATISFIED", late)
