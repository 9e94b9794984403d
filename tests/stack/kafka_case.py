"""What the tests of `kafka/` on a real broker have in common: names of their own, topics, and patience."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from finality.core.errors import DependencyError
from finality.core.records import GENESIS, KIND, Headers, Record
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import KafkaSettings, open_admin
from finality.kafka.reader import KafkaReader

PATIENCE_S = 120.0
_numbers = itertools.count(1)
T = TypeVar("T")


class SystemClock:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        """Wall clock."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Monotonic clock."""
        return time.monotonic_ns()


def fresh_name() -> str:
    """A name that no other case uses, nor another run on the same broker."""
    return f"{_run()}{time.time_ns():x}.{next(_numbers)}"


def _run() -> str:
    return f"kt{os.getpid():x}x"


def until(condition: Callable[[], T], what: str) -> T:
    """The first true value of `condition`; fails after a generous time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.02)


class KafkaCase:
    """A broker and topics of one case's own."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.admin = open_admin(settings, "test")
        self.clock = SystemClock()
        # one for all cases, and not an idempotent one, which takes half a second to begin
        self._producer = Producer({**settings.options, "acks": "all", "message.timeout.ms": int(PATIENCE_S * 1000)})

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic; options with `_` for `.`."""
        return self.create(fresh_name(), partitions, {name.replace("_", "."): value for name, value in config.items()})

    def create(self, name: str, partitions: int, config: dict[str, str]) -> str:
        """A topic by name, once a topic of that name that is being deleted is gone."""
        new = NewTopic(name, partitions, 1, config=config)

        def created() -> bool:
            try:
                self.admin.create_topics([new], request_timeout=20)[name].result(30)
            except (KafkaException, TimeoutError):
                return False
            return True

        until(created, f"topic {name}")
        until(lambda: name in self.admin.list_topics(timeout=PATIENCE_S).topics, f"metadata of {name}")
        return name

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def clean(self) -> None:
        """Delete the topics of all cases so far: a broker with thousands of partitions is slow to come back."""
        mine = [name for name in self.admin.list_topics(timeout=PATIENCE_S).topics if name.startswith(_run())]
        futures = self.admin.delete_topics(mine, request_timeout=PATIENCE_S) if mine else {}
        for future in futures.values():
            future.exception(PATIENCE_S)  # a case may have deleted it itself

    def cut(self, topic: str, partition: int, before: int) -> None:
        """Remove the records below an offset."""
        request = [TopicPartition(topic, partition, before)]
        next(iter(self.admin.delete_records(request).values())).result(PATIENCE_S)

    def appender(self, topic: str, **options: Any) -> KafkaAppender:
        """An appender with patience, unless it is told otherwise."""
        return KafkaAppender(self.settings, topic, **{"message_timeout_s": PATIENCE_S, **options})

    @contextmanager
    def standing_still(self, pid: int) -> Iterator[None]:
        """The broker is stopped, not ended; what it had taken in before may still have been answered.

        At the end it serves again: its controller may have taken it for dead in between.
        """
        os.kill(pid, signal.SIGSTOP)
        try:
            ask = ["ps", "-o", "state=", "-p", str(pid)]
            until(lambda: subprocess.run(ask, check=True, capture_output=True).stdout.startswith(b"T"), "the stop")
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
        self.fill(self.topic(), [b"serves again"])

    def fill_genesis(self, topic: str, value: bytes) -> None:
        """Append a genesis record to partition 0."""
        self.fill(topic, [value], headers=[(KIND, GENESIS)])

    def fill(self, topic: str, values: Iterable[bytes], partition: int = 0, headers: Headers = ()) -> None:
        """Append acknowledged records."""
        errors: list[KafkaError | None] = []
        for value in values:
            self._producer.produce(
                topic,
                value,
                partition=partition,
                headers=list(headers),
                on_delivery=lambda error, _: errors.append(error),
            )
        assert self._producer.flush(PATIENCE_S) == 0
        assert set(errors) <= {None}, errors


def drain(reader: KafkaReader, count: int, limit: int = 1000) -> list[Record]:
    """The next `count` records at least."""
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        with suppress(DependencyError):  # the broker may be busy with other things; the next call goes on
            records += reader.poll(limit, 0.2)
    return records
