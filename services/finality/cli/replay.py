"""`finality replay`: recorded data through a raw topic, as its producers would have sent it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from finality.cli.output import note
from finality.cli.wiring import SiteHandle, context_of, open_site
from finality.core.errors import DependencyError, Rejected, Retry
from finality.core.jobkey import partition_of
from finality.kafka.appender import KafkaAppender
from finality.kafka.tail import describe
from finality.sources.base import Reading, Source
from finality.sources.registry import source_by_name

__all__ = ["replay", "send_files"]


def send_files(site: SiteHandle, source: str, files: list[Path], rate: float = 0) -> int:
    """Send every record of the files to the source's raw topic, acknowledged; how many they were.

    Raises `DependencyError` when one was not acknowledged.
    """
    reader = source_by_name(source)
    topic = site.names.raw(source)
    _, partitions = describe(site.kafka, topic)
    appender = KafkaAppender(site.kafka, topic, linger_ms=5, message_timeout_s=60)
    sent = 0
    began = time.monotonic()
    for file in files:
        for reading in reader.read(file):
            target = partition_of(_key_of(reader, reading), partitions)
            while True:
                try:
                    appender.append(target, None, reading.value, reading.headers)
                    break
                except Retry:
                    appender.flush(0.1)
            sent += 1
            if sent % 1000 == 0:
                _check(appender)
                if rate and (ahead := sent / rate - (time.monotonic() - began)) > 0:
                    time.sleep(ahead)
    if appender.flush(60):
        raise DependencyError(f"topic {topic}: not every record was acknowledged within 60 s; send the file again")
    _check(appender)
    appender.close()
    return sent


def _key_of(source: Source, reading: Reading) -> bytes:
    """Producers send what belongs to one job to one partition; so the key is the job, where the record names one."""
    try:
        events = source.map(reading.value, reading.headers).events
    except Rejected:
        events = ()
    return events[0].job.encode() if events else reading.value[:64]


def _check(appender: KafkaAppender) -> None:
    for report in appender.poll():
        if report.error:
            raise DependencyError(f"a record was not taken ({report.error}); send the file again")


def replay(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of that source; .gz is read as it is.")],
    source: Annotated[str, typer.Option(help="Name of the source, see 'finality sources list'.")],
    site: Annotated[str, typer.Option(help="Site of the context.")] = "primary",
    rate: Annotated[float, typer.Option(help="Records a second; 0 = as fast as they are taken.")] = 0,
) -> None:
    """Send recorded data to a raw topic.

    Example: finality replay --source google-borg job-events.csv.gz --rate 5000
    """
    sent = send_files(open_site(context_of(ctx), site), source, files, rate)
    note(f"{sent} records sent to {source}")
