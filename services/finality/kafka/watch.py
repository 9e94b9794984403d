"""Watches a topic from the side: where its partitions end, and whether it is still the same topic.

A consumer cannot say this about itself. Its cached end offset comes with the records it fetches, so a stuck consumer
would believe itself at the end; and librdkafka follows a topic that was deleted and created again without a word, from
the old offset, when the new one is long enough. So an admin client asks the brokers: ends about every second, the topic
id about every two. Nothing here blocks except `open` and `diagnose`, which take a bound.

An answer accuses only when it is repeated: one that was asked after the first accusation must say the same, since a
broker that is just coming up may know less than the truth.

Leaves out: a topic that is re-created *and* filled past our position between two questions; its first records may be
handed out for up to two seconds before the fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any, Literal

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from finality.core.errors import Disposition, FinalityError, IntegrityFault, Retry, UsageError
from finality.core.ports import Clock, End
from finality.kafka.connection import KafkaSettings, open_admin
from finality.kafka.errors import TopicAbsent, error_of, meaning, translate

__all__ = ["GONE", "Edge", "TopicWatch", "ask", "ask_offsets", "describe_patiently", "list_offsets", "topic_ids"]

_ENDS_EVERY_NS = 1_000_000_000
_IDS_EVERY_NS = 2_000_000_000
_PATIENCE_NS = 2_000_000_000
_ENDS_REQUEST_S = 1.0  # one dead leader holds up the answer for all partitions, and a leader must show that it lives
_ID_REQUEST_S = 5.0
_TRY_S = 2.0  # of one question among several, so that the next one can go to a new leader
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)

Offsets = dict[int, "Future[Any]"]
Edge = Literal["start", "end"]


def ask(future: Future[Any], where: str, timeout_s: float) -> Any:
    """The answer to one admin request, our error, or `Retry` when none came in time."""
    try:
        return future.result(timeout_s)
    except KafkaException as error:
        raise translate(error, where) from None
    except TimeoutError:
        raise Retry(f"{where}: no answer within {timeout_s:g} s; check that the brokers can be reached") from None


def ask_offsets(
    admin: AdminClient,
    topic: str,
    partitions: Iterable[int],
    edge: Edge,
    isolation: str,
    where: str,
    timeout_s: float,
) -> dict[int, int]:
    """Start or end offsets now. Asks again while leaders move; after `timeout_s` raises the last answer's error.

    A partition that does not exist answers like one without a leader; so the topic is described before the next try.
    Absence must be said for two seconds: a broker may hear of a new topic later than its neighbour.
    """
    wanted = list(partitions)
    deadline = monotonic() + timeout_s
    patience = monotonic() + _PATIENCE_NS / 1e9
    while True:
        futures = list_offsets(admin, topic, wanted, edge, isolation, min(timeout_s, _TRY_S))
        try:
            found = {partition: int(ask(future, where, timeout_s + 1).offset) for partition, future in futures.items()}
            if min(found.values(), default=0) >= 0:
                return found
            if monotonic() > deadline:
                raise Retry(f"{where}: no broker said where its partitions end; check that the brokers are up")
        except TopicAbsent:
            if monotonic() > patience:
                raise
        except FinalityError as error:
            if error.disposition is not Disposition.RETRY or monotonic() > deadline:
                raise
        sleep(0.05)
        _, count = describe_patiently(admin, topic, where, timeout_s)
        if wanted and max(wanted) >= count:
            raise TopicAbsent(f"{where} has {count} partitions, none numbered {max(wanted)}; check the set-up")


def describe_topic(admin: AdminClient, topic: str, timeout_s: float) -> Future[Any]:
    """Ask for a topic's description."""
    return admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)[topic]


def describe_patiently(admin: AdminClient, topic: str, where: str, timeout_s: float) -> tuple[str, int]:
    """Id and partition count of a topic. Raises `TopicAbsent` when it is not there, said for two seconds."""
    patience = monotonic() + _PATIENCE_NS / 1e9
    while True:
        try:
            return topic_ids(ask(describe_topic(admin, topic, timeout_s), where, timeout_s + 1))
        except TopicAbsent:
            if monotonic() > patience:
                raise
        sleep(0.1)


def list_offsets(
    admin: AdminClient, topic: str, partitions: Iterable[int], edge: Edge, isolation: str, timeout_s: float
) -> Offsets:
    """Ask for the start or end offsets; one future for each partition. isolation: as for a consumer."""
    spec = OffsetSpec.latest() if edge == "end" else OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    request = {TopicPartition(topic, partition): spec for partition in partitions}
    futures = admin.list_offsets(request, isolation_level=level, request_timeout=timeout_s)
    return {place.partition: future for place, future in futures.items()}


def topic_ids(description: Any) -> tuple[str, int]:
    """Topic id as Kafka writes it (22 characters) and partition count of a topic description."""
    text = str(description.topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    return text, len(description.partitions)


class TopicWatch:
    """Ends and identity of one topic. ends: newest known end offsets. topic_id: of the topic that was opened."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        partitions: Iterable[int],
        clock: Clock,
        isolation: str,
    ) -> None:
        self._admin = open_admin(settings, f"{topic}.watch")
        self._where = f"topic {topic} at {settings.servers}"
        self._topic = topic
        self._partitions = sorted(partitions)
        self._clock = clock
        self._isolation = isolation
        self.ends: dict[int, End] = {}
        self.topic_id = ""
        self._asked_ends: tuple[int, Mapping[int, int], Offsets] | None = None
        self._asked_id: Future[Any] | None = None
        self._next_ends = 0
        self._next_id = 0
        self._below: dict[int, int] = {}  # end offset that accused a partition, waiting to be confirmed
        self._strange = ""  # what the last identity answer accused the topic of, waiting to be confirmed

    def open(self, timeout_s: float) -> None:
        """Learn the topic's id. Raises `TopicAbsent` when it is not there, `UsageError` when a partition is not."""
        self.topic_id, count = describe_patiently(self._admin, self._topic, self._where, timeout_s)
        absent = [partition for partition in self._partitions if partition >= count]
        if absent:
            raise UsageError(f"{self._where} has {count} partitions, none numbered {absent[0]}; check the set-up")

    def offsets(self, edge: Edge, timeout_s: float) -> dict[int, int]:
        """Start or end offsets now. Blocks at most about `timeout_s`."""
        return ask_offsets(self._admin, self._topic, self._partitions, edge, self._isolation, self._where, timeout_s)

    def tick(self, positions: Mapping[int, int]) -> FinalityError | None:
        """Take in what was answered, ask again when it is time. The fault that the answers prove, if any."""
        now = self._clock.monotonic_ns()
        fault = self._harvest_ends() or self._harvest_id()
        if fault is not None:
            return fault
        if self._asked_ends is None and now >= self._next_ends:
            self._next_ends = now + _ENDS_EVERY_NS
            futures = list_offsets(self._admin, self._topic, self._partitions, "end", self._isolation, _ENDS_REQUEST_S)
            self._asked_ends = (now, dict(positions), futures)
        if self._asked_id is None and now >= self._next_id:
            self._next_id = now + _IDS_EVERY_NS
            self._asked_id = self._describe(_ID_REQUEST_S)
        return None

    def diagnose(self, partition: int, position: int, timeout_s: float) -> IntegrityFault | None:
        """Why the broker says that `position` does not exist; None when it does exist after all.

        Raises `Retry` or `DependencyError` when the brokers do not answer.
        """
        try:
            found, _ = topic_ids(ask(self._describe(timeout_s), self._where, timeout_s + 1))
        except TopicAbsent:
            return self._gone()
        if found != self.topic_id:
            return self._recreated(found)
        start = self.offsets("start", timeout_s)[partition]
        if start > position:
            return IntegrityFault(
                "RETENTION_OVERTOOK",
                f"{self._where}, partition {partition}: the next record to read is {position}, the log now begins at "
                f"{start}; what lay between was removed unread: raise retention, take it from the other site",
            )
        end = self.offsets("end", timeout_s)[partition]
        return self._shrunk(partition, position, end) if end < position else None

    def _describe(self, timeout_s: float) -> Future[Any]:
        return describe_topic(self._admin, self._topic, timeout_s)

    def _harvest_ends(self) -> FinalityError | None:
        if self._asked_ends is None or not all(future.done() for future in self._asked_ends[2].values()):
            return None
        asked_at, positions, futures = self._asked_ends
        self._asked_ends = None
        for partition, future in futures.items():
            error = future.exception()
            if error is not None:
                fault = self._serious(error)
                if fault is not None:
                    return fault
                continue
            end = int(future.result().offset)
            if end < 0:
                continue  # a broker died before it answered; librdkafka calls that offset -1001, not an error
            position = positions.get(partition, 0)
            if end < position:
                if partition in self._below:
                    return self._shrunk(partition, position, end)
                self._below[partition] = end
                continue
            self._below.pop(partition, None)
            self.ends[partition] = End(end, asked_at)
        return None

    def _harvest_id(self) -> FinalityError | None:
        if self._asked_id is None or not self._asked_id.done():
            return None
        future, self._asked_id = self._asked_id, None
        error = future.exception()
        if error is None:
            found, _ = topic_ids(future.result())
            accused = "" if found == self.topic_id else found
            fault = self._recreated(found) if accused else None
        elif isinstance(error, KafkaException) and error_of(error).code() in GONE:
            accused, fault = "gone", self._gone()
        else:
            return self._serious(error)
        confirmed = accused != "" and accused == self._strange
        self._strange = accused
        return fault if confirmed else None

    def _serious(self, error: BaseException) -> FinalityError | None:
        """An answer that waiting will not mend. Absence is judged by the identity question alone."""
        if not isinstance(error, KafkaException):
            return None
        inner = error_of(error)
        if inner.code() in GONE or meaning(inner.code()).disposition is Disposition.RETRY:
            return None
        return translate(inner, self._where)

    def _recreated(self, found: str) -> IntegrityFault:
        return IntegrityFault(
            "TOPIC_RECREATED",
            f"{self._where}: it was opened with id {self.topic_id} and now has id {found}; somebody deleted it and "
            "made it again: restore it from the other site",
        )

    def _gone(self) -> IntegrityFault:
        return IntegrityFault(
            "LOG_SHRUNK", f"{self._where}: it no longer exists; somebody deleted it: restore it from the other site"
        )

    def _shrunk(self, partition: int, position: int, end: int) -> IntegrityFault:
        return IntegrityFault(
            "LOG_SHRUNK",
            f"{self._where}, partition {partition}: records were read up to {position}, the log now ends at {end}; "
            "acknowledged records are gone (unclean election, restored disk): compare with the other site",
        )
