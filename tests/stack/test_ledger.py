"""The ledger on real servers: every one present is a Redis, whatever happens to it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from finality.core.ballots import AttestWrite, Conflict, LeaseWrite, PartitionView, Proposal, ProposeWrite, Row
from finality.core.errors import DependencyError, UsageError
from finality.core.names import Names
from finality.ledger.acl import acl_lines, redis_user
from finality.ledger.redis import RedisLedger
from finality.ledger.server import RedisOptions
from support.ledger_conformance import VOTERS, LedgerConformance, hash_of, owner, see, vote
from support.redis_servers import RedisServer, eventually, flavours

PATIENT = RedisOptions(timeout_s=30.0)  # a busy machine must not look like a lost server
MakeServer = Callable[..., RedisServer]
_numbers = itertools.count()


@pytest.fixture(scope="module", params=sorted(flavours()))
def program(request: pytest.FixtureRequest) -> str:
    return flavours()[request.param]


@pytest.fixture(scope="module")
def shared(program: str) -> Iterator[RedisServer]:
    with RedisServer(program) as server:
        yield server


@pytest.fixture(scope="module")
def second(program: str) -> Iterator[RedisServer]:
    with RedisServer(program) as server:
        yield server


@pytest.fixture
def make_server(program: str) -> Iterator[MakeServer]:
    running: list[RedisServer] = []

    def make(*arguments: str, acl: list[str] | None = None) -> RedisServer:
        server = RedisServer(program, *arguments, acl=acl)
        running.append(server)
        server.start()
        return server

    yield make
    for server in running:
        server.__exit__()


class RealWorld:
    """A namespace of its own on a real server."""

    def __init__(self, *servers: RedisServer, options: RedisOptions = PATIENT) -> None:
        self.servers = servers
        self.options = options
        self.names = Names(f"t{next(_numbers)}")
        self.opened: list[RedisLedger] = []

    def ledger(self, replica: str, boot: str = "b1", options: RedisOptions | None = None) -> RedisLedger:
        urls = [server.url for server in self.servers]
        ledger = RedisLedger(urls, self.names, "primary", replica, boot, options or self.options)
        self.opened.append(ledger)
        return ledger

    def pause(self) -> None:
        time.sleep(0.01)

    def forget(self) -> None:
        for server in self.servers:
            server.admin().flushall()

    def key(self, what: str) -> str:
        return self.names.redis("primary", 0, what)

    def close(self) -> None:
        for ledger in self.opened:
            ledger.close()


@pytest.fixture
def world(shared: RedisServer) -> Iterator[RealWorld]:
    world = RealWorld(shared)
    yield world
    world.close()


class TestOneServer(LedgerConformance):
    """One server, the default."""


class TestTwoServers(LedgerConformance):
    """Two servers behave as one."""

    @pytest.fixture
    def world(self, shared: RedisServer, second: RedisServer) -> Iterator[RealWorld]:
        world = RealWorld(shared, second)
        yield world
        world.close()


# what else may lie in Redis


def test_foreign_content_counts_as_nothing_and_is_written_over(world: RealWorld) -> None:
    ledger = world.ledger("r1")
    admin = world.servers[0].admin()
    writes = (
        LeaseWrite(0, "acquire", 60_000),
        ProposeWrite(0, Proposal(1, 1, hash_of("a"), 10, hash_of("i"))),
        AttestWrite(0, (vote("r1", 1),), 1),
    )
    expected = see(ledger, *writes)
    for rubbish in ("", "x", "{}", "[]", "[1,2]", '{"boot":1}', '{"boot":"b","clock":"1","conflict":[],"votes":[7]}'):
        for what in ("lease", "prop", "vote:r1"):
            admin.set(world.key(what), rubbish)
        assert see(ledger) == PartitionView(None, None, {}), rubbish
        assert see(ledger, *writes).rows == expected.rows, rubbish
    for what in ("lease", "prop", "vote:r1"):
        admin.delete(world.key(what))
        admin.rpush(world.key(what), "a list")
    assert see(ledger) == PartitionView(None, None, {})
    restored = see(ledger, *writes)
    assert (owner(restored), restored.proposal, restored.rows) == (owner(expected), expected.proposal, expected.rows)


def test_every_key_expires(world: RealWorld) -> None:
    ledger = world.ledger("r1")
    proposal = Proposal(1, 1, hash_of("a"), 10, hash_of("i"))
    see(ledger, LeaseWrite(0, "acquire", 4000), ProposeWrite(0, proposal), AttestWrite(0, (vote("r1", 1),), 1))
    admin = world.servers[0].admin()
    keys = admin.keys(f"*{world.names.namespace}:*")
    assert {world.key(what).encode() for what in ("lease", "prop", "vote:r1")} == set(keys)
    for what, most in (("lease", 4000), ("prop", 10_000), ("vote:r1", 600_000)):
        assert 0 < admin.pttl(world.key(what)) <= most


# losses


def test_flushed_scripts_cost_nothing(world: RealWorld) -> None:
    ledger = world.ledger("r1")
    admin = world.servers[0].admin()
    for clock in range(1, 4):
        proposal = Proposal(clock, clock, hash_of("a"), 10, hash_of("i"))
        writes = (LeaseWrite(0, "acquire", 60_000), ProposeWrite(0, proposal), AttestWrite(0, (), clock))
        view = see(ledger, *writes)
        assert (owner(view), view.proposal, view.rows["r1"].clock_ns) == (("r1", "b1"), proposal, clock)
        admin.script_flush()


def test_a_server_that_was_killed_is_missed_and_taken_up_again(make_server: MakeServer) -> None:
    server = make_server()
    world = RealWorld(server)
    ledger = world.ledger("r1")
    see(ledger, AttestWrite(0, (vote("r1", 1),), 1))
    server.kill()
    assert ledger.exchange((), {0: VOTERS}) is None
    assert len(ledger.troubles) == 1
    assert "cannot be reached" in ledger.troubles[0]
    with pytest.raises(DependencyError):
        ledger.check()
    server.start()
    views = eventually(lambda: ledger.exchange((), {0: VOTERS}), "exchange after the restart")
    assert views == {0: PartitionView(None, None, {})}
    assert see(ledger, AttestWrite(0, (vote("r1", 1),), 2)).rows["r1"] == Row("r1", "b1", 2, (vote("r1", 1),))
    assert ledger.troubles == ()
    world.close()


def test_a_frozen_server_costs_a_bounded_time_and_is_taken_up_again(make_server: MakeServer) -> None:
    server = make_server()
    world = RealWorld(server)
    ledger = world.ledger("r1", options=RedisOptions())
    eventually(lambda: ledger.exchange((AttestWrite(0, (vote("r1", 1),), 1),), {0: VOTERS}), "first exchange")
    server.freeze()
    began = time.monotonic()
    assert ledger.exchange((LeaseWrite(0, "acquire", 60_000),), {0: VOTERS}) is None
    waited = time.monotonic() - began
    # Half a second by design; the library's own retries would need a minute.
    assert 0.2 < waited < 10
    server.thaw()
    views = eventually(lambda: ledger.exchange((), {0: VOTERS}), "exchange after the thaw")
    assert views[0].rows["r1"].votes == (vote("r1", 1),), "an answer of the old batch was taken for one of the new"
    # What timed out may have run all the same: its owner takes it up, nobody else is let in.
    if views[0].lease is not None:
        assert owner(views[0]) == ("r1", "b1")
    acquire = (LeaseWrite(0, "acquire", 60_000),)
    views = eventually(lambda: ledger.exchange(acquire, {0: VOTERS}), "exchange that acquires")
    assert owner(views[0]) == ("r1", "b1")
    world.close()


def test_a_server_is_left_alone_for_four_times_as_long_as_its_failure_took(make_server: MakeServer) -> None:
    server = make_server()
    seconds = itertools.count(1)  # each look at this clock takes a second: the failure lasts from 1 to 2
    ledger = RedisLedger([server.url], Names("t"), "primary", "r1", "b1", PATIENT, clock=lambda: float(next(seconds)))
    server.kill()
    assert ledger.exchange((), {0: VOTERS}) is None
    server.start()
    answers = [ledger.exchange((), {0: VOTERS}) for _ in range(4)]
    assert answers == [None, None, None, {0: PartitionView(None, None, {})}]
    ledger.close()


# several servers


def test_rows_are_the_union_of_two_servers(make_server: MakeServer) -> None:
    one, two = make_server(), make_server()
    world = RealWorld(one, two)
    r1, r2 = world.ledger("r1"), world.ledger("r2")
    see(r1, AttestWrite(0, (vote("r1", 1), vote("r1", 2)), 1))
    see(r2, AttestWrite(0, (vote("r2", 1),), 1))
    one.admin().flushall()
    see(r1, AttestWrite(0, (vote("r1", 3),), 2))
    rows = see(r2).rows
    assert {1, 2, 3} == {item.index for item in rows["r1"].votes}
    assert rows["r1"].clock_ns == 2
    assert rows["r2"] == Row("r2", "b1", 1, (vote("r2", 1),))
    # What the flushed server forgot, the other one still knows: the voter contradicts itself.
    see(r1, AttestWrite(0, (vote("r1", 2, "x"),), 3))
    conflict = see(r2).rows["r1"].conflict
    assert conflict == Conflict(2, vote("r1", 2), vote("r1", 2, "x"))
    world.close()


@pytest.mark.parametrize("lost", [0, 1])
def test_one_of_two_servers_is_enough(make_server: MakeServer, lost: int) -> None:
    servers = [make_server(), make_server()]
    world = RealWorld(*servers)
    r1, r2 = world.ledger("r1"), world.ledger("r2")
    proposal = Proposal(1, 1, hash_of("a"), 10, hash_of("i"))
    see(r1, LeaseWrite(0, "acquire", 600_000), ProposeWrite(0, proposal), AttestWrite(0, (vote("r1", 1),), 1))
    servers[lost].kill()
    view = see(r2, LeaseWrite(0, "acquire", 600_000), AttestWrite(0, (vote("r2", 1),), 1))
    assert owner(view) == ("r1", "b1")
    assert view.proposal == proposal
    assert {"r1", "r2"} == set(view.rows)
    assert len(r2.troubles) == 1
    servers[lost].start()
    eventually(lambda: see(r2) is not None and not r2.troubles, "the lost server is taken up again")
    assert {"r1", "r2"} == set(see(r2).rows)
    world.close()


def test_the_lease_is_what_the_first_server_in_order_says(make_server: MakeServer) -> None:
    one, two = make_server(), make_server()
    world = RealWorld(one, two)
    r1, r2 = world.ledger("r1"), world.ledger("r2")
    see(r1, LeaseWrite(0, "acquire", 600_000))
    two.admin().flushall()
    assert owner(see(r2, LeaseWrite(0, "acquire", 600_000))) == ("r1", "b1"), "r2 holds the second one only"
    one.admin().flushall()
    assert see(r1).lease is None
    assert owner(see(r2, LeaseWrite(0, "acquire", 600_000))) == ("r2", "b1")
    world.close()


# who may do what


@pytest.fixture
def guarded(make_server: MakeServer) -> Iterator[RealWorld]:
    names = Names(f"t{next(_numbers)}")
    acl = acl_lines(names, "primary", {name: f"secret-{name}" for name in VOTERS})
    acl += acl_lines(names, "dr", {"r1": "secret-dr"})[1:]
    world = RealWorld(make_server(acl=acl))
    world.names = names
    yield world
    world.close()


def _as(world: RealWorld, replica: str, user: str) -> RedisLedger:
    options = RedisOptions(30.0, redis_user(world.names, "primary", user), f"secret-{user}")
    return world.ledger(replica, options=options)


def test_a_voter_has_all_rights_that_voting_needs(guarded: RealWorld) -> None:
    r1, r2 = _as(guarded, "r1", "r1"), _as(guarded, "r2", "r2")
    r1.check()
    proposal = Proposal(1, 1, hash_of("a"), 10, hash_of("i"))
    for verb in ("acquire", "renew", "acquire", "release", "acquire"):
        see(r1, LeaseWrite(0, verb, 60_000), ProposeWrite(0, proposal), AttestWrite(0, (vote("r1", 1),), 1))
    guarded.servers[0].admin().script_flush()
    see(r1, AttestWrite(0, (vote("r1", 1),), 1))
    view = see(r2, LeaseWrite(0, "acquire", 60_000), AttestWrite(0, (vote("r2", 1),), 1))
    assert owner(view) == ("r1", "b1")
    assert view.proposal == proposal
    assert {"r1", "r2"} == set(view.rows)


def test_a_voter_cannot_vote_in_anothers_name(guarded: RealWorld) -> None:
    honest, thief = _as(guarded, "r2", "r2"), _as(guarded, "r2", "r1")
    see(honest, AttestWrite(0, (vote("r2", 1),), 1))
    assert thief.exchange((AttestWrite(0, (vote("r2", 1, "x"),), 9),), {0: VOTERS}) is None
    assert "refuses this user" in thief.troubles[0]
    assert see(honest).rows["r2"] == Row("r2", "b1", 1, (vote("r2", 1),))


def test_a_voter_cannot_reach_what_is_not_its_own(guarded: RealWorld) -> None:
    see(_as(guarded, "r2", "r2"), AttestWrite(0, (vote("r2", 1),), 1))
    user = redis_user(guarded.names, "primary", "r1")
    client = guarded.servers[0].admin(username=user, password="secret-r1")
    target = guarded.key("vote:r2")
    assert client.mget(target)[0] is not None
    attempts: list[tuple[object, ...]] = [
        ("SET", target, "x"),
        ("DEL", target),
        ("PEXPIRE", target, 1),
        ("EVAL", "return redis.call('DEL', KEYS[1])", 1, target),
        ("EVAL", f"return redis.call('SET', '{target}', 'x')", 0),
        ("SET", guarded.names.redis("dr", 0, "vote:r1"), "x"),
        ("MGET", guarded.names.redis("dr", 0, "vote:r1")),
        ("SET", Names("other").redis("primary", 0, "vote:r1"), "x"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("SCRIPT", "FLUSH"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("KEYS", "*"),
        ("SHUTDOWN", "NOSAVE"),
        ("CLIENT", "KILL", "TYPE", "normal"),
    ]
    for attempt in attempts:
        with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)no permission|ACL failure|can't access"):
            client.execute_command(*attempt)
    assert client.mget(target)[0] is not None


def test_a_wrong_password_is_said_at_the_start(guarded: RealWorld) -> None:
    options = RedisOptions(30.0, redis_user(guarded.names, "primary", "r1"), "wrong-word")
    ledger = guarded.ledger("r1", options=options)
    with pytest.raises(UsageError, match="refuses this user") as refused:
        ledger.check()
    assert "wrong-word" not in str(refused.value)
    nobody = guarded.ledger("r1", options=PATIENT)
    assert nobody.exchange((), {0: VOTERS}) is None
    with pytest.raises(UsageError, match="refuses this user"):
        nobody.check()
