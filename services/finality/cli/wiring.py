"""Builds services from a context: the only place where loops meet drivers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import typer

from finality import __version__
from finality.cli.process import SystemClock
from finality.core.errors import UsageError
from finality.core.genesis import Genesis
from finality.core.inputlog import Home
from finality.core.logview import LogView
from finality.core.names import Names
from finality.core.ports import NoProbe, Probe
from finality.core.replica import Replica
from finality.kafka.admin import read_genesis
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import KafkaSettings
from finality.kafka.derived import find_input, plain_tail
from finality.kafka.group import KafkaGroupReader
from finality.kafka.plan import write_limit
from finality.kafka.reader import KafkaReader
from finality.kafka.transaction import KafkaTransactionSink
from finality.ledger.redis import RedisLedger
from finality.ledger.server import RedisOptions
from finality.settings import Context, load_context
from finality.sources.base import Headers, Source, SourceSettings
from finality.sources.registry import build, detect
from finality.workers.ingest import Ingest, PartitionKey, by_job, by_root
from finality.workers.projector import Projector
from finality.workers.reconciler import Reconciler, ReconcilerOptions, ReconcilerPorts
from finality.workers.reconciler.seat import Identity

__all__ = ["SiteHandle", "context_of", "ingest_of", "open_site", "projector_of", "reconciler_of"]


class SiteHandle:
    """One site of a context, with its genesis read from its control topic."""

    def __init__(self, context: Context, site: str) -> None:
        self.context = context
        self.name = site
        self.kafka = KafkaSettings.of(context.site(site).kafka)
        self.redis = context.site(site).redis
        record = read_genesis(self.kafka, Names.of(context.namespace))
        self.genesis_value = record.value
        self.genesis: Genesis = record.genesis
        self.names = Names.of(context.namespace, 1)
        self.home = Home(site, 1)


def context_of(ctx: typer.Context) -> Context:
    """The context that this command was given or finds."""
    return load_context((ctx.obj or {}).get("config"))


def open_site(context: Context, site: str) -> SiteHandle:
    """A site that is set up. Raises `UsageError` or `DependencyError`."""
    return SiteHandle(context, site)


def slot_of(slot: str, partitions: int) -> list[int]:
    """Partitions of slot `k/n`: those with partition mod n = k. Raises `UsageError`."""
    first, _, count = slot.partition("/")
    if not (first.isdigit() and count.isdigit() and 0 <= int(first) < int(count)):
        raise UsageError(f"slot {slot!r}: write k/n with 0 <= k < n, such as 0/1")
    return [partition for partition in range(partitions) if partition % int(count) == int(first)]


def reconciler_of(
    site: SiteHandle,
    replica: str,
    slot: str,
    probe: Probe | None = None,
    boot: str = "",
    options: ReconcilerOptions | None = None,
) -> Reconciler:
    """A reconciler on the real drivers."""
    clock = SystemClock()
    boot = boot or secrets.token_hex(8)
    partitions = slot_of(slot, site.genesis.partitions)
    if not partitions:
        raise UsageError(f"slot {slot} holds none of the {site.genesis.partitions} partitions")
    names = site.names
    starts = dict.fromkeys(partitions, 0)
    replicas = {partition: Replica(site.genesis_value, partition, site.home) for partition in partitions}
    ports = ReconcilerPorts(
        input=KafkaReader(site.kafka, names.topic("input"), starts, clock, dense=True),
        log=KafkaReader(site.kafka, names.topic("log"), starts, clock, dense=True),
        control=KafkaReader(site.kafka, names.control, {0: 0}, clock, dense=True),
        input_appender=KafkaAppender(site.kafka, names.topic("input"), max_bytes=write_limit("input")),
        log_appender=KafkaAppender(site.kafka, names.topic("log"), max_bytes=write_limit("log")),
        ledger=_ledger_of(site, replica, boot),
        clock=clock,
        probe=probe if probe is not None else NoProbe(),
    )
    me = Identity(replica, boot, __version__, site.context.fingerprint)
    return Reconciler(replicas, me, ports, options)


def projector_of(site: SiteHandle, slot: str, probe: Probe | None = None) -> Projector:
    """A projector on the real drivers."""
    clock = SystemClock()
    kafka, names = site.kafka, site.names
    partitions = slot_of(slot, site.genesis.partitions)
    views = {partition: LogView(site.genesis_value, partition, site.home) for partition in partitions}

    def open_sink(topic: str, partition: int) -> KafkaTransactionSink:
        name = names.topic(topic)
        return KafkaTransactionSink(
            kafka,
            name,
            partition,
            names.transactional_id("projector", topic, partition),
            lambda: plain_tail(kafka, name, partition),
            max_bytes=write_limit(topic),
        )

    return Projector(
        views,
        KafkaReader(kafka, names.topic("log"), dict.fromkeys(partitions, 0), clock, dense=True),
        open_sink,
        lambda partition, position, digest: find_input(kafka, names.topic("input"), partition, position, digest),
        clock,
        probe if probe is not None else NoProbe(),
    )


def _ledger_of(site: SiteHandle, replica: str, boot: str) -> RedisLedger:
    """Redis keys carry the genesis nonce: topics made anew under an old name must not meet old votes."""
    names = site.names._replace(namespace=f"{site.names.namespace}.{site.genesis.nonce[:8]}")
    options = RedisOptions(username=site.redis.username, password=site.redis.password)
    ledger = RedisLedger(site.redis.all, names, site.name, replica, boot, options)
    ledger.check()
    return ledger


def ingest_of(site: SiteHandle, topics: Sequence[str] = (), probe: Probe | None = None) -> Ingest:
    """An ingest process on the real drivers. topics: raw topics to read; default all that exist."""
    clock = SystemClock()
    options = site.context.sources
    sources = build({name: SourceSettings(row.tenant, row.instance, row.zone) for name, row in options.items()})
    prefix = site.names.raw("")
    keys: dict[str, PartitionKey] = {
        site.names.raw(name): by_root if row.partition_by == "root" else by_job for name, row in options.items()
    }

    def choose(topic: str, value: bytes, headers: Headers) -> Source | None:
        pinned = sources.get(topic.removeprefix(prefix))
        return pinned if pinned is not None else detect(value, headers, sources.values())

    return Ingest(
        KafkaGroupReader(site.kafka, site.names.group("ingest"), prefix, topics),
        KafkaAppender(site.kafka, site.names.topic("input"), gapless=True, linger_ms=5, max_bytes=write_limit("input")),
        site.genesis.partitions,
        choose,
        clock,
        probe if probe is not None else NoProbe(),
        keys,
    )
