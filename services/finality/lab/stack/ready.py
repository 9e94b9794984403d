"""Waiting for servers: each is asked until it answers, dies, or the deadline passes; what is awaited has a name.

A broker is ready when it answers a metadata request and knows every broker of its cluster: a listening port alone says
nothing in KRaft, where ports open long before the broker has a controller. Redis is ready when it answers PING.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from finality.core.errors import DependencyError
from finality.lab.stack.process import ServerProcess

__all__ = ["await_all", "explain", "knows", "knows_itself", "pings"]

POLL_S = 0.05
ASK_S = 2.0
TELL_S = 5.0  # of silence, then a line about what is still awaited

Question = Callable[[], bool]


def await_all(
    wanted: Mapping[str, tuple[ServerProcess | None, Question]], deadline_s: float, progress: Callable[[str], None]
) -> None:
    """Wait until every question is answered with yes.

    Raises `DependencyError` as soon as a process has ended, or after `deadline_s` seconds, naming what is missing.
    """
    started = told = time.monotonic()
    missing = dict(wanted)
    while missing:
        for name, (process, question) in list(missing.items()):
            if process is not None and process.pid is None:
                raise DependencyError(explain(process, "did not start"))
            if question():
                del missing[name]
                progress(f"{name} is ready after {time.monotonic() - started:.1f} s")
        now = time.monotonic()
        if missing and now - started > deadline_s:
            name, (process, _) = next(iter(missing.items()))
            what = f"is not ready after {deadline_s:.0f} s"
            raise DependencyError(explain(process, what) if process else f"{name} {what}: is its address right?")
        if missing and now - told > TELL_S:
            told = now
            progress(f"waiting for {', '.join(missing)} ({now - started:.0f} of {deadline_s:.0f} s)")
        if missing:
            time.sleep(POLL_S)


def explain(process: ServerProcess, what: str) -> str:
    """One line about a process that failed: its last words, the place of its log, and what to do."""
    words = process.last_words()
    free = os.statvfs(process.log.parent) if process.log.parent.exists() else None
    room = free.f_bavail * free.f_frsize if free else 1 << 40
    if "File too large" in words:
        return f"{process.name} {what}, no file may be that large ('ulimit -f'): {words!r}; log: {process.log}"
    if any(sign in words for sign in ("No space left", "quota exceeded")) or room < 1 << 20:
        return (
            f"no room on the disk of {process.log.parent.parent} for {process.name} ({room / 1e6:.0f} MB free, "
            f"{words!r}): free some, or run elsewhere; log: {process.log}"
        )
    if "Address already in use" in words or "Could not create server TCP listening socket" in words:
        return f"{process.name} {what}, its port is taken: {words!r}; choose another --port; log: {process.log}"
    return f"{process.name} {what}: {words!r}; see {process.log}"


def knows(bootstrap: str, count: int) -> bool:
    """Whether the broker there answers and knows that many brokers."""
    return len(_brokers(bootstrap)) >= count


def knows_itself(bootstrap: str, node: int) -> bool:
    """Whether the broker there answers and its controller lets it take part."""
    return node in _brokers(bootstrap)


def pings(url: str) -> bool:
    """Whether a Redis-compatible server answers there."""
    client = redis.Redis.from_url(url, socket_connect_timeout=ASK_S, socket_timeout=ASK_S)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def _brokers(bootstrap: str) -> set[int]:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ASK_S).close()
    except OSError:
        return set()
    silent = logging.Logger("finality.stack.probe", logging.CRITICAL + 1)  # librdkafka tells every refused connection
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}, logger=silent)
    try:
        return set(client.list_topics(timeout=ASK_S).brokers)
    except KafkaException:
        return set()
