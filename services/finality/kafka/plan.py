"""What the topics of a site must look like, and how a genesis is made from options. Pure: nothing here asks a broker.

Sizes are a ladder. A record grows on its way: ingest wraps a raw record, a copier adds a header, a dead letter carries
a whole input record. So each topic takes 64 KiB more than the one that it is derived from, and a local writer keeps
64 KiB below its own topic's limit, so that the other site's copy still fits.

Retention of the time-limited topics is a least value; keeping more is no difference.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from finality.core.errors import UsageError
from finality.core.genesis import Genesis, LogTimeMode, Parameters, Voters
from finality.core.names import PLAIN_TOPICS, Names

__all__ = [
    "DEFAULT_PARTITIONS",
    "Difference",
    "TopicPlan",
    "compare",
    "genesis_differences",
    "new_genesis",
    "topics",
    "write_limit",
]

DEFAULT_PARTITIONS = 8
_STEP = 65_536
_RAW = 1_048_588  # Kafka's default of max.message.bytes
_TOPIC_LIMITS = {
    "raw": _RAW,
    "control": _RAW,
    "input": _RAW + 2 * _STEP,
    "log": _RAW + _STEP,
    "state": _RAW + 2 * _STEP,
    "deltas": _RAW + 2 * _STEP,
    "commands": _RAW + 2 * _STEP,
    "outcomes": _RAW + 2 * _STEP,
    "dead-letters": _RAW + 3 * _STEP,
}
_DAY_MS = 86_400_000
_RETENTION_MS = {"input": 7 * _DAY_MS, "log": 400 * _DAY_MS, "control": -1}
_PLAIN_RETENTION_MS = 7 * _DAY_MS
_AT_LEAST = ("retention.ms", "min.compaction.lag.ms")
_SINCE_3_6 = "message.timestamp.before.max.ms"  # a topic option that older brokers do not have (KIP-937)


class TopicPlan(NamedTuple):
    """One topic as it should be. foreign: filled from outside; then only its existence and its size are ours to ask."""

    name: str
    partitions: int
    replication: int
    config: dict[str, str]
    foreign: bool = False


class Difference(NamedTuple):
    """One thing that is not as it should be. setting: an option of the topic, or `topic`, `partitions`, …"""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found}, should be {self.wanted}"


def write_limit(kind: str) -> int:
    """Largest record, in bytes as a broker counts them, that a local writer may append to a topic of this kind."""
    return _TOPIC_LIMITS[kind] - (_STEP if kind in ("input", "log") else 0)


def topics(names: Names, partitions: int, brokers: int, sources: Iterable[str] = ()) -> list[TopicPlan]:
    """All topics of one site and generation. brokers: how many the cluster has; three or more carry three replicas."""
    replication, in_sync = (3, 2) if brokers >= 3 else (1, 1)
    plans = [_plan(names.control, "control", 1, replication, in_sync)]
    plans += [_plan(names.raw(source), "raw", partitions, replication, in_sync) for source in sources]
    for kind in ("input", "log", "state", *PLAIN_TOPICS):
        plans.append(_plan(names.topic(kind), kind, partitions, replication, in_sync))
    return plans


def _plan(name: str, kind: str, partitions: int, replication: int, in_sync: int) -> TopicPlan:
    config = {
        "min.insync.replicas": str(in_sync),
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": str(_TOPIC_LIMITS[kind]),
        "retention.bytes": "-1",
        "compression.type": "producer" if kind == "raw" else "lz4",
        _SINCE_3_6: "9223372036854775807",  # copies keep the time of the original
    }
    if kind == "state":
        config |= {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}
    else:
        retention = _RETENTION_MS.get(kind, _PLAIN_RETENTION_MS)
        config |= {"cleanup.policy": "delete", "retention.ms": str(retention)}
    return TopicPlan(name, partitions, replication, config, kind == "raw")


def compare(plan: TopicPlan, partitions: int, replication: int, config: Mapping[str, str]) -> list[Difference]:
    """What differs between a topic and its plan. More replicas and longer retention than planned are welcome."""
    found: list[Difference] = []
    size = "max.message.bytes"
    if plan.foreign:
        if int(config.get(size, "0")) > int(plan.config[size]):
            found.append(Difference(plan.name, size, config[size], f"at most {plan.config[size]}"))
        return found
    if partitions != plan.partitions:
        found.append(Difference(plan.name, "partitions", str(partitions), str(plan.partitions)))
    if replication < plan.replication:
        found.append(Difference(plan.name, "replicas", str(replication), str(plan.replication)))
    for name, wanted in plan.config.items():
        if name == "min.insync.replicas" and replication >= 3:
            wanted = "2"  # a topic made for three replicas stays so while a broker is away
        value = config.get(name)
        if value is None and name == _SINCE_3_6:
            found.append(Difference(plan.name, "broker version", "below 3.6", "3.6 or newer"))
        elif value is None:
            found.append(Difference(plan.name, name, "unknown", wanted))
        elif not _fits(name, value, wanted):
            found.append(Difference(plan.name, name, value, wanted))
    return found


def _fits(name: str, value: str, wanted: str) -> bool:
    if name in _AT_LEAST and wanted != "-1":
        return value == "-1" or int(value) >= int(wanted)
    return value == wanted


def new_genesis(
    voters: Mapping[str, Sequence[str]],
    active: str,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    log_time: LogTimeMode = "ticks",
    start_ns: int = 0,
    parameters: Parameters | None = None,
) -> Genesis:
    """A genesis with a fresh nonce. voters: replicas by site, the quorum of each site is their majority.

    start_ns: log time at the beginning, ns since the epoch; ticks rise from there by at most a minute each, so it is
    the wall clock's time where `log_time` is `ticks`.
    """
    if log_time == "ticks" and start_ns <= 0:
        raise UsageError("log time by ticks begins at the present time: give start_ns")
    fixed = parameters or Parameters(log_time=log_time)
    if fixed.log_time != log_time:
        raise UsageError(f"log_time is {log_time!r}, the parameters say {fixed.log_time!r}")
    sites = tuple(Voters(len(voters[site]) // 2 + 1, site, tuple(voters[site])) for site in sorted(voters))
    return Genesis(1, str(start_ns), secrets.token_hex(16), fixed, partitions, active, sites)


def genesis_differences(found: Genesis, wanted: Genesis) -> list[str]:
    """Where the genesis that is there contradicts the options. Nonce and time of birth are nobody's wish."""
    by_chance = ("nonce", "log_time")
    return [
        f"{name} is {getattr(found, name)!r}, asked for was {getattr(wanted, name)!r}"
        for name in Genesis.__struct_fields__
        if name not in by_chance and getattr(found, name) != getattr(wanted, name)
    ]
