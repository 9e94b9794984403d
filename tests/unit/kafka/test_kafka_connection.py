"""Connection options: what is taken, what is refused, what is shown."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from finality.core.errors import UsageError
from finality.kafka.connection import ClientEvents, KafkaSettings, open_admin, open_consumer, open_producer


def test_dotted_keys_and_nested_tables_are_the_same() -> None:
    dotted = KafkaSettings.of({"bootstrap.servers": "a:1", "enable.ssl.certificate.verification": False})
    nested = KafkaSettings.of({"bootstrap": {"servers": "a:1"}, "enable": {"ssl.certificate.verification": False}})
    assert dotted == nested
    assert dotted.options["enable.ssl.certificate.verification"] == "false"
    assert dotted.servers == "a:1"


def test_all_options_of_tls_and_sasl_are_passed_through() -> None:
    table = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.cipher.suites": "x",
    }
    assert KafkaSettings.of(table).options == table


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"])
def test_a_secret_is_never_shown(name: str) -> None:
    settings = KafkaSettings.of({"bootstrap.servers": "a:1", name: "hush-hush"})
    for shown in (repr(settings), str(settings), f"{settings}", f"{settings!r}"):
        assert "hush-hush" not in shown
        assert f"{name}=***" in shown


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "'bootstrap.servers' is missing"),
        ({"bootstrap.servers": ""}, "'bootstrap.servers' is missing"),
        ({"bootstrap.server": "a:1"}, "did you mean 'bootstrap.servers'?"),
        ({"bootstrap.servers": "a:1", "acks": "1"}, "'acks' is unknown or not yours to set"),
        ({"bootstrap.servers": "a:1", "isolation.level": "x"}, "not yours to set"),
        ({"bootstrap.servers": "a:1", "security.protocl": "SSL"}, "did you mean 'security.protocol'?"),
    ],
)
def test_what_is_refused_is_named(table: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        KafkaSettings.of(table)


def test_an_option_that_the_client_refuses_is_wrong_usage_whatever_is_opened() -> None:
    settings = KafkaSettings.of({"bootstrap.servers": "localhost:1", "ssl.no.such": "x"})
    with pytest.raises(UsageError, match=r"ssl\.no\.such"):
        open_admin(settings, "t")
    with pytest.raises(UsageError, match=r"ssl\.no\.such"):
        open_consumer(settings, "t", {})
    with pytest.raises(UsageError, match=r"ssl\.no\.such"):
        open_producer(settings, "t", {})


def test_callbacks_record_and_never_raise() -> None:
    events = ClientEvents("t")
    events.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down"))
    events.on_error(KafkaError(KafkaError._FATAL, "dead", True))
    events.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down again"))
    events.log(30, "%s %d", "not a number", "x")
    assert events.counts == {"_ALL_BROKERS_DOWN": 2, "_FATAL": 1, "log": 1}
    assert events.last == "all down again"
    assert events.fatal == "_FATAL"
