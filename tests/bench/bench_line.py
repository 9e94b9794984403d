"""The line on real servers: what each service makes of a CPU second, and how long an outcome takes.

One broker with a full JVM, one Redis, four partitions, one voter; all 158,120 Borg events, against the built-in
contract. Ingest and reconciler run alone, one after the other, on topics that were filled before, so that each is
measured without waiting for the other; CPU seconds are those of our own process, its client's threads included, the
servers' apart. The bare loop reads the very same input topic and appends blocks too.

Latency is from the append of an input record to the read-back of the block that holds its entry, with the reconciler as
a process of its own, at half the rate at which it has just been seen to work; on two cores the broker, the sender and
the reader are part of that.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Message

from bench.bench_bare import BareLoop
from bench.bench_rows import Row, Table
from bench.bench_site import PARTITIONS, Clock, Follower, Spent, drive, new_site
from finality.cli.replay import send_files
from finality.cli.wiring import SiteHandle, ingest_of, reconciler_of
from finality.core.errors import Failed
from finality.core.jobkey import partition_of
from finality.core.records import Record
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import open_consumer, open_producer
from finality.kafka.reader import CONSUMER, KafkaReader
from finality.kafka.tail import end_offsets, read_to_end
from finality.lab.stack import Stack
from finality.lab.stack.broker import LARGE_JVM
from support.borg_history import SAMPLE, event_records, sample_events

__all__ = ["line"]

OUTCOMES = {"SATISFIED": 29_782, "CANCELLED": 19_570, "VIOLATED": 682}
_LATENCY_S = 15.0


class _Bench:
    """The measurements on one filled namespace. events: how many it holds."""

    def __init__(self, site: SiteHandle, events: int) -> None:
        self._site = site
        self._topic = site.names.topic("input")
        self.events = events
        self.rows: list[Row] = []
        self._bare = 0.0

    def say(self, name: str, spent: Spent, count: int, note: str = "") -> None:
        """A row of µs per event, with the rate."""
        cost = spent.cpu_s * 1e6 / count
        rates = f"{count / spent.cpu_s:,.0f}/CPU s, {count / spent.wall_s:,.0f}/s of wall time"
        times = cost / self._bare if self._bare else None
        self.rows.append(Row(name, cost, "µs", times, f"{rates}{'; ' if note else ''}{note}"))

    def ingest(self) -> None:
        """Raw topic to input topic."""
        ingest = ingest_of(self._site)
        spent = drive(ingest.step, lambda: ingest.counts["events"] >= self.events, "ingest")
        ingest.close()
        assert ingest.counts["rejected"] == 0
        self.say("ingest: receive, map, check, append", spent, self.events)

    def bare(self) -> None:
        """The bare loop over the input topic; it goes first, since all ratios are against it."""
        spent, loop = self._receive(BareLoop(self._blocks().produce_block))
        self._bare = spent.cpu_s * 1e6 / self.events
        self.say(
            "bare loop: receive, fold, append", spent, self.events, f"{loop.entries / self.events:.2f} entries/event"
        )

    def receive(self) -> None:
        """Receiving alone: the client itself, and our reader around it."""
        spent, _ = self._receive(None)
        self.say("client alone: receive, with headers", spent, self.events)
        starts = dict.fromkeys(range(PARTITIONS), 0)
        reader = KafkaReader(self._site.kafka, self._topic, starts, Clock(), dense=True)
        count = 0

        def step() -> None:
            nonlocal count
            count += len(reader.poll(1_000, 0.05))

        spent = drive(step, lambda: count >= self.events + PARTITIONS, "the reader")
        reader.close()
        self.say("our reader: receive", spent, self.events)

    def append(self, records: list[Record]) -> None:
        """Appending alone, to a topic that nobody reads."""
        topic = self._site.names.raw("canonical")
        raw, _ = open_producer(
            self._site.kafka, "bench", {"enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        )

        def produce() -> None:
            for number, record in enumerate(records):
                raw.produce(topic, record.value, record.key, partition=0, headers=list(record.headers))
                if number % 500 == 0:
                    raw.poll(0)
            assert raw.flush(60) == 0

        self.say("client alone: append, with headers", _once(produce), len(records))
        appender = KafkaAppender(self._site.kafka, topic, linger_ms=5, message_timeout_s=60)

        def append() -> None:
            for number, record in enumerate(records):
                appender.append(0, record.key, record.value, record.headers)
                if number % 500 == 0:
                    appender.poll()
            assert appender.flush(60) == 0

        self.say("our appender: append, with reports", _once(append), len(records))
        appender.close()

    def reconciler(self) -> float:
        """The reconciler alone on filled input; events per second of wall time. The outcomes must be the known ones."""
        ends = end_offsets(self._site.kafka, self._topic, list(range(PARTITIONS)))
        loop = reconciler_of(self._site, "r1", "0/1")
        replicas = [seat.replica for seat in loop.seats.values()]

        def done() -> bool:
            return all(replica.input.position >= ends[replica.partition] and not replica.window for replica in replicas)

        spent = drive(loop.step, done, "the reconciler")
        entries = sum(replica.tip.index for replica in replicas)
        loop.close()
        follower = Follower(self._site)
        found = follower.count()
        follower.close()
        assert found == Counter(OUTCOMES), f"the outcomes are not the known ones: {found}"
        note = f"{entries / self.events:.2f} entries/event, {follower.blocks} blocks"
        self.say("reconciler: receive, fold, vote, append, read back", spent, self.events, note)
        return self.events / spent.wall_s

    def _receive(self, loop: BareLoop | None) -> tuple[Spent, BareLoop]:
        consumer, _ = open_consumer(self._site.kafka, "bench", {**CONSUMER, "isolation.level": "read_uncommitted"})
        consumer.assign(_all_of(self._topic))
        count = 0
        kept = loop if loop is not None else BareLoop()

        def step() -> None:
            nonlocal count
            messages = consumer.consume(1_000, 0.2)
            pairs = _pairs(messages)
            count += len(pairs)
            if loop is not None:
                loop.feed(pairs)

        spent = drive(step, lambda: count >= self.events, "receiving")
        kept.publish()
        consumer.close()
        return spent, kept

    def _blocks(self) -> _Blocks:
        return _Blocks(self._site)


class _Blocks:
    """Appends the bare loop's blocks, without asking whether they arrived."""

    def __init__(self, site: SiteHandle) -> None:
        self._topic = site.names.raw("canonical")
        self._producer, _ = open_producer(site.kafka, "bench", {"enable.idempotence": True, "compression.type": "lz4"})

    def produce_block(self, block: bytes) -> None:
        """Append one block."""
        self._producer.produce(self._topic, block[:900_000], partition=0)
        self._producer.poll(0)


def _all_of(topic: str) -> list[object]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]


def _pairs(messages: list[Message]) -> list[tuple[bytes, bytes]]:
    pairs = []
    for message in messages:
        headers = message.headers()
        if headers and len(headers) > 1:
            pairs.append((message.value() or b"", headers[1][1] or b""))
    return pairs  # type: ignore[return-value]  # bytes, as our own writers wrote them


def _once(work: object) -> Spent:
    done = False

    def step() -> None:
        nonlocal done
        work()  # type: ignore[operator]
        done = True

    return drive(step, lambda: done, "appending")


def _latency(site: SiteHandle, config: Path, records: list[Record], rate: float) -> list[Row]:
    """Milliseconds from the append of a record to the read-back of its entry, at `rate` records a second."""
    log = config.with_suffix(".log").open("wb")
    words = [sys.executable, "-m", "finality", "--config", str(config), "run", "reconciler", "--replica", "r1"]
    service = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ))
    follower = Follower(site)
    try:
        began = time.monotonic()
        while follower.leaders < PARTITIONS:
            follower.read(0.1)
            if time.monotonic() - began > 60 or service.poll() is not None:
                raise Failed(f"bench: the reconciler does not lead; see {config.with_suffix('.log')}")
        seen, sent = _send_and_read(site, follower, records, rate)
    finally:
        service.terminate()
        service.wait(30)
        log.close()
        follower.close()
    appended = {
        (partition, position): record.timestamp
        for partition in range(PARTITIONS)
        for position, record in enumerate(read_to_end(site.kafka, site.names.topic("input"), partition), 1)
    }
    times = sorted(at - appended[place] for place, at in seen.items())
    assert len(times) > sent // 3, f"{len(times)} entries were read back for {sent} records"
    note = f"{rate:,.0f} events/s for {_LATENCY_S:.0f} s, {len(times):,} records with entries"
    return [
        Row("latency p50", statistics.median(times), "ms", None, note),
        Row("latency p99", times[len(times) * 99 // 100], "ms"),
    ]


def _send_and_read(
    site: SiteHandle, follower: Follower, records: list[Record], rate: float
) -> tuple[dict[tuple[int, int], float], int]:
    """When (ms) the entry of each (partition, position) was read back, and how many records were sent."""
    appender = KafkaAppender(site.kafka, site.names.topic("input"), message_timeout_s=60, linger_ms=0)
    seen: dict[tuple[int, int], float] = {}
    sent = 0
    began = heard = time.monotonic()
    while True:
        now = time.monotonic()
        due = min(int((now - began) * rate), len(records), int(_LATENCY_S * rate))
        for record in records[sent:due]:
            target = partition_of(record.key or b"", PARTITIONS)
            appender.append(target, record.key, record.value, record.headers[:1])
        sent = due
        appender.poll()
        found = follower.read(0.002)
        at = time.time() * 1000
        for partition, entry in found:
            seen.setdefault((partition, entry.position), at)
        heard = now if found else heard
        if now - began > _LATENCY_S and now - heard > 2:
            appender.close()
            return seen, sent


def line() -> list[Table]:
    """The whole line. Starts a stack of its own and leaves nothing behind."""
    records = event_records(sample_events())
    with (
        tempfile.TemporaryDirectory(prefix="finality-bench-") as folder,
        Stack.start(Path(folder), "bench", with_dr=False, jvm=LARGE_JVM, tied=True) as stack,
    ):
        site, _ = new_site(stack, "line")
        events = send_files(site, "google-borg", [SAMPLE])
        assert events == len(records)
        bench = _Bench(site, events)
        bench.ingest()
        bench.bare()
        bench.receive()
        bench.append(records[:60_000])
        rate = bench.reconciler()
        quick, config = new_site(stack, "latency")
        rows = bench.rows + _latency(quick, config, records, rate / 2)
    return [Table("On a real broker, one voter, events per CPU second of our own process", rows)]
