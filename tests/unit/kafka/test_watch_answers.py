"""What a topic's watch makes of answers that are none: no fault, no end, and it asks again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from finality.core.errors import IntegrityFault
from finality.kafka.connection import KafkaSettings
from finality.kafka.watch import TopicWatch

NOWHERE = KafkaSettings.of({"bootstrap.servers": "127.0.0.1:1"})


class _Clock:
    def wall_ns(self) -> int:
        return 1

    def monotonic_ns(self) -> int:
        return 1


class _Answer(NamedTuple):
    offset: int


def _answered(offset: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(_Answer(offset))
    return future


def _watch_told(ends: list[int], position: int) -> TopicWatch:
    """A watch that was given these answers in turn, each asked when the reader stood at `position`."""
    watch = TopicWatch(NOWHERE, "a-topic", [0], _Clock(), "read_uncommitted")
    watch._next_ends = watch._next_id = 2**62  # asks nothing by itself
    for end in ends:
        watch._asked_ends = (1, {0: position}, {0: _answered(end)})
        fault = watch.tick({0: position})
        if fault is not None:
            raise fault
    return watch


def test_a_broker_that_dies_while_it_is_asked_accuses_nobody() -> None:
    """librdkafka gives offset -1001 then, and no error; read as an end it would be LOG_SHRUNK and halt a service."""
    watch = _watch_told([-1001] * 5, 10)
    assert watch.ends == {}
    assert _watch_told([-1001, 12, -1001], 10).ends[0].offset == 12


def test_an_end_below_the_position_is_a_fault_when_it_is_said_twice() -> None:
    assert _watch_told([9], 10).ends == {}
    assert _watch_told([9, -1001, 10], 10).ends[0].offset == 10
    with pytest.raises(IntegrityFault, match="LOG_SHRUNK"):
        _watch_told([9, -1001, 9], 10)
