"""The transaction sink: exactly once for readers that know nothing of us.

One thread owns one transactional producer for one target partition, because commits block (librdkafka releases the GIL
while they do). The loop that feeds it never waits. Rules, each with a reason that cost somebody data:

T1 one transactional id per (namespace, generation, link, target topic, partition), shared by all processes: whoever
   comes later fences whoever was there. T2 no tail read from before `init_transactions` counts. T3 fenced, or anything
   unexpected: discard the producer, begin again at the tail; never rebuild and resend. T4 never abort, never `close()`,
   never `with`: both send an abort at once, and a delayed abort can hit a later transaction; a producer in doubt is
   purged and dropped, and the next init ends what it left open. T5 one partition per transaction, one thread each.
T6 the deadline is ours: when it is over, the thread is left to finish, and its producer is never used again.

Leaves out: what the records are. `read_tail` tells what the target holds.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from confluent_kafka import KafkaException, Producer

from finality.core.errors import Disposition, FinalityError
from finality.core.ports import Out, SinkReport
from finality.kafka.connection import KafkaSettings, open_producer
from finality.kafka.errors import translate

__all__ = ["KafkaTransactionSink"]

_INIT_S = 30.0
_BACKOFF_S = (0.1, 0.3, 1.0, 3.0)


class _Attempt:
    """One thread with its producer, from init to the first doubt. `left`: the sink no longer listens to it."""

    def __init__(self) -> None:
        self.jobs: queue.Queue[tuple[int, Sequence[Out]] | None] = queue.Queue()
        self.left = False


class KafkaTransactionSink:
    """A `TransactionSink`. deadline_s: of one transaction. failures: attempts that ended in doubt, for metrics."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        partition: int,
        transactional_id: str,
        read_tail: Callable[[], object],
        *,
        deadline_s: float = 10.0,
        max_bytes: int = 1_048_588,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._id = transactional_id
        self._read_tail = read_tail
        self._deadline_s = deadline_s
        self._max_bytes = max_bytes
        self._reports: queue.Queue[tuple[_Attempt, SinkReport | FinalityError]] = queue.Queue()
        self._attempt: _Attempt | None = None
        self._open = False
        self._under_way = -1
        self._due = 0.0
        self._ticket = 0
        self.failures = 0
        self.last_error = ""
        self._begin()

    def poll(self) -> list[SinkReport]:
        """What happened since the last call; begins again after a doubt or a deadline. Raises named faults."""
        found: list[SinkReport] = []
        while True:
            try:
                attempt, report = self._reports.get_nowait()
            except queue.Empty:
                break
            if attempt is not self._attempt:
                continue
            if isinstance(report, FinalityError):
                self._doubt(report)
                break
            if report.what == "opened":
                self._open = True
            self._under_way = -1
            found.append(report)
        if self._under_way >= 0 and monotonic() > self._due:
            self._leave("its transaction was not committed in time")
        return found

    def submit(self, records: Sequence[Out]) -> int:
        """Write a batch in one transaction."""
        assert self.idle
        assert self._attempt is not None
        self._ticket += 1
        self._under_way = self._ticket
        self._due = monotonic() + self._deadline_s
        self._attempt.jobs.put((self._ticket, records))
        return self._ticket

    @property
    def idle(self) -> bool:
        """Open, and nothing under way."""
        return self._open and self._under_way < 0

    def close(self) -> None:
        """Stop without waiting; an open transaction ends with the next init of this id."""
        if self._attempt is not None:
            self._attempt.left = True
            self._attempt.jobs.put(None)
            self._attempt = None
        self._open = False

    def _doubt(self, error: FinalityError) -> None:
        if error.disposition is Disposition.HALT:
            self.close()
            raise error
        self._leave(str(error))

    def _leave(self, why: str) -> None:
        """Never use this attempt again; begin a new one (T3, T6)."""
        self.failures += 1
        self.last_error = why
        self.close()
        self._under_way = -1
        self._begin()

    def _begin(self) -> None:
        attempt = _Attempt()
        self._attempt = attempt
        wait = _BACKOFF_S[min(self.failures, len(_BACKOFF_S)) - 1] if self.failures else 0.0
        name = f"sink-{self._topic}-{self._partition}"
        threading.Thread(target=self._run, args=(attempt, wait), name=name, daemon=True).start()

    # -- on the thread --------------------------------------------------------------------------

    def _run(self, attempt: _Attempt, wait: float) -> None:
        sleep(wait)
        try:
            self._work(attempt)
        except KafkaException as error:
            self._reports.put((attempt, _in_doubt(translate(error, f"topic {self._topic}"))))
        except FinalityError as error:
            self._reports.put((attempt, error))
        except Exception as error:  # a thread must never die in silence
            self._reports.put((attempt, FinalityError(f"sink of {self._topic}: {type(error).__name__}: {error}")))

    def _work(self, attempt: _Attempt) -> None:
        producer, _ = open_producer(
            self._settings,
            f"{self._topic}.sink",
            {
                "transactional.id": self._id,
                "transaction.timeout.ms": 30_000,
                "compression.type": "lz4",
                "linger.ms": 5,
                "message.max.bytes": self._max_bytes,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
            },
        )
        try:
            producer.init_transactions(_INIT_S)
            self._reports.put((attempt, SinkReport("opened", 0, self._read_tail())))  # T2
            while not attempt.left:
                job = attempt.jobs.get()
                if job is None or attempt.left:
                    return
                self._commit(producer, *job)
                self._reports.put((attempt, SinkReport("done", job[0], None)))
        finally:
            producer.purge()  # T4: dropped, never closed

    def _commit(self, producer: Producer, ticket: int, records: Sequence[Out]) -> None:
        producer.begin_transaction()
        for record in records:
            while True:
                try:
                    producer.produce(
                        self._topic,
                        partition=self._partition,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.commit_transaction(self._deadline_s * 2)


def _in_doubt(error: FinalityError) -> FinalityError:
    """Whatever a transactional call answers, the remedy is the same: begin again at the tail."""
    error.disposition = Disposition.DROP_BATCH
    return error
