"""The attested log deleted, made again, or cut short: the fault is named, the exit code is 4, nothing is written after.

The product's own command runs here, since its exit code is what a supervisor acts upon.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from finality.core.logview import LogView
from finality.core.records import Record
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import open_admin
from finality.kafka.tail import end_offsets, read_to_end
from support.fault_case import Case
from support.running import Running, until
from support.workload import Load, Workload, borg_rows

RUN = ("run", "reconciler", "--site", "primary", "--replica", "r1")


class _Log:
    """The log topic of a case, in the hands of somebody who should not touch it."""

    def __init__(self, here: Case) -> None:
        self._here = here
        self._admin = open_admin(here.kafka, "vandal")
        self.name = here.site.names.topic("log")
        self.partitions = here.site.genesis.partitions

    def delete(self) -> None:
        self._admin.delete_topics([self.name], operation_timeout=30)[self.name].result(60)
        until(lambda: self.name not in self._admin.list_topics(timeout=30).topics, "the topic to be gone")

    def create(self) -> None:
        self._admin.create_topics([NewTopic(self.name, self.partitions, 1)])[self.name].result(60)
        until(lambda: self.name in self._admin.list_topics(timeout=30).topics, "the topic to be there")

    def records(self) -> list[list[Record]]:
        return [list(read_to_end(self._here.kafka, self.name, one)) for one in range(self.partitions)]

    def put(self, records: list[list[Record]]) -> None:
        appender = KafkaAppender(self._here.kafka, self.name, message_timeout_s=60)
        for partition, rows in enumerate(records):
            for row in rows:
                appender.append(partition, row.key, row.value, row.headers)
        assert appender.flush(60) == 0
        assert {report.error for report in appender.poll()} <= {""}
        appender.close()

    def cut_front(self, partition: int, before: int) -> None:
        request = [TopicPartition(self.name, partition, before)]
        next(iter(self._admin.delete_records(request).values())).result(60)

    def tips(self) -> list[tuple[int, int, str]]:
        """(term, index, chain) that a fresh reader accepts, by partition."""
        site = self._here.site
        views = [LogView(site.genesis_value, one, site.home) for one in range(self.partitions)]
        for view, rows in zip(views, self.records(), strict=True):
            for row in rows:
                view.read(row)
        return [(view.tip.term, view.tip.index, view.tip.chain.hex()) for view in views]


def _running(here: Case, load: Load) -> Running:
    """A reconciler that has published some blocks."""
    service = here.finality(*RUN)

    def published() -> bool:
        here.watch.read()
        assert service.code is None, f"{service} ended"
        return here.watch.blocks > 10 and all(view.tip.index > 10 for view in here.watch.views.values())

    until(published, f"ten blocks of {service.name}", load.step)
    return service


def _ends_by_name(service: Running, names: tuple[str, ...], load: Load) -> None:
    service.ends(4, meanwhile=lambda: None if load.is_done else load.step())
    last = service.said.strip().splitlines()[-1]
    assert last.startswith(tuple(f"finality: {name}: " for name in names)), last


def _nothing_follows(here: Case, log: _Log) -> None:
    """The ends stay where they are, also while input goes on coming."""
    before = end_offsets(here.kafka, log.name)
    here.flush()
    assert end_offsets(here.kafka, log.name) == before


@pytest.mark.parametrize("kept", [None, 0, 3], ids=["deleted", "made-again-empty", "made-again-shorter"])
def test_a_log_lost_under_a_running_reconciler_is_named(case: Callable[..., Case], kept: int | None) -> None:
    work = Workload(borg_rows(400))
    here = case()
    load = here.feed_load(work, each=2)
    service = _running(here, load)
    log = _Log(here)
    saved = log.records()
    log.delete()
    if kept is not None:
        log.create()
        log.put([rows[:kept] for rows in saved])
    _ends_by_name(service, ("LOG_SHRUNK", "TOPIC_RECREATED"), load)
    if kept is None:
        return
    _nothing_follows(here, log)
    site = here.site
    for partition, rows in enumerate(saved):
        view = LogView(site.genesis_value, partition, site.home)
        for row in rows[:kept]:
            view.read(row)
        assert log.tips()[partition] == (view.tip.term, view.tip.index, view.tip.chain.hex()), (
            "what was written after the loss counts for nobody"
        )


def test_a_log_without_its_beginning_is_named_at_the_start(case: Callable[..., Case]) -> None:
    work = Workload(borg_rows(200))
    here = case()
    load = here.feed_load(work, each=2)
    _running(here, load).stop()
    log = _Log(here)
    log.cut_front(1, 3)
    before = end_offsets(here.kafka, log.name)
    _ends_by_name(here.finality(*RUN), ("RETENTION_OVERTOOK",), load)
    assert end_offsets(here.kafka, log.name)[1] == before[1], "nothing is written behind a beginning that is not there"


def test_a_log_that_lost_its_tail_unseen_is_written_again_the_same(case: Callable[..., Case]) -> None:
    """Nobody watched, and the input is whole: the lost entries come again with the very same chain values."""
    work = Workload(borg_rows(200))
    here = case(log_time="events")
    load = here.feed_load(work, each=4)
    first = _running(here, load)
    here.await_outcomes(work, load)
    first.stop()
    log = _Log(here)
    saved = log.records()
    tips = log.tips()
    log.delete()
    log.create()
    log.put([rows[: len(rows) // 2] for rows in saved])
    shorter = log.tips()
    assert all(short[1] < whole[1] for short, whole in zip(shorter, tips, strict=True))
    service = here.finality(*RUN)

    def is_whole() -> bool:
        assert service.code is None, f"{service} ended"
        return [tip[1:] for tip in log.tips()] == [tip[1:] for tip in tips]

    until(is_whole, "the log to be whole again")
    here.watch_again()
    here.judge(work)
