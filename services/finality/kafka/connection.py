"""Where a Kafka cluster is, how to be let in, and how every client of ours is made.

A context's `kafka` table holds `bootstrap.servers` and any option of TLS, SASL or the network, by the names that
librdkafka gives them; they are handed over unchanged. Everything that the protocol rests on (acknowledgements,
idempotence, offset resets, isolation) is set beside the code that needs it and cannot be set from outside.

A client's own log lines go to the standard logger `finality.kafka` at debug level (so they are silent unless asked
for), its errors into `ClientEvents`. Both are called from inside `poll` and `consume`, where an exception would
silently drop fetched messages; neither can raise.

Leaves out: where the table comes from. Source of names: librdkafka, CONFIGURATION.md.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from finality.core.errors import UsageError
from finality.kafka.errors import translate

__all__ = ["ClientEvents", "KafkaSettings", "open_admin", "open_consumer", "open_producer"]

SERVERS = "bootstrap.servers"
_SECRET_PARTS = ("password", "secret", "key.pem", "oauthbearer.config", "assertion")
_PREFIXES = ("ssl.", "sasl.", "https.")
_OPTIONS = (
    SERVERS,
    "security.protocol",
    "enable.ssl.certificate.verification",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "broker.address.family",
    "client.dns.lookup",
    "client.rack",
    "socket.keepalive.enable",
    "connections.max.idle.ms",
    # the commonest of the prefixed ones, so that a slip of the pen finds its neighbour
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
)
_COMMON: dict[str, Any] = {
    "log_level": 4,
    "log.connection.close": False,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "retry.backoff.ms": 50,
    "allow.auto.create.topics": False,
}
# An admin request that waits for a dead broker spins both of librdkafka's threads at full speed while connections are
# made on demand (2.16, measured: 58 CPU seconds in 30 s, which starved the very brokers that were to take over); and an
# admin client asks a cached leader or controller for up to 15 minutes, having no topics of its own to refresh.
_ADMIN: dict[str, Any] = {
    "enable.sparse.connections": False,
    "topic.metadata.refresh.interval.ms": 1000,
    "metadata.max.age.ms": 1000,
}


class KafkaSettings(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """How to reach one cluster. options: librdkafka's names and values, `bootstrap.servers` among them."""

    options: dict[str, str]

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> KafkaSettings:
        """Settings from a configuration table; dotted keys and nested tables mean the same.

        Raises `UsageError` naming an unknown option (with the nearest known one) or a missing `bootstrap.servers`.
        """
        options = dict(sorted(_flatten(table, "").items()))
        for name in options:
            if name in _OPTIONS or name.startswith(_PREFIXES):
                continue
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"kafka option {name!r} is unknown or not yours to set{meant}")
        if not options.get(SERVERS):
            raise UsageError(f"kafka option {SERVERS!r} is missing: give host:port of one or more brokers")
        return cls(options)

    @property
    def servers(self) -> str:
        """The addresses that were given, for messages."""
        return self.options[SERVERS]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(name, value)}" for name, value in self.options.items())
        return f"KafkaSettings({shown})"

    __str__ = __repr__


def _flatten(table: Mapping[str, Any], prefix: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, bool):
            flat[prefix + name] = "true" if value else "false"
        else:
            flat[prefix + name] = str(value)
    return flat


def _shown(name: str, value: str) -> str:
    return "***" if any(part in name for part in _SECRET_PARTS) else value


class ClientEvents:
    """What a client said beside its answers: errors by name, the last one, and the first fatal one.

    counts: how often each error came. last: the latest as text. fatal: name of the fatal error, "" while there is none.
    """

    def __init__(self, client: str) -> None:
        self.counts: dict[str, int] = {}
        self.last = ""
        self.fatal = ""
        self._client = client
        self._log = logging.getLogger("finality.kafka")

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's error callback. Never raises."""
        name = error.name()
        self.counts[name] = self.counts.get(name, 0) + 1
        self.last = error.str()
        if error.fatal() and not self.fatal:
            self.fatal = name

    def log(self, level: int, message: str, *values: Any) -> None:
        """librdkafka's logger; level as in the standard logging module. Never raises."""
        try:
            text = message % values if values else message
            self._log.debug("%s: level %s: %s", self._client, level, text)
        except Exception:  # a callback that raises would drop fetched messages
            self.counts["log"] = self.counts.get("log", 0) + 1


def open_consumer(settings: KafkaSettings, client: str, own: Mapping[str, Any]) -> tuple[Consumer, ClientEvents]:
    """A consumer that joins no group and commits nothing unless `own` says so. Raises `UsageError` for bad options."""
    events, config = _config(settings, client, {"group.id": client, **own})
    try:
        return Consumer(config, logger=events), events
    except KafkaException as error:
        raise _refused(settings, error) from None


def open_producer(settings: KafkaSettings, client: str, own: Mapping[str, Any]) -> tuple[Producer, ClientEvents]:
    """A producer. Raises `UsageError` for options that librdkafka refuses."""
    events, config = _config(settings, client, own)
    try:
        return Producer(config, logger=events), events
    except KafkaException as error:
        raise _refused(settings, error) from None


def open_admin(settings: KafkaSettings, client: str) -> AdminClient:
    """An admin client. Raises `UsageError` for options that librdkafka refuses."""
    events, config = _config(settings, client, _ADMIN)
    try:
        return AdminClient(config, logger=events)
    except KafkaException as error:
        raise _refused(settings, error) from None


def _config(settings: KafkaSettings, client: str, own: Mapping[str, Any]) -> tuple[ClientEvents, dict[str, Any]]:
    events = ClientEvents(client)
    config = {**_COMMON, **settings.options, "client.id": client, **own, "error_cb": events.on_error}
    return events, config


def _refused(settings: KafkaSettings, error: KafkaException) -> Exception:
    return translate(error, f"kafka options for {settings.servers}")
