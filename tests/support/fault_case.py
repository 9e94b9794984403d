"""One case on a running stack: a namespace of its own, services as processes, and the judgement at the end.

`judge` holds everything against the checkers: the log against an independent refold of the input, the input against the
source records, outcomes against the truth of the data.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from finality.checks import Finding, LogReport, check_log, check_outcomes, check_sent, said_of_jobs
from finality.cli.wiring import SiteHandle, open_site
from finality.core.genesis import LogTimeMode, Parameters
from finality.core.jobkey import partition_of
from finality.core.logview import LogView
from finality.core.names import Names
from finality.core.records import EVENT, KIND, SOURCE, Coordinate, Record, SourceMark, encode_source
from finality.kafka import admin
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import KafkaSettings, open_admin
from finality.kafka.plan import new_genesis
from finality.kafka.reader import KafkaReader
from finality.kafka.tail import describe, end_offsets, read_to_end
from finality.settings import load_context
from support.running import Running, finality, launch, until
from support.workload import SOURCE as BORG
from support.workload import Load, Workload

__all__ = ["Case", "Verdict"]

PARTITIONS = 2
_numbers = itertools.count(1)
_FILE = "file-replay"  # topic id of events that a test puts into the input by itself


class Clock:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        """Wall clock."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Monotonic clock."""
        return time.monotonic_ns()


class Watch:
    """The attested log, followed by acceptance: the latest word on every job, and who leads each partition."""

    def __init__(self, site: SiteHandle) -> None:
        partitions = range(site.genesis.partitions)
        self.views = {partition: LogView(site.genesis_value, partition, site.home) for partition in partitions}
        starts = dict.fromkeys(partitions, 0)
        self._reader = KafkaReader(site.kafka, site.names.topic("log"), starts, Clock(), dense=True)
        self.said: dict[str, tuple[str, str]] = {}
        self.blocks = 0
        self.heard_at = time.monotonic()
        self.longest_silence_s = 0.0

    def read(self) -> None:
        """Take what has come."""
        for record in self._reader.poll(2_000, 0.05):
            entries = self.views[record.partition].read(record)
            if entries:
                now = time.monotonic()
                self.longest_silence_s = max(self.longest_silence_s, now - self.heard_at)
                self.heard_at = now
                self.blocks += 1
                self.said.update(said_of_jobs(row.entry for row in entries))

    @property
    def terms(self) -> int:
        """Accepted terms of all partitions."""
        return sum(view.tip.term for view in self.views.values())

    @property
    def ignored(self) -> Counter[str]:
        """Log records that do not count, by reason."""
        return sum((view.ignored for view in self.views.values()), Counter())

    def close(self) -> None:
        """Free the connection."""
        self._reader.close()


class Verdict:
    """What the checkers said about a case."""

    def __init__(self, findings: list[Finding], logs: list[LogReport], dropped: Counter[str]) -> None:
        self.findings = findings
        self.logs = logs
        self.dropped = dropped  # input records that the fold drops, by reason

    @property
    def ignored(self) -> Counter[str]:
        """Log records that do not count, by reason."""
        return sum((report.ignored for report in self.logs), Counter())

    @property
    def writers(self) -> Counter[str]:
        """Accepted terms by boot."""
        return sum((report.writers for report in self.logs), Counter())


class Case:
    """See the module's head. voters: ids of the replicas; redis: address of the ledger."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        redis: str,
        log_time: LogTimeMode = "ticks",
        voters: Sequence[str] = ("r1",),
        partitions: int = PARTITIONS,
    ) -> None:
        self.folder = folder
        self._servers = servers
        self._voters = voters
        self.namespace = f"f{os.getpid():x}.{next(_numbers)}"
        self.kafka = KafkaSettings.of({"bootstrap.servers": servers})
        names = Names.of(self.namespace)
        parameters = Parameters(log_time=log_time, memory=str(2**62), digest_every=500)
        start_ns = time.time_ns() if log_time == "ticks" else 0
        admin.apply(
            {"primary": admin.Site(self.kafka, names)},
            lambda: new_genesis(
                {"primary": voters},
                "primary",
                partitions=partitions,
                log_time=log_time,
                start_ns=start_ns,
                parameters=parameters,
            ),
            [BORG],
        )
        self.config = self.context("context", redis)
        self.site = open_site(load_context(str(self.config)), "primary")
        self.watch = Watch(self.site)
        self._input = KafkaAppender(self.kafka, names.topic("input"), message_timeout_s=90)
        self._raw = KafkaAppender(self.kafka, names.raw(BORG), message_timeout_s=90)
        self._before: dict[int, Coordinate] = {}
        self._fed = 0
        self._services: list[Running] = []

    # -- set-up and end -----------------------------------------------------------------------

    def context(self, name: str, redis: str) -> Path:
        """Write a context file with this ledger; its path."""
        text = "\n".join(
            [
                f'namespace = "{self.namespace}"',
                "[sites.primary]",
                f'kafka = {{"bootstrap.servers" = "{self._servers}"}}',
                f'redis = {{url = "{redis}"}}',
                f"voters = {json.dumps(list(self._voters))}",
            ]
        )
        path = self.folder / f"{name}.toml"
        path.write_text(text + "\n")
        return path

    def watch_again(self) -> None:
        """Follow the log from its beginning, after it was put there anew."""
        self.watch.close()
        self.watch = Watch(self.site)

    def close(self) -> None:
        """End every service with SIGKILL and delete the topics."""
        for service in self._services:
            service.kill()
        self.watch.close()
        self._input.close()
        self._raw.close()
        client = open_admin(self.kafka, "test")
        there = client.list_topics(timeout=30).topics
        own = [topic for topic in there if topic.startswith(self.namespace + ".")]
        for future in client.delete_topics(own, operation_timeout=10).values() if own else ():
            future.exception(30)

    # -- services -----------------------------------------------------------------------------

    def launch(self, service: str, *words: str, config: Path | None = None) -> Running:
        """A service with traps, see `support.launch`."""
        log = self.folder / f"{service}-{len(self._services)}.log"
        running = launch(log, service, config or self.config, *words)
        self._services.append(running)
        return running

    def finality(self, *words: str) -> Running:
        """The product's command."""
        running = finality(self.folder / f"command-{len(self._services)}.log", self.config, *words)
        self._services.append(running)
        return running

    def stop(self) -> None:
        """SIGTERM to every service that runs."""
        for service in self._services:
            if service.code is None:
                service.stop()

    # -- data in ------------------------------------------------------------------------------

    def feed_load(self, work: Workload, each: int = 40) -> Load:
        """A load that puts events straight into the input, as ingest would."""
        return Load(work.rows, lambda rows: self._feed(work, rows), each)

    def raw_load(self, work: Workload, each: int = 40, rows: Sequence[bytes] | None = None) -> Load:
        """A load that sends rows to the raw topic. rows: the workload's with others between."""
        keys = dict(zip(work.rows, (event.job.encode() for event in work.events), strict=True))

        def send(rows: Sequence[bytes]) -> None:
            for row in rows:
                key = keys.get(row, row)
                self._raw.append(partition_of(key, self.site.genesis.partitions), key, row, ())
            assert all(not report.error for report in self._raw.poll()), "a raw record was refused"

        return Load(work.rows if rows is None else rows, send, each)

    def _feed(self, work: Workload, rows: Sequence[bytes]) -> None:
        for row in rows:
            offset, self._fed = self._fed, self._fed + 1
            for ordinal, event in enumerate(work.events_of(row)):
                key = json.loads(event)["job"].encode()
                target = partition_of(key, self.site.genesis.partitions)
                at = Coordinate(offset, ordinal)
                mark = SourceMark(_FILE, 0, 0, at, self._before.get(target), 0)
                self._before[target] = at
                self._input.append(target, key, event, ((KIND, EVENT), (SOURCE, encode_source(mark))))
        assert all(not report.error for report in self._input.poll()), "an input record was refused"

    def flush(self) -> None:
        """Wait until everything that was sent is acknowledged."""
        for appender in (self._input, self._raw):
            until(lambda appender=appender: appender.flush(1.0) == 0, "acknowledgements")
            assert all(not report.error for report in appender.poll()), "a record was refused"

    # -- waiting and judging ------------------------------------------------------------------

    def await_outcomes(self, work: Workload, load: Load | None = None, patience_s: float = 90.0) -> None:
        """Wait until the attested log says of every job what it must come to, sending the load meanwhile."""

        def missing() -> list[Finding]:
            self.watch.read()
            return check_outcomes(work.outcomes, self.watch.said)

        def told() -> str:
            found = missing()
            words = "; ".join(str(service) for service in self._services[-3:])
            return f"{len(found)} of {len(work.outcomes)} outcomes, such as {found[:2]}; {words}"

        def meanwhile() -> None:
            if load is not None:
                load.step()

        until(lambda: (load is None or load.is_done) and not missing(), told, meanwhile, patience_s)

    def records(self, kind: str, partition: int) -> list[Record]:
        """All records of a partition of `input` or `log`."""
        return list(read_to_end(self.kafka, self.site.names.topic(kind), partition))

    def first_offset_of(self, term: int, partition: int = 0) -> int:
        """Offset of the accepted LEADER of a term."""
        view = LogView(self.site.genesis_value, partition, self.site.home)
        for record in self.records("log", partition):
            view.read(record)
            if view.tip.term >= term:
                return record.offset
        raise AssertionError(f"term {term} is not in the log")

    def judge(self, work: Workload) -> Verdict:
        """Stop everything, let one undisturbed reconciler publish what is left, and hold it all against the checkers.

        Fails when anything was found.
        """
        self.stop()
        self.flush()
        self._publish_the_rest()
        partitions = range(self.site.genesis.partitions)
        inputs = {partition: self.records("input", partition) for partition in partitions}
        genesis, home = self.site.genesis_value, self.site.home
        logs = [check_log(genesis, one, home, inputs[one], self.records("log", one)) for one in partitions]
        findings = [finding for report in logs for finding in report.findings]
        lost, dropped = check_sent(self._sent(work), inputs)
        said = said_of_jobs(row.entry for report in logs for row in report.attested)
        findings += lost + check_outcomes(work.outcomes, said)
        assert not findings, "\n".join(map(str, findings[:20]))
        return Verdict(findings, logs, dropped)

    def _publish_the_rest(self) -> None:
        """Ticks may stand in the input behind the last block: publish what they cause, by a quorum, and stop again."""
        ends = end_offsets(self.kafka, self.site.names.topic("input"))
        wanted = {p: self._entries(p, end) for p, end in ends.items()}
        self.watch.read()
        if all(view.tip.index >= wanted[p] for p, view in self.watch.views.items()):
            return
        quorum = self.site.genesis.sites[0].quorum
        helpers = [self.launch("reconciler", "--replica", voter) for voter in self._voters[:quorum]]

        def published() -> bool:
            self.watch.read()
            return all(view.tip.index >= wanted[p] for p, view in self.watch.views.items())

        until(published, lambda: f"the rest of the log; {helpers[0]}")
        self.stop()
        self._publish_the_rest()  # the helpers wrote ticks of their own, which seldom cause an entry

    def _entries(self, partition: int, end: int) -> int:
        """How many entries the input up to an end makes, by the refold."""
        from finality.core.refold import Refold

        refold = Refold(self.site.genesis_value, partition, self.site.home.site, self.site.home.generation)
        for record in read_to_end(self.kafka, self.site.names.topic("input"), partition, upto=end):
            refold.feed_input(record.key, record.value, record.headers)
        return refold.index

    def _sent(self, work: Workload) -> dict[tuple[str, int], list[tuple[Coordinate, bytes]]]:
        """What was sent, by source partition, from the raw topic itself and from what was fed directly."""
        topic = self.site.names.raw(BORG)
        topic_id, partitions = describe(self.kafka, topic)
        sent: dict[tuple[str, int], list[tuple[Coordinate, bytes]]] = {}
        for partition in range(partitions):
            raw = [(record.offset, record.value or b"") for record in read_to_end(self.kafka, topic, partition)]
            sent[topic_id, partition] = list(work.coordinates(raw))
        if self._fed:
            sent[_FILE, 0] = list(work.coordinates(enumerate(work.rows[: self._fed])))
        return sent
