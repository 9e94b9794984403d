"""The Borg sample as accepted input of one partition: genesis, at most one contract, then one record an event.

Built as ingest builds it (kind and source coordinates in headers, the job's key as record key), without any broker.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from finality.core.canonical import encode
from finality.core.event import Event, encode_event
from finality.core.genesis import Genesis, Parameters, Voters, encode_genesis
from finality.core.inputlog import Home
from finality.core.records import COMMAND, EVENT, GENESIS, KIND, SOURCE, Coordinate, Record, SourceMark, encode_source
from finality.core.replica import Replica
from finality.sources.base import SourceSettings
from finality.sources.google_borg import GoogleBorg

SAMPLE = Path(__file__).parents[2] / "services" / "finality" / "data" / "borg-jobs.csv.gz"
TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"
HOME = Home("primary", 1)
CONTRACT = {
    "apiVersion": "finality.dev/v1alpha1",
    "kind": "StatefulJob",
    "metadata": {"name": "borg"},
    "spec": {
        "selector": {"source": "google-borg", "kind": "job"},
        "targetState": {"phase": "SUCCEEDED"},
        "limits": {"runTime": "1h"},
        "settle": "none",
    },
}


class Written(NamedTuple):
    """One event as it goes into a record: key and value."""

    key: bytes
    value: bytes


class Told(NamedTuple):
    """What a replica said of a history: its chain, its counts, and what it says of each job in the end."""

    chain: str
    entries: int
    digest: str
    kinds: Counter[str]
    outcomes: Counter[str]
    jobs: dict[str, tuple[str, str]]  # job -> (phase, effective outcome), open jobs left out


def sample_events() -> list[Written]:
    """All events of the sample, in file order."""
    source = GoogleBorg(SourceSettings())
    rows = gzip.decompress(SAMPLE.read_bytes()).splitlines()
    return [written(event) for row in rows for event in source.map(row, ()).events]


def written(event: Event) -> Written:
    """An event as ingest writes it."""
    return Written(event.job.encode(), encode_event(event))


def genesis(log_time: str = "events", **more: object) -> bytes:
    """A genesis of one partition and one voter, with a memory that forgets nothing."""
    parameters = msgspec.convert({"log_time": log_time, "memory": str(3650 * 86_400 * 10**9), **more}, Parameters)
    sites = (Voters(1, "primary", ("r1",)), Voters(1, "dr", ("r1",)))
    return encode_genesis(
        Genesis(
            generation=1,
            log_time="0",
            nonce="00" * 16,
            parameters=parameters,
            partitions=1,
            site="primary",
            sites=sites,
        )
    )


def command(number: int, document: object) -> Record:
    """A contract command, to be numbered by the control topic."""
    value = encode({"document": document, "epoch": 1, "number": number, "op": "contract"})
    return Record(0, 0, None, value, [(KIND, COMMAND)])


def head(first: bytes, contract: object | None = None) -> list[Record]:
    """Genesis, and the contract where there is one."""
    begin = [Record(0, 0, None, first, [(KIND, GENESIS)])]
    return begin if contract is None else [*begin, command(1, contract)]


def event_records(events: Iterable[Written], offset: int = 0) -> list[Record]:
    """Events with source coordinates of one source partition, from `offset` on."""
    records = []
    before: Coordinate | None = None
    for number, (key, value) in enumerate(events, offset):
        at = Coordinate(number, 0)
        mark = encode_source(SourceMark(TOPIC, 0, 0, at, before, offset))
        records.append(Record(0, number, key, value, [(KIND, EVENT), (SOURCE, mark)]))
        before = at
    return records


def tell(replica: Replica, first: bytes, records: Sequence[Record]) -> Told:
    """Feed records and say what came of it. first: the genesis that the replica was made with."""
    assert replica.genesis == msgspec.json.decode(first, type=Genesis)
    for record in records:
        replica.feed(record)
    kinds: Counter[str] = Counter()
    jobs: dict[str, tuple[str, str]] = {}
    for row in replica.window:
        kinds[row.kind] += 1
        if row.kind in ("outcome", "amendment"):
            entry = msgspec.json.decode(row.entry)
            jobs[entry["job"]] = (entry["phase"], entry["outcome"])
    digest, _ = replica.fold.state.digest()
    outcomes = Counter(outcome for _, outcome in jobs.values())
    return Told(replica.chain.hex(), replica.number, digest, kinds, outcomes, jobs)
