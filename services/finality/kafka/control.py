"""Appends commands to a site's control topic, each with the next number.

Level, not edge: the topic is read to its end, the command gets the next number, is appended, and read back. If another
writer's command took that number first (its record lies before ours), the command is numbered and appended again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from finality.core.canonical import encode
from finality.core.commands import CommandRecord
from finality.core.controllog import ControlLog, Numbered
from finality.core.errors import DependencyError
from finality.core.names import Names
from finality.core.records import COMMAND, KIND
from finality.kafka.appender import KafkaAppender
from finality.kafka.connection import KafkaSettings
from finality.kafka.tail import read_to_end

__all__ = ["append_command", "read_control"]

_TIMEOUT_S = 15.0


def read_control(settings: KafkaSettings, names: Names) -> ControlLog:
    """All commands of a site that count."""
    log = ControlLog()
    for record in read_to_end(settings, names.control, 0):
        log.read(record)
    return log


def append_command(
    settings: KafkaSettings, names: Names, build: Callable[[int, int], CommandRecord], timeout_s: float = _TIMEOUT_S
) -> Numbered:
    """Append the command that `build(epoch, number)` makes and return it as it was read back.

    Raises `DependencyError` when the broker does not take it in time; then it may have been appended or not: running
    the same command again is safe.
    """
    deadline = monotonic() + timeout_s
    appender = KafkaAppender(settings, names.control, message_timeout_s=timeout_s)
    try:
        while monotonic() < deadline:
            epoch, number = read_control(settings, names).last
            command = build(epoch, number + 1)
            value = encode(command)
            ticket = appender.append(0, None, value, ((KIND, COMMAND),))
            appender.flush(max(0.1, deadline - monotonic()))
            problems = [report.error for report in appender.poll() if report.ticket == ticket and report.error]
            if problems:
                raise DependencyError(f"topic {names.control} at {settings.servers} took no command ({problems[0]})")
            log = read_control(settings, names)
            found = log.after(epoch, number)
            if found is not None and found.value == value:
                return found
    finally:
        appender.close()
    raise DependencyError(
        f"topic {names.control} at {settings.servers}: the command was not read back within {timeout_s:.0f} s; "
        "run it again, a repeat does no harm"
    )
