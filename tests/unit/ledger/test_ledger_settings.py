"""How the ledger connects, what it refuses, and what its scripts may touch; no server needed."""

from __future__ import annotations

import re

import pytest
from redis.connection import SSLConnection, UnixDomainSocketConnection

from finality.core.errors import UsageError
from finality.core.names import Names
from finality.ledger.acl import acl_lines
from finality.ledger.redis import RedisLedger, Scripts
from finality.ledger.server import RedisOptions, Server


def wire(url: str, options: RedisOptions | None = None) -> object:
    return Server(url, options or RedisOptions(), lambda: 0.0)._wire


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:1",
        "rediss://localhost:1",
        "unix:///run/s",
        "redis://localhost:1?socket_timeout=9&retry_on_timeout=yes&health_check_interval=5&protocol=3",
    ],
)
def test_time_outs_retries_and_protocol_are_ours_whatever_the_address_says(url: str) -> None:
    connection = wire(url)
    assert connection.retry.get_retries() == 0
    assert connection.retry_on_error == []
    assert connection.socket_timeout == connection.socket_connect_timeout == 0.25
    assert connection.protocol == 2
    assert connection.health_check_interval == 0
    assert connection.driver_info is None


def test_options_reach_the_connection_and_the_address_wins() -> None:
    options = RedisOptions(username="u", password="p", ca_file="ca", cert_file="cert", key_file="key")
    connection = wire("rediss://host:7/2", options)
    assert isinstance(connection, SSLConnection)
    assert (connection.host, connection.port, connection.db) == ("host", 7, 2)
    assert (connection.username, connection.password) == ("u", "p")
    assert (connection.ca_certs, connection.certfile, connection.keyfile) == ("ca", "cert", "key")
    assert connection.check_hostname
    assert (wire("redis://a:b@host", options).username, wire("redis://a:b@host", options).password) == ("a", "b")
    local = wire("unix:///run/s", options)
    assert isinstance(local, UnixDomainSocketConnection)
    assert (local.path, local.username) == ("/run/s", "u")


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(RedisOptions(password="secret"))
    for url in ("http://u:secret@host:1", "redis://u:secret@host:port", "redis://u:secret@host?nonsense=1"):
        with pytest.raises(UsageError) as refused:
            wire(url)
        assert "secret" not in str(refused.value)
        assert "host" in str(refused.value)


@pytest.mark.parametrize("bad", ["", "r 1", "r1:x", "*", "r[1]", "r1\n", "é", "x" * 64])
def test_names_that_would_mean_something_else_are_refused(bad: str) -> None:
    names = Names("n")
    for site, replica, boot in ((bad, "r1", "b"), ("s", bad, "b"), ("s", "r1", bad)):
        with pytest.raises(UsageError, match="up to 63 letters"):
            RedisLedger(["redis://localhost:1"], names, site, replica, boot)
    for site, replica in ((bad, "r1"), ("s", bad)):
        with pytest.raises(UsageError, match="up to 63 letters"):
            acl_lines(names, site, {replica: "p"})


def test_an_address_and_a_password_are_needed() -> None:
    with pytest.raises(UsageError, match="at least one"):
        RedisLedger([], Names("n"), "s", "r1", "b")
    with pytest.raises(UsageError, match="empty password"):
        acl_lines(Names("n"), "s", {"r1": ""})


def test_scripts_touch_the_one_key_that_they_declare() -> None:
    for script in Scripts.load():
        calls = re.findall(r"redis\.p?call\(([^)]*)\)", script.text)
        assert calls
        for call in calls:
            assert re.fullmatch(r"'[A-Z]+', KEYS\[1\](, .*)?", call), call
        assert script.text.count("redis.") == len(calls)


def test_an_acl_file_names_each_voter_and_keeps_its_passwords_to_itself() -> None:
    lines = acl_lines(Names("n", 2), "primary", {"r1": "one", "r2": "two"})
    assert lines[0] == "user default reset off"
    assert lines[1] == (
        "user n.primary.r1 reset on #7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed resetchannels "
        "-@all +eval +evalsha +mget +get +set +pttl +pexpire +del +ping +select %R~{n:primary:g2:*}:* "
        "~{n:primary:g2:*}:lease ~{n:primary:g2:*}:prop ~{n:primary:g2:*}:vote:r1"
    )
    assert len(lines) == 3
