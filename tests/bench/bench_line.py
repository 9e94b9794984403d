"""The line on a real broker: what the client itself costs, ingest and reconciler as processes, and latency.

Everything runs in one go on one broker with the large JVM, brokers' CPU apart. The reconciler is given an input that
lies there already, so that its figure is its own; the bare loop reads the same topic through the same client.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench_bare import BareLoop
from bench_rows import Row, Table

from finality.cli.contract_commands import apply_contract
from finality.cli.process import SystemClock
from finality.cli.replay import send_files
from finality.cli.setup import apply_setup
from finality.cli.wiring import SiteHandle, open_site
from finality.core.logview import LogView
from finality.kafka.appender import KafkaAppender
from finality.kafka.reader import KafkaReader
from finality.kafka.tail import end_offsets, read_to_end
from finality.lab.demo import Service, packaged, service_command
from finality.lab.stack import LARGE_JVM, Stack
from finality.settings import load_context

__all__ = ["line"]

PARTITIONS = 4
EVENTS = 158_120
LIMIT_S = 180.0
JOBS = packaged("borg-jobs.csv.gz")


def line() -> list[Table]:
    """All rows of the line."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack.start(Path(folder), "bench", with_dr=False, jvm=LARGE_JVM, tied=True) as stack,
    ):
        site = _site(stack, "line")
        sent = send_files(site, "google-borg", [JOBS])
        ingest, ingest_s, ingest_wall = _until_input(stack, site, sent)
        rows = [_client(site), _bare(site)]
        bare = rows[1].value
        reconciler_cpu, reconciler_wall = _reconcile(stack, site)
        cost = reconciler_cpu * 1e6 / EVENTS
        rows += [
            Row(
                "ingest",
                ingest_s * 1e6 / sent,
                "µs/event",
                ingest_s * 1e6 / sent / bare,
                f"{sent / ingest_s:,.0f} events per CPU second",
            ),
            Row(
                "reconciler alone",
                cost,
                "µs/event",
                cost / bare,
                f"{EVENTS / reconciler_cpu:,.0f} events per CPU second",
            ),
            Row("reconciler alone, wall", EVENTS / reconciler_wall, "events/s"),
            Row("ingest, wall", sent / ingest_wall, "events/s"),
        ]
        assert ingest, "ingest took everything"
        rate = EVENTS / reconciler_wall / 2
        rows += _latency(stack, _site(stack, "latency"), rate)
    return [Table("The line on one real broker, one voter, 4 partitions", rows)]


def _site(stack: Stack, namespace: str) -> SiteHandle:
    """A namespace of its own, set up, with the sample's contract."""
    path = stack.home / f"{namespace}.toml"
    text = stack.context_path.read_text().replace('namespace = "finality"', f'namespace = "{namespace}"')
    path.write_text(text)
    context = load_context(str(path))
    apply_setup(context, PARTITIONS, "events", "primary", memory_days=3650)
    site = open_site(context, "primary")
    apply_contract(site, packaged("contracts/borg.yaml"))
    return site


def _service(stack: Stack, site: SiteHandle, name: str) -> Service:
    command = service_command("--config", site.context.path, "run", name)
    return Service(command, stack.home / f"{site.context.namespace}-{name}.log", os.environ)


def _until_input(stack: Stack, site: SiteHandle, sent: int) -> tuple[bool, float, float]:
    """Run ingest until all that was sent lies in the input: done, CPU seconds, wall seconds."""
    topic = site.names.topic("input")
    began = time.monotonic()
    ingest = _service(stack, site, "ingest")
    while sum(end_offsets(site.kafka, topic).values()) < sent + PARTITIONS:
        if ingest.failure() or time.monotonic() - began > LIMIT_S:
            return False, 1.0, 1.0
        time.sleep(0.05)
    wall = time.monotonic() - began
    ingest.stop()
    return True, ingest.cpu_s, wall


def _client(site: SiteHandle) -> Row:
    """What the client alone costs to hand the input over."""
    starts = dict.fromkeys(range(PARTITIONS), 0)
    reader = KafkaReader(site.kafka, site.names.topic("input"), starts, SystemClock(), dense=True)
    begin, count = time.process_time(), 0
    while count < EVENTS:
        count += len(reader.poll(2_000, 0.5))
    spent = time.process_time() - begin
    reader.close()
    return Row("client: receive", spent * 1e6 / count, "µs/event")


def _bare(site: SiteHandle) -> Row:
    """The bare loop over the same topic, its blocks appended to a topic that nobody reads."""
    starts = dict.fromkeys(range(PARTITIONS), 0)
    reader = KafkaReader(site.kafka, site.names.topic("input"), starts, SystemClock(), dense=True)
    appender = KafkaAppender(site.kafka, site.names.topic("deltas"))
    loop = BareLoop(lambda block: appender.append(0, None, block, ()))
    begin, count = time.process_time(), 0
    while count < EVENTS:
        records = reader.poll(2_000, 0.5)
        loop.feed(records)
        count += len(records)
    loop.publish()
    appender.flush(30)
    spent = time.process_time() - begin
    reader.close()
    appender.close()
    return Row("bare loop: receive, decode, fold, chain, append", spent * 1e6 / count, "µs/event", 1.0)


def _reconcile(stack: Stack, site: SiteHandle) -> tuple[float, float]:
    """Run the reconciler over the whole input: CPU and wall seconds until every known outcome is certified."""
    views = {partition: LogView(site.genesis_value, partition, site.home) for partition in range(PARTITIONS)}
    starts = dict.fromkeys(range(PARTITIONS), 0)
    reader = KafkaReader(site.kafka, site.names.topic("log"), starts, SystemClock(), dense=True)
    began = time.monotonic()
    service = _service(stack, site, "reconciler")
    outcomes = 0
    while outcomes < 50_034:
        assert not service.failure(), service.failure()
        assert time.monotonic() - began < LIMIT_S, f"{outcomes} of 50,034 outcomes after {LIMIT_S} s"
        for record in reader.poll(100, 0.2):
            entries = views[record.partition].read(record)
            outcomes += sum(b'"kind":"outcome"' in row.entry for row in entries)
    wall = time.monotonic() - began
    service.stop()
    reader.close()
    return service.cpu_s, wall


def _latency(stack: Stack, site: SiteHandle, rate: float) -> list[Row]:
    """Append time of an input record to append time of the block that ends with it, at half load, in ms."""
    services = [_service(stack, site, "reconciler"), _service(stack, site, "ingest")]
    time.sleep(8)  # leaders are elected before the load begins
    short = stack.home / "short.csv"
    rows = JOBS.read_bytes()
    import gzip

    lines = gzip.decompress(rows).splitlines(keepends=True)
    count = int(min(len(lines), max(rate, 500) * 10))
    short.write_bytes(b"".join(lines[:count]))
    send_files(site, "google-borg", [short], rate=max(rate, 500))
    time.sleep(2)
    for service in services:
        service.stop()
    found = []
    for partition in range(PARTITIONS):
        times = [record.timestamp for record in read_to_end(site.kafka, site.names.topic("input"), partition)]
        view = LogView(site.genesis_value, partition, site.home)
        for record in read_to_end(site.kafka, site.names.topic("log"), partition):
            for row in view.read(record):
                if 0 < row.position <= len(times):
                    found.append(max(0, record.timestamp - times[row.position - 1]))
    found.sort()
    note = f"{rate:,.0f} events/s offered, {len(found):,} entries"
    return [
        Row("latency p50", found[len(found) // 2], "ms", None, note),
        Row("latency p99", found[len(found) * 99 // 100], "ms", None, note),
    ]
