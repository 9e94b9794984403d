"""The context of every command: which sites there are, how to reach them, and the options of the services.

One TOML file, chosen in this order: `--config`, `FINALITY_CONFIG`, `.finality/stack/current.toml`. Read once, checked
together before anything connects, frozen. Unknown keys are errors. Secrets never appear in a message or fingerprint.

```toml
namespace = "finality"
[sites.primary]
kafka = {"bootstrap.servers" = "127.0.0.1:9092"}      # and every TLS and SASL option of librdkafka
redis = {url = "redis://127.0.0.1:6379/0"}            # or urls = [...]: written all, read as a union
voters = ["r1"]
[sources.openlineage]
tenant = "default"
instance = "prod"
partition_by = "root"                                 # default: job
```
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from finality.core.errors import DependencyError, UsageError
from finality.core.names import is_namespace

__all__ = ["CONFIG_VARIABLE", "CURRENT", "Context", "Site", "SourceOptions", "load_context"]

CONFIG_VARIABLE = "FINALITY_CONFIG"
CURRENT = Path(".finality/stack/current.toml")


class RedisTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the ledger is. url or urls; user and password may stand in them or beside."""

    url: str = ""
    urls: tuple[str, ...] = ()
    username: str = ""
    password: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every address, in the order in which the lease is looked for."""
        return self.urls or ((self.url,) if self.url else ())


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site. kafka: options of the client, by librdkafka's names."""

    kafka: dict[str, Any]
    redis: RedisTable = RedisTable()
    voters: tuple[str, ...] = ("r1",)


class SourceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of one source: tenant, instance, zone of times without one, and what decides the input partition."""

    tenant: str = "default"
    instance: str = "default"
    zone: str = ""
    partition_by: Literal["job", "root"] = "job"


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. path: where it was read from."""

    sites: dict[str, Site]
    namespace: str = "finality"
    sources: dict[str, SourceOptions] = {}
    path: str = ""

    def site(self, name: str) -> Site:
        """A site by name. Raises `UsageError` with the nearest known name."""
        found = self.sites.get(name)
        if found is None:
            raise UsageError(f"site {name!r} is not in {self.path}{_near(name, self.sites)}")
        return found

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits over the settings without secrets."""
        document = msgspec.to_builtins(self)
        document.pop("path", None)
        clean = _without_secrets(document)
        return sha256(msgspec.json.encode(clean, order="sorted")).hexdigest()[:12]


def load_context(config: str | None, environment: Mapping[str, str] | None = None) -> Context:
    """The context of this command. Raises `UsageError` (exit 2), or `DependencyError` when there is none yet."""
    environment = os.environ if environment is None else environment
    chosen = config or environment.get(CONFIG_VARIABLE)
    path = Path(chosen) if chosen else CURRENT
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        if chosen:
            raise UsageError(f"no configuration at {path}; check --config or {CONFIG_VARIABLE}") from None
        raise DependencyError(
            "no site is known here: start one with 'finality stack up', or name a file with --config"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return _parse(raw, str(path))


def _parse(raw: bytes, path: str) -> Context:
    try:
        document = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    known = {"namespace", "sites", "sources"}
    for key in document:
        if key not in known:
            raise UsageError(f"{path}: {key!r} is no setting{_near(key, known)}")
    try:
        context = msgspec.convert({**document, "path": path}, Context)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from None
    _check(context)
    return context


def _check(context: Context) -> None:
    if not is_namespace(context.namespace):
        raise UsageError(f"{context.path}: namespace {context.namespace!r} must be of a-z, 0-9, '.' and '-'")
    if not context.sites:
        raise UsageError(f"{context.path}: no site; add a table [sites.primary]")
    for name, site in context.sites.items():
        if not is_namespace(name):
            raise UsageError(f"{context.path}: site {name!r} must be of a-z, 0-9, '.' and '-'")
        if not site.voters or len(set(site.voters)) != len(site.voters):
            raise UsageError(f"{context.path}: sites.{name}.voters must name each voter once")
        if "bootstrap.servers" not in site.kafka:
            raise UsageError(f"{context.path}: sites.{name}.kafka lacks 'bootstrap.servers'")


def _near(name: str, known: Mapping[str, Any] | set[str]) -> str:
    found = get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else f"; known are {', '.join(sorted(known))}"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "***"
            if any(word in key for word in ("password", "secret", "key.pem", "url"))
            else _without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
