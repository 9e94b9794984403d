"""The scripts against a plain model of what they should do, step by step on a real server.

The model is a second implementation in other terms (dictionaries of integers). Mutants of the scripts show that the
comparison would notice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from finality.core.ballots import AttestWrite, LeaseWrite, PartitionView, Proposal, ProposeWrite, Row, Vote, Write
from finality.core.names import Names
from finality.ledger.redis import RedisLedger, Scripts
from finality.ledger.server import RedisOptions, Script
from support.ledger_conformance import VOTERS
from support.redis_servers import RedisServer, flavours

BOOTS = ("b1", "b2")
HASHES = (bytes(32), b"\xff" * 32)
INDICES = st.sampled_from([1, 2, 9, 10, 99, 100, 101, 2**53, 2**53 + 1, 2**63])
VOTES = st.tuples(INDICES, st.sampled_from(HASHES), st.sampled_from([5, 6]), st.sampled_from(HASHES))
SETTINGS = settings(
    max_examples=150,
    stateful_step_count=25,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
_numbers = itertools.count()


class ModelRow:
    """One voter's row as the protocol's page tells it."""

    def __init__(self) -> None:
        self.boot = ""
        self.clock = 0
        self.order: list[int] = []
        self.facts: dict[int, tuple[str, tuple[object, ...]]] = {}
        self.conflict: tuple[int, tuple[str, tuple[object, ...]], tuple[str, tuple[object, ...]]] | None = None

    def attest(self, boot: str, clock: int, votes: list[tuple[int, bytes, int, bytes]]) -> None:
        self.boot, self.clock = boot, clock
        for index, *fact in votes:
            new = (boot, tuple(fact))
            old = self.facts.get(index)
            if old is not None and old[1] != new[1]:
                if self.conflict is None or self.conflict[0] > index:
                    self.conflict = (index, old, new)
                continue
            if old is not None:
                self.order.remove(index)
            self.facts[index] = new
            self.order.append(index)
        for index in self.order[:-8]:
            del self.facts[index]
        self.order = self.order[-8:]


class LedgerMachine(RuleBasedStateMachine):
    """Two boots of two voters write; after each step the store reads as the model does."""

    server: RedisServer
    scripts: Scripts

    @initialize()
    def begin(self) -> None:
        self.names = Names(f"m{next(_numbers)}")
        self.ledgers = {
            (replica, boot): RedisLedger(
                [self.server.url], self.names, "s", replica, boot, RedisOptions(30.0), self.scripts
            )
            for replica in VOTERS[:2]
            for boot in BOOTS
        }
        self.admin = self.server.admin()
        self.lease: tuple[str, str] | None = None
        self.proposal: Proposal | None = None
        self.rows: dict[str, ModelRow] = {}

    who = st.tuples(st.sampled_from(VOTERS[:2]), st.sampled_from(BOOTS))

    @rule(who=who, verb=st.sampled_from(["acquire", "renew", "release"]))
    def change_lease(self, who: tuple[str, str], verb: str) -> None:
        if verb == "acquire" and self.lease is None:
            self.lease = who
        elif verb == "release" and self.lease == who:
            self.lease = None
        self.step(who, LeaseWrite(0, verb, 600_000))

    @rule(who=who, term=st.sampled_from([1, 9, 10, 2**53, 2**53 + 1]), index=st.integers(0, 3))
    def propose(self, who: tuple[str, str], term: int, index: int) -> None:
        proposal = Proposal(term, index, HASHES[0], index, HASHES[1])
        if self.proposal is None or not term < self.proposal.term:
            self.proposal = proposal
        self.step(who, ProposeWrite(0, proposal))

    @rule(who=who, clock=st.integers(0, 2**62), votes=st.lists(VOTES, max_size=10))
    def attest(self, who: tuple[str, str], clock: int, votes: list[tuple[int, bytes, int, bytes]]) -> None:
        self.rows.setdefault(who[0], ModelRow()).attest(who[1], clock, votes)
        cast = tuple(Vote(*who, *vote) for vote in votes)
        self.step(who, AttestWrite(0, cast, clock))

    @rule(who=who)
    def flush_scripts(self, who: tuple[str, str]) -> None:
        self.admin.script_flush()
        self.step(who)

    @rule(who=who, what=st.sampled_from(["lease", "prop", "vote:r1", "vote:r2"]))
    def lose_a_key(self, who: tuple[str, str], what: str) -> None:
        self.admin.delete(self.names.redis("s", 0, what))
        if what == "lease":
            self.lease = None
        elif what == "prop":
            self.proposal = None
        else:
            self.rows.pop(what[5:], None)
        self.step(who)

    def step(self, who: tuple[str, str], *writes: Write) -> None:
        views = self.ledgers[who].exchange(writes, {0: VOTERS})
        assert views is not None
        self.compare(views[0])

    def compare(self, view: PartitionView) -> None:
        assert self.lease == (None if view.lease is None else (view.lease.owner, view.lease.boot))
        assert self.proposal == view.proposal
        assert set(self.rows) == set(view.rows)
        for replica, model in self.rows.items():
            row = view.rows[replica]
            assert (model.boot, model.clock) == (row.boot, row.clock_ns)
            assert [(n, *model.facts[n]) for n in model.order] == [_flat(vote) for vote in row.votes]
            assert model.conflict == _flat_conflict(row)

    def teardown(self) -> None:
        for ledger in self.ledgers.values():
            ledger.close()
        self.admin.close()


def _flat(vote: Vote) -> tuple[int, str, tuple[object, ...]]:
    return vote.index, vote.boot, tuple(vote.fact)


def _flat_conflict(row: Row) -> object:
    if row.conflict is None:
        return None
    first, second = _flat(row.conflict.first), _flat(row.conflict.second)
    return row.conflict.index, first[1:], second[1:]


@pytest.fixture(scope="module", params=sorted(flavours()))
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with RedisServer(flavours()[request.param]) as server:
        yield server


def _run(server: RedisServer, scripts: Scripts) -> None:
    machine = type("Machine", (LedgerMachine,), {"server": server, "scripts": scripts})
    run_state_machine_as_test(machine, settings=SETTINGS)


def test_the_scripts_do_what_the_model_does(server: RedisServer) -> None:
    _run(server, Scripts.load())


MUTANTS = [
    ("attest", "if same_fact(earlier, vote) then", "if true then"),
    ("attest", "or below(vote[1], row.conflict[1][1])", ""),
    ("attest", "below(vote[1], row.conflict[1][1])", "true"),
    (
        "attest",
        "  if #one ~= #other then\n    return #one < #other\n  end\n  return one < other",
        "  return one < other",
    ),
    ("attest", "table.remove(row.votes, 1)", "table.remove(row.votes)"),
    ("attest", "        table.remove(row.votes, place)\n        table.insert(row.votes, vote)\n", ""),
    ("attest", "and one[3] == other[3] and one[4] == other[4]", ""),
    ("attest", "while #row.votes > keep do", "while false do"),
    ("propose", "above(term, ARGV[2])", "false"),
    (
        "propose",
        "  if #one ~= #other then\n    return #one > #other\n  end\n  return one > other",
        "  return one > other",
    ),
    ("propose", "return one > other", "return tonumber(one) > tonumber(other)"),
    ("lease", "type(held) ~= 'string'", "true"),
    ("lease", "elseif held == mine then", "elseif held then"),
    ("lease", "local mine = ARGV[2] .. ' ' .. ARGV[3]", "local mine = ARGV[2] .. ' b1'"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant[0]}: {' '.join(mutant[1].split())[:40]}")
def test_a_wrong_script_is_noticed(server: RedisServer, mutant: tuple[str, str, str]) -> None:
    name, right, wrong = mutant
    scripts = Scripts.load()
    text = getattr(scripts, name).text
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        _run(server, scripts._replace(**{name: Script.of(text.replace(right, wrong))}))
