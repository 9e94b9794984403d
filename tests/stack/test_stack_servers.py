"""Servers of a running stack, killed, frozen and started again one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_client
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from finality.core.errors import DependencyError
from finality.lab.stack import Stack
from finality.lab.stack.process import recorded
from stack.kafka_case import fresh_name, until


def brokers_of(stack: Stack) -> set[int]:
    """Brokers that the first one that answers knows."""
    client = AdminClient({"bootstrap.servers": stack.primary.bootstrap})
    try:
        return set(client.list_topics(timeout=10).brokers)
    except KafkaException:
        return set()


def test_each_of_three_brokers_is_killed_and_comes_back(stack3: Stack) -> None:
    topic = fresh_name()
    admin = AdminClient({"bootstrap.servers": stack3.primary.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(60)
    for broker in stack3.brokers():
        before = broker.pid
        broker.kill()
        assert broker.pid is None
        until(lambda node=broker.node: brokers_of(stack3) == {1, 2, 3} - {node}, "the others see it gone")
        broker.start(180)
        assert broker.pid not in (None, before)
        until(lambda: brokers_of(stack3) == {1, 2, 3}, "all are back")

    def in_sync() -> bool:
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
        return all(len(partition.isrs) == 3 for partition in partitions)

    until(in_sync, "three copies in sync")


def test_a_broker_that_is_stopped_in_the_ordinary_way_comes_back(stack3: Stack) -> None:
    broker = stack3.brokers("dr")[0]
    broker.stop()
    assert broker.pid is None
    broker.start(180)
    assert broker.pid is not None


def test_a_frozen_broker_is_fenced_and_comes_back(stack3: Stack) -> None:
    broker = stack3.brokers()[2]
    others = ",".join(one.bootstrap for one in stack3.brokers()[:2])
    client = AdminClient({"bootstrap.servers": others})
    broker.pause()
    try:
        until(lambda: set(client.list_topics(timeout=10).brokers) == {1, 2}, "the frozen one is fenced")
        assert broker.pid is not None
    finally:
        broker.resume()
    until(lambda: set(client.list_topics(timeout=10).brokers) == {1, 2, 3}, "it is back")


def test_redis_is_frozen_killed_and_comes_back(stack1: Stack) -> None:
    server = stack1.redis
    assert server is not None
    client = redis_client.Redis.from_url(stack1.redis_url, socket_timeout=1.0)
    server.pause()
    try:
        with pytest.raises(redis_client.TimeoutError):
            client.ping()
    finally:
        server.resume()
    until(client.ping, "it answers again")
    server.kill()
    with pytest.raises(redis_client.ConnectionError):
        client.ping()
    server.start(180)
    assert client.ping()


def test_a_broker_that_gives_up_is_explained_by_the_cause_not_by_what_follows(tmp_path: Path) -> None:
    with pytest.raises(DependencyError) as caught:
        Stack.start(tmp_path, "bad", with_dr=False, overrides={"metric.reporters": "no.such.Reporter"}, deadline_s=180)
    message = str(caught.value)
    assert "no.such.Reporter" in message
    assert "\n" not in message
    assert "no.such.Reporter" in Path(message.rsplit("see ", maxsplit=1)[-1]).read_text()
    assert not [process for process in recorded(tmp_path / "bad") if process.pid is not None]
