"""One Redis-compatible server: a batch of scripts and reads in one round trip, within a bound, never retried.

The client library's connection is used below its client and pool, for three reasons. A batch costs half the time of
the library's pipeline. Several servers can be asked at once: `begin` sends, `finish` reads. And nothing is retried
behind our back (the library's clients retry ten times: a call on a frozen server blocked for a minute).

Scripts go out as EVALSHA once this connection has seen them run, else as EVAL, which loads them: no extra round trip,
no SCRIPT LOAD right. A NOSCRIPT answer (somebody flushed the scripts) repeats the batch once with the full text, within
the same bound; every script does the same when it runs twice.

After a failure the server is left alone for four times as long as the failure took, so that a frozen server costs the
loop a fifth of its time, not all of it. RESP2 is pinned: no HELLO, hence one command less in the access list.

Left out: clusters that answer MOVED (keys carry hash tags, so a client that routes could be put here), and a bound on
name resolution, which the operating system does not give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from finality.core.errors import DependencyError, FinalityError, UsageError

__all__ = ["Call", "RedisOptions", "Script", "Server"]

_SHORTEST_PAUSE_S = 0.05
_PAUSE_FACTOR = 4


@dataclass(frozen=True)
class RedisOptions:
    """How to reach Redis. What stands in a URL (user, password, database) wins, time-outs and retries excepted.

    timeout_s bounds one connect and one exchange. ca_file, cert_file, key_file: PEM, used with `rediss://` URLs.
    """

    timeout_s: float = 0.25
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    check_hostname: bool = True


class Script(NamedTuple):
    """A Lua script and the digest by which servers know it."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> Script:
        """The script with its digest as servers compute it (SHA-1, a name and no protection)."""
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Call(NamedTuple):
    """One run of a script on one key."""

    script: Script
    key: str
    args: tuple[str, ...]


class _Wire(Protocol):
    """The part of the library's connection that is used here."""

    def pack_commands(self, commands: Sequence[tuple[str, ...]]) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes]) -> None: ...
    def read_response(self, *, timeout: float) -> Any: ...
    def disconnect(self) -> None: ...


def _connection(url: str, options: RedisOptions) -> tuple[_Wire, str]:
    """A connection that is not open yet, and where it leads (no credentials). Raises `UsageError`."""
    try:
        parsed: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:  # its text may quote a part of the password
        raise UsageError(
            f"Redis address {_without_secret(url)}: write redis://HOST:PORT, rediss://HOST:PORT or unix://PATH"
        ) from None
    kind = parsed.pop("connection_class", Connection)
    arguments: dict[str, Any] = {"username": options.username or None, "password": options.password or None}
    if issubclass(kind, SSLConnection):
        arguments |= {
            "ssl_ca_certs": options.ca_file or None,
            "ssl_certfile": options.cert_file or None,
            "ssl_keyfile": options.key_file or None,
            "ssl_check_hostname": options.check_hostname,
        }
    arguments |= parsed
    arguments |= {
        "socket_timeout": options.timeout_s,
        "socket_connect_timeout": options.timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "retry_on_error": [],
        "health_check_interval": 0,
        "protocol": 2,
        "driver_info": None,
        "decode_responses": False,
    }
    if issubclass(kind, UnixDomainSocketConnection):
        place = str(parsed.get("path", ""))
    else:
        place = f"{parsed.get('host', 'localhost')}:{parsed.get('port', 6379)}"
    try:
        return cast(_Wire, kind(**arguments)), place
    except (TypeError, RedisError) as error:
        raise UsageError(f"Redis address {_without_secret(url)}: {error}") from None


def _without_secret(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def translate(error: Exception, place: str) -> FinalityError:
    """The one table from the library's errors to ours; one line for people."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, AuthenticationError | NoPermissionError) or text.startswith(("WRONGPASS", "NOAUTH")):
        return UsageError(f"Redis at {place} refuses this user: {text}; compare its access list with `acl_lines`")
    if isinstance(error, ResponseError):
        return DependencyError(f"Redis at {place} refuses: {text}")
    return DependencyError(f"Redis at {place} cannot be reached: {text}")


class Server:
    """One server of a ledger. Not thread-safe. clock: monotonic seconds."""

    def __init__(self, url: str, options: RedisOptions, clock: Callable[[], float]) -> None:
        self._wire, self.place = _connection(url, options)
        self._timeout_s = options.timeout_s
        self._clock = clock
        self._known: set[str] = set()
        self._calls: Sequence[Call] = ()
        self._reads: list[bytes] = []
        self._expected = 0
        self._began = 0.0
        self._deadline = 0.0
        self._resume = 0.0
        self.trouble: FinalityError | None = None

    def pack(self, commands: Sequence[tuple[str, ...]]) -> list[bytes]:
        """Commands as they go over the wire, for `begin`; the same for every server."""
        return self._wire.pack_commands(commands)

    def begin(self, calls: Sequence[Call], reads: list[bytes], expected: int) -> bool:
        """Send the calls and `expected` packed reads. False when the server failed, or is left alone after that."""
        self._began = self._clock()
        if self._began < self._resume:
            return False
        self._calls, self._reads, self._expected = calls, reads, expected
        try:
            self._send()
        except (RedisError, OSError, ValueError) as error:
            self._fail(error)
            return False
        self._deadline = self._clock() + self._timeout_s
        return True

    def finish(self) -> list[Any] | None:
        """The answers to the reads, or None when one of all the answers failed or did not come in time."""
        try:
            answers = self._receive()
            if any(isinstance(answer, NoScriptError) for answer in answers):
                self._known.clear()
                self._send()
                answers = self._receive()
        except (RedisError, OSError, ValueError) as error:
            self._fail(error)
            return None
        refusal = next((answer for answer in answers if isinstance(answer, ResponseError)), None)
        if refusal is not None:
            self._pause(refusal)
            return None
        self._known.update(call.script.digest for call in self._calls)
        self.trouble = None
        return answers[len(self._calls) :]

    def close(self) -> None:
        """Close the connection. Never raises."""
        self._known.clear()
        self._wire.disconnect()

    def _send(self) -> None:
        commands = [
            ("EVALSHA", call.script.digest, "1", call.key, *call.args)
            if call.script.digest in self._known
            else ("EVAL", call.script.text, "1", call.key, *call.args)
            for call in self._calls
        ]
        self._wire.send_packed_command(self._wire.pack_commands(commands) + self._reads)

    def _receive(self) -> list[Any]:
        answers: list[Any] = []
        for _ in range(len(self._calls) + self._expected):
            # A slow server that drips answers must not stretch the bound, so each wait gets what is left of it.
            left = max(self._deadline - self._clock(), 0.001)
            try:
                answers.append(self._wire.read_response(timeout=left))
            except ResponseError as error:
                answers.append(error)
        return answers

    def _fail(self, error: Exception) -> None:
        # Answers may still be on their way: on this connection they would be taken for those of a later batch.
        self.close()
        self._pause(error)

    def _pause(self, error: Exception) -> None:
        now = self._clock()
        self._resume = now + max(_SHORTEST_PAUSE_S, _PAUSE_FACTOR * (now - self._began))
        self.trouble = translate(error, self.place)
