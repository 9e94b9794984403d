"""Every error of the client either has a meaning here or halts."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from finality.core.errors import Disposition, FinalityError, IntegrityFault, Rejected
from finality.kafka.errors import UNCLASSIFIED, meaning, translate

# What the protocols that we do not speak may answer, and what only callers of other functions get to see. A new
# version of the client that brings a new code fails the test below until somebody decides where it belongs.
OUT_OF_REACH = [
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_AUTH_DISABLED",
    "DELEGATION_TOKEN_EXPIRED",
    "DELEGATION_TOKEN_NOT_FOUND",
    "DELEGATION_TOKEN_OWNER_MISMATCH",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "DUPLICATE_RESOURCE",
    "DUPLICATE_VOTER",
    "ELECTION_NOT_NEEDED",
    "FEATURE_UPDATE_FAILED",
    "FENCED_STATE_EPOCH",
    "GROUP_ID_NOT_FOUND",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "INCONSISTENT_VOTER_SET",
    "INVALID_PRINCIPAL_TYPE",
    "INVALID_RECORD_STATE",
    "INVALID_REGISTRATION",
    "INVALID_REGULAR_EXPRESSION",
    "INVALID_SHARE_SESSION_EPOCH",
    "INVALID_UPDATE_VERSION",
    "INVALID_VOTER_KEY",
    "MISMATCHED_ENDPOINT_TYPE",
    "NON_EMPTY_GROUP",
    "NO_ERROR",
    "NO_REASSIGNMENT_IN_PROGRESS",
    "OPERATION_NOT_ATTEMPTED",
    "PRINCIPAL_DESERIALIZATION_FAILURE",
    "REASSIGNMENT_IN_PROGRESS",
    "RESOURCE_NOT_FOUND",
    "SHARE_SESSION_LIMIT_REACHED",
    "SHARE_SESSION_NOT_FOUND",
    "STALE_CTRL_EPOCH",
    "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH",
    "STREAMS_TOPOLOGY_FENCED",
    "TELEMETRY_TOO_LARGE",
    "UNACCEPTABLE_CREDENTIAL",
    "UNKNOWN_SUBSCRIPTION_ID",
    "UNSUPPORTED_ASSIGNOR",
    "UNSUPPORTED_ENDPOINT_TYPE",
    "VOTER_NOT_FOUND",
    "_APPLICATION",
    "_ASSIGN_PARTITIONS",
    "_EXISTING_SUBSCRIPTION",
    "_INVALID_DIFFERENT_RECORD",
    "_INVALID_TYPE",
    "_KEY_DESERIALIZATION",
    "_KEY_SERIALIZATION",
    "_NOOP",
    "_PARTITION_EOF",
    "_REVOKE_PARTITIONS",
    "_UNKNOWN_GROUP",
    "_UNKNOWN_PROTOCOL",
    "_VALUE_DESERIALIZATION",
    "_VALUE_SERIALIZATION",
    "UNKNOWN",
]


def codes() -> dict[str, int]:
    """Name and number of every error that the client knows."""
    names = [name for name in dir(KafkaError) if name.strip("_").isupper()]
    return {name: getattr(KafkaError, name) for name in names if isinstance(getattr(KafkaError, name), int)}


def test_each_code_is_classified_or_known_to_be_out_of_reach() -> None:
    unclassified = {name for name, code in codes().items() if meaning(code) is UNCLASSIFIED}
    assert unclassified == set(OUT_OF_REACH) & set(codes())


def test_a_code_that_nobody_classified_halts() -> None:
    error = translate(KafkaError(KafkaError.UNKNOWN, "odd"), "poll")
    assert type(error) is FinalityError
    assert error.disposition is Disposition.HALT
    assert meaning(424242) is UNCLASSIFIED


@pytest.mark.parametrize("name", sorted(codes()))
def test_a_translated_error_carries_the_disposition_of_the_table_and_the_code_s_name(name: str) -> None:
    code = codes()[name]
    error = translate(KafkaException(KafkaError(code, "what the broker said")), "read topic t")
    assert error.disposition is meaning(code).disposition
    assert isinstance(error, meaning(code).error)
    assert "read topic t" in str(error)
    assert KafkaError(code).name() in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("code", "disposition"),
    [
        (KafkaError._ALL_BROKERS_DOWN, Disposition.RETRY),
        (KafkaError.NOT_LEADER_FOR_PARTITION, Disposition.RETRY),
        (KafkaError._MSG_TIMED_OUT, Disposition.DROP_BATCH),
        (KafkaError._FATAL, Disposition.DROP_BATCH),
        (KafkaError.MSG_SIZE_TOO_LARGE, Disposition.REJECT),
        (KafkaError.PRODUCER_FENCED, Disposition.FENCE),
        (KafkaError._LOG_TRUNCATION, Disposition.HALT),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Disposition.HALT),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Disposition.HALT),
    ],
)
def test_what_a_service_does(code: int, disposition: Disposition) -> None:
    assert meaning(code).disposition is disposition


def test_too_large_and_a_shrunk_log_have_the_names_that_others_rely_on() -> None:
    too_large = translate(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "append")
    shrunk = translate(KafkaError(KafkaError._LOG_TRUNCATION), "read")
    assert isinstance(too_large, Rejected)
    assert too_large.code == "TOO_LARGE"
    assert isinstance(shrunk, IntegrityFault)
    assert shrunk.name == "LOG_SHRUNK"
