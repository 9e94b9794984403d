"""What each error of librdkafka means for us: one table.

A foreign exception stops here. The table says for every code that can reach this project what a service does
(`Disposition`), which of our errors it becomes, and what a person can do. A code that is not in the table is never
retried: it halts the service with the code's name, and then somebody decides what it means and adds a row.

The codes of consumer groups appear because ingest uses one; those of share groups, delegation tokens, elections and
streams groups do not, since nothing here speaks those protocols.

Source: librdkafka `rdkafka.h` (rd_kafka_resp_err_t), INTRODUCTION.md (idempotent producer), Kafka protocol guide.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from finality.core.errors import (
    DependencyError,
    Disposition,
    Fenced,
    FinalityError,
    IntegrityFault,
    Rejected,
    Retry,
    UsageError,
)

__all__ = ["UNCLASSIFIED", "Meaning", "TopicAbsent", "error_of", "meaning", "translate"]


class TopicAbsent(UsageError):
    """A topic or partition is not there (exit 2). Apart from other wrong usage, since set-up expects it."""


class Meaning(NamedTuple):
    """What an error means: what the service does, our error class, and a hint for people."""

    disposition: Disposition
    error: type[FinalityError]
    hint: str


UNCLASSIFIED = Meaning(Disposition.HALT, FinalityError, "nobody has said what this error means; it is not retried")

_WAIT = Meaning(Disposition.RETRY, Retry, "the cluster is moving; it is tried again")
_REACH = Meaning(Disposition.RETRY, DependencyError, "check that the brokers run and can be reached")
_SLOW = Meaning(Disposition.RETRY, DependencyError, "no answer in time; check the brokers' load and the network")
_SHORT = Meaning(Disposition.RETRY, DependencyError, "too few replicas are in sync; bring the missing brokers back")
_FULL = Meaning(Disposition.RETRY, Retry, "the producer's queue is full; it is tried again")
_DROP = Meaning(Disposition.DROP_BATCH, Retry, "the append is in doubt; the log's end is read and decides")
_BIG = Meaning(Disposition.REJECT, Rejected, "the record is larger than the topic's max.message.bytes")
_BAD = Meaning(Disposition.REJECT, Rejected, "the broker refuses this record")
_FENCE = Meaning(Disposition.FENCE, Fenced, "another process has taken over")
_ACCESS = Meaning(Disposition.HALT, UsageError, "the cluster's access rules refuse this user; check the ACLs")
_LOGIN = Meaning(Disposition.HALT, UsageError, "the login was refused; check the security, ssl and sasl options")
_OPTION = Meaning(Disposition.HALT, UsageError, "an option is not accepted; check its name and value")
_FEW = Meaning(Disposition.RETRY, DependencyError, "fewer brokers are up than the topic needs replicas; start them")
_ABSENT = Meaning(Disposition.HALT, TopicAbsent, "the topic or partition does not exist; run `finality setup apply`")
_OLD = Meaning(Disposition.HALT, UsageError, "the brokers do not know this request; use 3.6 or newer")
_SHRUNK = Meaning(Disposition.HALT, IntegrityFault, "records that were there are gone; compare with the other site")
_DISK = Meaning(Disposition.RETRY, DependencyError, "a broker cannot use its disk; see its log")
_DAMAGED = Meaning(Disposition.HALT, IntegrityFault, "bytes read from the log are damaged; check disks and network")
_OURS = Meaning(Disposition.HALT, FinalityError, "a call was made that should not be possible; please report it")
_DEAD = Meaning(Disposition.DROP_BATCH, Retry, "the producer is beyond use; it is dropped and a fresh one begins")
_EXISTS = Meaning(Disposition.RETRY, Retry, "somebody else made it at the same time; what is there is compared")
_GROUP = Meaning(
    Disposition.DROP_BATCH, Retry, "partitions moved to another member; uncommitted records are read again"
)

_TABLE: dict[int, Meaning] = {
    # the cluster moves, or is away
    KafkaError.LEADER_NOT_AVAILABLE: _WAIT,
    KafkaError.NOT_LEADER_FOR_PARTITION: _WAIT,
    KafkaError.REPLICA_NOT_AVAILABLE: _WAIT,
    KafkaError.FENCED_LEADER_EPOCH: _WAIT,
    KafkaError.UNKNOWN_LEADER_EPOCH: _WAIT,
    KafkaError.OFFSET_NOT_AVAILABLE: _WAIT,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: _WAIT,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: _WAIT,
    KafkaError.NOT_CONTROLLER: _WAIT,
    KafkaError.BROKER_NOT_AVAILABLE: _WAIT,
    KafkaError.UNKNOWN_CONTROLLER_ID: _WAIT,
    KafkaError.STALE_BROKER_EPOCH: _WAIT,
    KafkaError.LISTENER_NOT_FOUND: _WAIT,
    KafkaError.FETCH_SESSION_ID_NOT_FOUND: _WAIT,
    KafkaError.INVALID_FETCH_SESSION_EPOCH: _WAIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED: _WAIT,
    KafkaError.COORDINATOR_NOT_AVAILABLE: _WAIT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: _WAIT,
    KafkaError.NOT_COORDINATOR: _WAIT,
    KafkaError.CONCURRENT_TRANSACTIONS: _WAIT,
    KafkaError.UNSTABLE_OFFSET_COMMIT: _WAIT,
    KafkaError.REBOOTSTRAP_REQUIRED: _WAIT,
    KafkaError._NOENT: _WAIT,  # an admin request found no leader
    KafkaError._WAIT_COORD: _WAIT,
    KafkaError._WAIT_CACHE: _WAIT,
    KafkaError._RETRY: _WAIT,
    KafkaError._IN_PROGRESS: _WAIT,
    KafkaError._PREV_IN_PROGRESS: _WAIT,
    KafkaError._INTR: _WAIT,
    KafkaError._PARTIAL: _WAIT,
    KafkaError._OUTDATED: _WAIT,
    KafkaError.NETWORK_EXCEPTION: _REACH,
    KafkaError._TRANSPORT: _REACH,
    KafkaError._ALL_BROKERS_DOWN: _REACH,
    KafkaError._RESOLVE: _REACH,
    KafkaError._UNKNOWN_BROKER: _REACH,
    KafkaError._NODE_UPDATE: _REACH,
    KafkaError._DESTROY_BROKER: _REACH,
    KafkaError.REQUEST_TIMED_OUT: _SLOW,
    KafkaError._TIMED_OUT: _SLOW,
    KafkaError._TIMED_OUT_QUEUE: _SLOW,
    KafkaError.NOT_ENOUGH_REPLICAS: _SHORT,
    KafkaError._ISR_INSUFF: _SHORT,
    KafkaError.KAFKA_STORAGE_ERROR: _DISK,
    KafkaError.LOG_DIR_NOT_FOUND: _DISK,
    # an append in doubt
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _DROP,
    KafkaError._MSG_TIMED_OUT: _DROP,
    KafkaError._PURGE_QUEUE: _DROP,
    KafkaError._PURGE_INFLIGHT: _DROP,
    KafkaError.TRANSACTION_ABORTABLE: _DROP,
    KafkaError._INCONSISTENT: _DROP,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: _DEAD,
    KafkaError.DUPLICATE_SEQUENCE_NUMBER: _DEAD,
    KafkaError.UNKNOWN_PRODUCER_ID: _DEAD,
    KafkaError.INVALID_PRODUCER_ID_MAPPING: _DEAD,
    KafkaError.INVALID_TXN_STATE: _DEAD,
    KafkaError._GAPLESS_GUARANTEE: _DEAD,
    KafkaError._FATAL: _DEAD,
    KafkaError._QUEUE_FULL: _FULL,
    # one record
    KafkaError.MSG_SIZE_TOO_LARGE: _BIG,
    KafkaError.RECORD_LIST_TOO_LARGE: _BIG,
    KafkaError.INVALID_RECORD: _BAD,
    KafkaError.INVALID_TIMESTAMP: _BAD,
    # somebody else owns it
    KafkaError._FENCED: _FENCE,
    KafkaError.PRODUCER_FENCED: _FENCE,
    KafkaError.INVALID_PRODUCER_EPOCH: _FENCE,
    KafkaError.TRANSACTION_COORDINATOR_FENCED: _FENCE,
    KafkaError.FENCED_INSTANCE_ID: _FENCE,
    # group membership (ingest)
    KafkaError.REBALANCE_IN_PROGRESS: _GROUP,
    KafkaError.ILLEGAL_GENERATION: _GROUP,
    KafkaError.UNKNOWN_MEMBER_ID: _GROUP,
    KafkaError.FENCED_MEMBER_EPOCH: _GROUP,
    KafkaError.STALE_MEMBER_EPOCH: _GROUP,
    KafkaError.UNRELEASED_INSTANCE_ID: _GROUP,
    KafkaError.MEMBER_ID_REQUIRED: _GROUP,
    KafkaError._ASSIGNMENT_LOST: _GROUP,
    KafkaError._MAX_POLL_EXCEEDED: _GROUP,
    KafkaError._NO_OFFSET: _GROUP,
    KafkaError.GROUP_MAX_SIZE_REACHED: _OPTION,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: _OPTION,
    KafkaError.INVALID_SESSION_TIMEOUT: _OPTION,
    KafkaError.INVALID_GROUP_ID: _OPTION,
    KafkaError.OFFSET_METADATA_TOO_LARGE: _OURS,
    KafkaError.INVALID_COMMIT_OFFSET_SIZE: _OURS,
    # records are gone or damaged
    KafkaError._AUTO_OFFSET_RESET: _SHRUNK,
    KafkaError.OFFSET_OUT_OF_RANGE: _SHRUNK,
    KafkaError._LOG_TRUNCATION: _SHRUNK,
    KafkaError.UNKNOWN_TOPIC_ID: _SHRUNK,
    KafkaError.INCONSISTENT_TOPIC_ID: _SHRUNK,
    KafkaError.INVALID_MSG: _DAMAGED,
    KafkaError.INVALID_MSG_SIZE: _DAMAGED,
    KafkaError._BAD_MSG: _DAMAGED,
    KafkaError._BAD_COMPRESSION: _DAMAGED,
    KafkaError._UNDERFLOW: _DAMAGED,
    # settings, access, things that do not exist
    KafkaError.UNKNOWN_TOPIC_OR_PART: _ABSENT,
    KafkaError._UNKNOWN_TOPIC: _ABSENT,
    KafkaError._UNKNOWN_PARTITION: _ABSENT,
    KafkaError.TOPIC_EXCEPTION: _OPTION,
    KafkaError.TOPIC_ALREADY_EXISTS: _EXISTS,
    KafkaError.POLICY_VIOLATION: _ACCESS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _ACCESS,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _ACCESS,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _ACCESS,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ACCESS,
    KafkaError.TOPIC_DELETION_DISABLED: _ACCESS,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError.ILLEGAL_SASL_STATE: _LOGIN,
    KafkaError.SECURITY_DISABLED: _LOGIN,
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError._SSL: _LOGIN,
    KafkaError.INVALID_CONFIG: _OPTION,
    KafkaError.INVALID_PARTITIONS: _OPTION,
    KafkaError.INVALID_REPLICATION_FACTOR: _FEW,
    KafkaError.INVALID_REPLICA_ASSIGNMENT: _OPTION,
    KafkaError.INVALID_REQUIRED_ACKS: _OPTION,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: _OPTION,
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: _OPTION,
    KafkaError._INVALID_ARG: _OPTION,
    KafkaError._NOT_CONFIGURED: _OPTION,
    KafkaError.UNSUPPORTED_VERSION: _OLD,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: _OLD,
    KafkaError._UNSUPPORTED_FEATURE: _OLD,
    # calls that we should not make
    KafkaError.INVALID_REQUEST: _OURS,
    KafkaError._STATE: _OURS,
    KafkaError._CONFLICT: _OURS,
    KafkaError._DESTROY: _OURS,
    KafkaError._READ_ONLY: _OURS,
    KafkaError._CRIT_SYS_RESOURCE: _OURS,
    KafkaError._FS: _OURS,
    KafkaError._FAIL: _OURS,
    KafkaError._NOT_IMPLEMENTED: _OURS,
    KafkaError.UNKNOWN: UNCLASSIFIED,
}


def meaning(code: int) -> Meaning:
    """What the code means; `UNCLASSIFIED` for one that is not in the table."""
    return _TABLE.get(code, UNCLASSIFIED)


def error_of(error: KafkaError | KafkaException) -> KafkaError:
    """The client's error inside an exception of it."""
    if isinstance(error, KafkaError):
        return error
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, KafkaError) else KafkaError(KafkaError.UNKNOWN, str(error))


def translate(error: KafkaError | KafkaException, where: str) -> FinalityError:
    """Our error for a client's one. where: what was being done, and at which topic or address, for people."""
    inner = error_of(error)
    found = meaning(inner.code())
    text = f"{where}: {inner.str()} ({inner.name()}); {found.hint}"
    ours: FinalityError
    if issubclass(found.error, Rejected):
        ours = found.error("TOO_LARGE" if found is _BIG else "REFUSED_BY_BROKER", text)
    elif issubclass(found.error, IntegrityFault):
        ours = found.error("LOG_SHRUNK" if found is _SHRUNK else "LOG_DAMAGED", text)
    else:
        ours = found.error(text)
    ours.disposition = found.disposition
    return ours
