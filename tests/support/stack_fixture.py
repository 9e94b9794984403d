"""Stacks of real Kafka and Redis for a whole test run: started when the first test asks, gone at the end.

A case takes a namespace of its own on a shared stack. One that kills or freezes a server uses `stack3`, or puts things
right before it ends. With FINALITY_TEST_STACK=FOLDER the stacks are looked for in that folder, started there if they do
not run, and left running: a second run then saves their start.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from finality.kafka.connection import KafkaSettings
from finality.lab.stack import Stack
from stack.kafka_case import KafkaCase

VARIABLE = "FINALITY_TEST_STACK"
SESSION_TIMEOUT_MS = 3_000  # a killed broker is noticed after this
DEADLINE_S = 180.0  # for a start: the machine may be busy with other things


@contextmanager
def running_stack(name: str, brokers: int) -> Iterator[Stack]:
    """A stack of that many primary brokers and one at the second site."""
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else Path(tempfile.mkdtemp(prefix="finality-stack-"))
    try:
        stack = Stack.start(
            folder,
            name,
            brokers=brokers,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            deadline_s=DEADLINE_S,
            tied=not given,  # a test run that is killed takes its stacks along
        )
        try:
            yield stack
        finally:
            if not given:
                stack.delete()
    finally:
        if not given:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stack1() -> Iterator[Stack]:
    """One broker per site, and Redis."""
    with running_stack("one", 1) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack3() -> Iterator[Stack]:
    """Three brokers at the primary site, one at the other, and Redis."""
    with running_stack("three", 3) as stack:
        yield stack


@pytest.fixture(scope="session")
def kafka(stack1: Stack) -> KafkaCase:
    """The primary broker of `stack1`."""
    return KafkaCase(KafkaSettings.of({"bootstrap.servers": stack1.primary.bootstrap}))


@pytest.fixture
def broker_pid(stack1: Stack) -> int:
    """Process id of that broker."""
    pid = stack1.brokers()[0].pid
    assert pid is not None, "an earlier test left the broker dead"
    return pid
