"""The projector killed with -9 at every named step, paused, and doubled: plain topics are exactly the projection.

They are read by a foreign `read_committed` consumer that shares no code with the projector, and compared with the
certified entries of the log, one by one.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from finality.core.logview import LogView
from support.fault_case import Case
from support.plain_reader import PlainRecord, read_plain
from support.running import until
from support.workload import Workload, borg_rows

TOPICS = {
    "deltas": ("delta",),
    "commands": ("command",),
    "outcomes": ("outcome", "amendment"),
    "dead-letters": ("rejected", "beyond-memory"),
}


def expected(case: Case, partition: int) -> dict[str, list[tuple[int, str, bytes]]]:
    """(index, type, entry) of each plain topic, from the certified log."""
    view = LogView(case.site.genesis_value, partition, case.site.home)
    rows: dict[str, list[tuple[int, str, bytes]]] = {topic: [] for topic in TOPICS}
    for record in case.records("log", partition):
        for attested in view.read(record):
            kind = json.loads(attested.entry)["kind"]
            for topic, kinds in TOPICS.items():
                if kind in kinds or kind == "digest":
                    said = "mark" if kind == "digest" else kind
                    rows[topic].append((attested.number, f"dev.finality.{said}.v1", attested.entry))
    return rows


def plain(case: Case, servers: str, partition: int) -> dict[str, list[PlainRecord]]:
    return {topic: read_plain(servers, case.site.names.topic(topic), partition) for topic in TOPICS}


def differences(case: Case, servers: str) -> list[str]:
    """Where the plain topics are not the projection, as lines."""
    found = []
    for partition in range(case.site.genesis.partitions):
        wanted, there = expected(case, partition), plain(case, servers, partition)
        for topic in TOPICS:
            seen = [(row.index, row.type, row.entry or row.value) for row in there[topic]]
            if seen != wanted[topic]:
                found.append(f"{topic} {partition}: {len(seen)} records, {len(wanted[topic])} wanted")
    return found


@pytest.mark.parametrize("step", ["plain.submit:1", "plain.submit:4", "plain.committed:1", "plain.committed:4"])
def test_what_a_killed_projector_left_is_completed(case: Callable[..., Case], step: str) -> None:
    here = case()
    servers = here.kafka.servers
    work = Workload(borg_rows(300))
    here.launch("reconciler", "--lease-ms", "1000")
    load = here.feed_load(work, each=20)
    killed = here.launch("projector", "--at", f"{step}:kill")
    killed.ends(-signal.SIGKILL, meanwhile=load.step)
    here.launch("projector")
    here.await_outcomes(work, load)
    here.judge(work)
    here.launch("projector")
    until(lambda: not differences(here, servers), lambda: "; ".join(differences(here, servers)), patience_s=90)


def test_two_projectors_at_once_write_everything_once(case: Callable[..., Case]) -> None:
    here = case()
    servers = here.kafka.servers
    work = Workload(borg_rows(300))
    here.launch("reconciler", "--lease-ms", "1000")
    load = here.feed_load(work, each=20)
    for _ in range(2):
        here.launch("projector")
    here.await_outcomes(work, load)
    here.judge(work)
    here.launch("projector")
    until(lambda: not differences(here, servers), lambda: "; ".join(differences(here, servers)), patience_s=90)


def test_rejected_records_keep_their_bytes_and_their_neighbours(case: Callable[..., Case]) -> None:
    here = case()
    servers = here.kafka.servers
    rows = borg_rows(50)
    here.launch("reconciler", "--lease-ms", "1000")
    here.launch("ingest")
    here.launch("projector")
    work = Workload(rows)
    bad = [b"not,a,row", b"\xff\xfe broken"]
    load = here.raw_load(work, rows=[*rows[:20], *bad, *rows[20:]])
    here.await_outcomes(work, load)

    def letters() -> list[bytes | None]:
        found = [row for p in range(2) for row in plain(here, servers, p)["dead-letters"] if "mark" not in row.type]
        assert all(json.loads(row.entry)["code"] for row in found)
        return sorted([row.value or b"" for row in found])

    until(lambda: letters() == sorted(bad), lambda: f"dead letters are {letters()}", patience_s=90)
