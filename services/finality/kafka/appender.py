"""Appends records to one topic: an idempotent producer with `acks=all`, asynchronous, and easy to throw away.

An acknowledgement proves nothing by itself; what counts is what is read back. So this file need not know what became of
an append in doubt: its owner reads the log. `reset` purges the producer and drops the reference, which takes less than
a millisecond whatever the brokers do. A producer is never closed and never used as a context manager: both would wait
for the brokers, and in doubt they would still send. (Closing a *transactional* one even sends an abort.)

Two ways to run: with a finite `message.timeout.ms`, for the log, where an append that is too old must not land later;
and *gapless*, for ingest, where records are retried for ever and a hole is fatal, so that none is skipped silently.

Errors of a producer, fatal ones too, arrive as deliveries, one for each ticket; a fatal producer answers every further
append with such a delivery until it is reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from finality.core.errors import Rejected, Retry
from finality.core.ports import Delivery
from finality.core.records import Headers
from finality.kafka.connection import ClientEvents, KafkaSettings, open_producer
from finality.kafka.errors import error_of, translate

__all__ = ["DEFAULT_MAX_BYTES", "KafkaAppender", "record_bytes"]

DEFAULT_MAX_BYTES = 1_048_588  # Kafka's own default of max.message.bytes
_BATCH_OVERHEAD = 96  # a batch's header is 61 bytes, a record's own fields at most 31
_HEADER_OVERHEAD = 10  # two lengths of at most five bytes


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of the bytes of a batch that holds this one record uncompressed.

    Source: Kafka protocol guide, record batch format.
    """
    size = _BATCH_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
    return size


class KafkaAppender:
    """An `Appender`. max_bytes: the topic's `max.message.bytes`. message_timeout_s: after which an append is given up.

    gapless: never give up, never skip; then `message_timeout_s` has no meaning. events: what the present client says.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        message_timeout_s: float = 10.0,
        linger_ms: float = 0,
        gapless: bool = False,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._max_bytes = max_bytes
        self._config: dict[str, Any] = {
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0 if gapless else int(message_timeout_s * 1000),
            "enable.gapless.guarantee": gapless,
            "linger.ms": linger_ms,
            "compression.type": "lz4",
            "message.max.bytes": max(max_bytes, 1000),
            "queue.buffering.max.kbytes": 262_144,
            "socket.timeout.ms": 10_000,
        }
        self._ticket = 0
        self._producer: Producer | None = None
        self._reports: list[Delivery] = []
        self.events: ClientEvents
        self._open()

    def append(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int = 0
    ) -> int:
        """Hand one record over; the ticket comes back in a `Delivery`. timestamp: ms since the epoch, 0 = now.

        Raises `Retry` when the queue is full, `Rejected` (TOO_LARGE) for a record that the topic cannot hold.
        """
        size = record_bytes(key, value, headers)
        if size > self._max_bytes:
            raise Rejected("TOO_LARGE", f"a record of {size} bytes for topic {self._topic}, at most {self._max_bytes}")
        producer = self._producer or self._open()
        self._ticket += 1
        ticket = self._ticket
        try:
            producer.produce(
                self._topic,
                value,
                key,
                partition,
                on_delivery=_report_to(self._reports, ticket, partition),
                timestamp=timestamp,
                headers=list(headers) or None,
            )
        except BufferError:
            raise Retry(f"topic {self._topic}: the producer's queue is full; it is tried again") from None
        except KafkaException as error:
            if not error_of(error).fatal() and error_of(error).code() != KafkaError._FATAL:
                raise translate(error, f"append to topic {self._topic} at {self._settings.servers}") from None
            self._reports.append(Delivery(ticket, partition, -1, error_of(error).name()))
        return ticket

    def poll(self) -> list[Delivery]:
        """Reports that arrived since the last call. Never waits. `error` is the client's name of the error."""
        if self._producer is not None:
            self._producer.poll(0)
        return self._take()

    def flush(self, timeout_s: float) -> int:
        """Wait for reports, at most `timeout_s`; the number of appends still without one. `poll` hands them out."""
        return 0 if self._producer is None else self._producer.flush(timeout_s)

    def reset(self) -> None:
        """Purge and drop the producer; the next append uses a fresh one. Reports of the old one never come.

        Takes no time to speak of. What was on its way to a broker may still land.
        """
        producer, self._producer = self._producer, None
        self._reports = []  # the old callbacks keep the old list
        if producer is not None:
            try:
                producer.purge(in_queue=True, in_flight=True, blocking=False)
            except (KafkaException, RuntimeError) as error:
                self.events.last = str(error)

    def close(self) -> None:
        """Free the connection without waiting for appends in flight. Never raises."""
        self.reset()

    def _open(self) -> Producer:
        self._producer, self.events = open_producer(self._settings, f"{self._topic}.appender", self._config)
        return self._producer

    def _take(self) -> list[Delivery]:
        taken = self._reports[:]
        del self._reports[: len(taken)]
        return taken


def _report_to(reports: list[Delivery], ticket: int, partition: int) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that knows its own list only, so that a dropped producer is freed at once."""

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            reports.append(Delivery(ticket, partition, -1, error.name()))
        else:
            offset = message.offset()
            reports.append(Delivery(ticket, partition, -1 if offset is None else offset, ""))

    return report
