"""Histories of one partition, drawn by hypothesis: genesis, contracts of every shape, events, ticks, commands, faults.

A history is a list of numbers. Each is the seed of one record, so hypothesis drops and simplifies records, and a
failing history shrinks to the few records that matter. All bounds are small (a digest every few records, two finished
jobs remembered, one event held), so that a few dozen records meet every rule of the fold.

Times are single nanoseconds and durations a few of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from hypothesis import strategies as st

from finality.core.contract import compile_contract
from finality.core.genesis import Genesis, Parameters, Voters, encode_genesis
from finality.core.inputlog import Home
from finality.core.records import CAUSE, COMMAND, EVENT, GENESIS, KIND, REJECTED, SOURCE, TICK, Record
from support.contracts import THEMES, Shape, Theme, contract_of

HOME = Home("primary", 1)
PHASES = (
    *("PENDING", "RUNNING", "RUNNING", "PAUSED", "RETRYING", "CANCELLING", "UNKNOWN"),
    *("SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "FAILED", "CANCELLED", "SKIPPED", "INCONCLUSIVE", "CONTINUED"),
)
JOBS = (
    *("default/a/x/run/1", "default/a/x/run/2", "default/a/x/step/3", "default/b/x/run/4", "default/b/x/run/5"),
    *("default/b/y/run/6", "other/c/x/run/7", "a%2Fb/c/x/run/%C3%A9", "default/c/x/step/9"),
)
CONTRACTS = ("one", "two", "three")
COMMAND_IDS = ("-", "+", "", "0" * 32)

seeds = st.integers(0, 2**32 - 1)


@dataclass
class History:
    """genesis: its bytes. records: what follows the genesis record, in order."""

    genesis: bytes
    records: list[Record] = field(default_factory=list)

    @property
    def all(self) -> list[Record]:
        """With the genesis record."""
        return [Record(0, 0, None, self.genesis, ((KIND, GENESIS),)), *self.records]


@st.composite
def histories(draw: st.DrawFn, shape: Shape | None = None) -> History:
    """A whole history."""
    shape = shape or Shape()
    setup = Random(draw(seeds))
    rows = draw(st.lists(seeds, min_size=shape.records // 2, max_size=shape.records))
    return build(setup, rows, shape)


def build(setup: Random, rows: Sequence[int], shape: Shape) -> History:
    """The history that a setup and the seeds of its records give."""
    history = History(genesis_of(setup, shape))
    theme = setup.choice(THEMES)
    writer = _Writer(shape, theme, setup.choice(JOBS), not shape.timeless and setup.random() < 0.3)
    for name in CONTRACTS[: setup.choice((0, 1, 1, 2, 3))]:
        history.records.append(writer.contract(setup, name))
    history.records += [writer.record(Random(seed)) for seed in rows]
    return history


def genesis_of(rng: Random, shape: Shape) -> bytes:
    """Genesis with small bounds; one that forgets nothing for timeless histories."""
    huge = str(10**18)
    parameters = Parameters(
        digest_every=rng.choice((2, 5, 7, 1000)),
        hold_for=str(rng.choice((3, 9))),
        hold_max=rng.choice((1, 2, 5)),
        log_time="events" if rng.random() < 0.4 and not shape.timeless else "ticks",
        max_finished=10**6 if shape.timeless else rng.choice((1, 2, 10**6)),
        memory=huge if shape.timeless else rng.choice(("5", "20", huge)),
        settle=rng.choice(("0", "0", "3")) if not shape.timeless else "0",
    )
    sites = (Voters(1, "primary", ("r1",)), Voters(2, "dr", ("d1", "d2", "d3")))
    return encode_genesis(
        Genesis(
            generation=1,
            log_time=str(rng.choice((0, 3, 3_599_999_999_990))),
            nonce="n",
            parameters=parameters,
            partitions=1,
            site="primary",
            sites=sites,
        )
    )


class _Writer:
    """Numbers commands and gives records their source coordinates."""

    def __init__(self, shape: Shape, theme: Theme, favourite: str, coordinates: bool) -> None:
        self.shape = shape
        self.theme = theme
        self.favourite = favourite
        self.coordinates = coordinates
        self.place = (1, 0)
        self.now = 0
        self.sent: dict[int, int] = {}
        self.orders: list[tuple[str, str, str]] = []  # contract, version, action of each compensation

    # -- records ------------------------------------------------------------------------------

    def record(self, rng: Random) -> Record:
        """One record from its seed."""
        dice = rng.random()
        if self.shape.timeless:
            return self._event(rng)
        if dice < 0.07:
            return self._command(rng)
        if self.shape.malformed and dice < 0.12:
            return self._malformed(rng)
        if dice > 1 - self.theme.ticks:
            return _record(TICK, json.dumps({"at": self._tick(rng)}).encode())
        return self._event(rng)

    def _tick(self, rng: Random) -> str:
        if rng.random() < 0.1:
            return str(rng.choice((0, 3_600_000_000_000)) + rng.randrange(60))
        self.now += rng.randrange(1, 5)
        return str(self.now)

    def _event(self, rng: Random) -> Record:
        event = event_of(rng, self.shape, self.favourite, self.theme)
        if "answers" in event and self.orders and rng.random() < 0.8:
            event["answers"]["command"] = self._command_id(rng, event["job"])
        value = json.dumps(event).encode()
        headers: list[tuple[str, bytes | None]] = [(KIND, EVENT)]
        if self.coordinates:
            headers.append((SOURCE, self._source(rng)))
        return Record(0, 0, b"k" if rng.random() < 0.5 else None, value, tuple(headers))

    def _command_id(self, rng: Random, job: str) -> str:
        """A command that one of the contracts may have given."""
        parts = ["finality/command/1", job, *rng.choice(self.orders), rng.choice("1112")]
        return sha256("\0".join(parts).encode()).hexdigest()[:32]

    def _source(self, rng: Random) -> bytes:
        partition = rng.randrange(2)
        known = self.sent.get(partition, -1)
        offset = max(0, known + rng.choice((1, 1, 1, 1, 2, 0, -1)))
        self.sent[partition] = max(offset, known)
        before = max(0, offset - rng.choice((1, 1, 1, 0, -1)))
        tail = f"^{offset}" if known < 0 or rng.random() < 0.1 else f"<{before}.0"
        return f"topic {partition} 0 {offset}.{rng.choice((0, 0, 1))} {tail}".encode()

    def _malformed(self, rng: Random) -> Record:
        junk = rng.choice(
            (
                *(b"", b"\xff", b"[]", b'{"job":"a/b/c/d/e","phase":"DONE"}', b'{"job":"a"}', b'{"jb":"a/b/c/d/e"}'),
                *(b'{"job":"a/b/c/d/e","at":"01"}', b'{"job":"a/b/c/d/e","at":"9223372036854775808"}'),
                *(b'{"job":"a/b/c/d/e","word":"\\ud800"}', b'{"job":"a/b/c/d/\\u0000"}', b'{"job":"a/b/c/d/e"}x'),
                *(b'{"job":"a/b/c/d/e","attempt":1.0}', b'{"job":"a/b/c/d/e","metrics":{"m":"1e3"}}'),
                *(b'{"at":"7"}', b'{"at":"5_0"}', b'{"at":" 50"}', b'{"at":"50","x":1}', b'{"at":"-5"}', b'{"at":50}'),
                *(b'{"job":"a/b/c/d/e","lease":{"op":"take","holder":"h"}}', b'{"job":"a/b/c/d/e","parent":"p"}'),
                *(b'{"job":"a/b/c/d/e","reason":"no"}', b'{"job":"a/b/c/d/e","answers":{"command":"c"}}'),
                b'{"job":"a/b/c/d/e","word":"' + b"w" * rng.choice((256, 257, 70_000)) + b'"}',
                b'{"job":"a/b/c/d/e","x":' + b"[" * 3000 + b"]" * 3000 + b"}",
            )
        )
        kind = rng.choice((EVENT, EVENT, EVENT, REJECTED, TICK, COMMAND, b"novel"))
        cause = rng.choice((b"BAD_ROW", b"bad row", b"", b"X" * 70))
        headers: tuple[tuple[str, bytes | None], ...] = ((KIND, kind), (CAUSE, cause))
        if rng.random() < 0.3:
            headers += ((SOURCE, rng.choice((b"", b"t 0 0 0.0", b"t x 0 0.0 ^0", b"t 0 0 1_0.0 ^0", b"t 0 0 5.0 ^5"))),)
        return Record(0, 0, None, junk if rng.random() < 0.9 else None, headers)

    # -- commands -----------------------------------------------------------------------------

    def contract(self, rng: Random, name: str) -> Record:
        """A command that applies a contract of any shape."""
        document = contract_of(rng, name, self.shape, self.theme)
        version = compile_contract(json.dumps(document).encode()).version
        self.orders += [(name, version, row["action"]) for row in document["spec"].get("compensations", [])]
        return self._numbered({"document": document, "op": "contract"})

    def _numbered(self, body: dict[str, Any]) -> Record:
        epoch, number = self.place
        self.place = (epoch, number + 1)
        command = {"epoch": epoch, "number": number + 1, **body}
        return _record(COMMAND, json.dumps(command).encode())

    def _command(self, rng: Random) -> Record:
        dice = rng.random()
        name = rng.choice(CONTRACTS)
        if dice < 0.45:
            return self.contract(rng, name)
        if dice < 0.55:
            return self._numbered({"name": name, "op": "contract-delete", "tenant": "default"})
        if dice < 0.65:
            site, generation = rng.choice((("dr", 1), ("primary", 1), ("primary", 2)))
            self.place = (self.place[0] + rng.choice((0, 1, 2)), rng.choice((0, 0, 0, 1)))
            command = {"epoch": self.place[0], "generation": generation, "number": self.place[1], "op": "epoch"}
            return _record(COMMAND, json.dumps({**command, "site": site}).encode())
        if dice < 0.8:
            quorum = rng.choice((1, 1, 2))
            voters = rng.choice((["r1"], ["r1", "r2"], ["r1", "r1"], []))
            sites = [
                {"quorum": quorum, "site": "primary", "voters": voters},
                {"quorum": 1, "site": rng.choice(("dr", "dr", "mars")), "voters": ["d1"]},
            ]
            return self._numbered({"op": "voters", "sites": sites[: rng.choice((2, 2, 1))]})
        choices = (
            *({"fold": 1, "op": "fold"}, {"fold": 2, "op": "fold"}, {"namespace": "drill", "op": "namespace"}),
            *({"namespace": "No", "op": "namespace"}, {"op": "dance"}, {"op": "contract"}, {"op": "x", "y": 1}),
            {
                "document": contract_of(rng, name, self.shape),
                "if_version": rng.choice(("", "0" * 12)),
                "op": "contract",
            },
            {"document": {**contract_of(rng, name, self.shape), "kind": "Nothing"}, "op": "contract"},
            {"document": _deep(rng.choice((40, 62, 63, 100))), "op": "contract"},
        )
        return self._numbered(rng.choice(choices))


def _deep(levels: int) -> Any:
    tree: Any = 1
    for _ in range(levels):
        tree = [tree]
    return tree


def _record(kind: bytes, value: bytes) -> Record:
    return Record(0, 0, None, value, ((KIND, kind),))


# -- events --------------------------------------------------------------------------------------


def event_of(rng: Random, shape: Shape, favourite: str, theme: Theme = THEMES[0]) -> dict[str, Any]:
    """One event. In a timeless history a job has one name and one set of labels."""
    job = favourite if rng.random() < theme.focus else rng.choice(JOBS)
    event: dict[str, Any] = {"job": job}

    def sometimes(chance: float, name: str, value: Any) -> None:
        if rng.random() < (0.6 if name in theme.fields else chance):
            event[name] = value

    at = rng.randrange(30)
    sometimes(0.85, "at", str(at))
    sometimes(0.8, "phase", rng.choice(PHASES))
    sometimes(0.3, "word", rng.choice(("done", "läuft", 'a "b"\\\n', "\u2028\U0001f600", "")))
    sometimes(0.2, "reason", rng.choice(("OOM", "ERROR", "")))
    sometimes(0.3, "start", str(at - rng.randrange(5)))
    sometimes(0.2, "created", str(at - rng.randrange(9)))
    sometimes(0.2, "end", str(at + rng.randrange(3)))
    sometimes(0.3, "attempt", rng.randrange(4))
    sometimes(0.45, "revision", str(rng.randrange(3 if shape.timeless else 6)))
    sometimes(0.1, "revision_epoch", str(rng.randrange(3)))
    sometimes(
        0.2, "metrics", {rng.choice(("rows", "rows", "loss", "é")): rng.choice(("0", "1.50", "-0.0", "2", "2.0", "3"))}
    )
    sometimes(0.2, "conditions", {rng.choice("ABC"): rng.random() < 0.8, rng.choice("ABC"): True})
    sometimes(0.15, "parts", [rng.choice("pqr") for _ in range(rng.randrange(3))])
    sometimes(0.05, "deleted", True)
    sometimes(0.05, "snapshot", True)
    sometimes(0.05, "max_attempts", 3)
    if rng.random() < 0.04:
        event |= _crowd(rng)
    family = {JOBS[1]: JOBS[0], JOBS[2]: JOBS[1], JOBS[4]: JOBS[3], JOBS[8]: JOBS[0]}
    if job in family and (shape.timeless or rng.random() < 0.7):
        event[("root", "parent")[job == JOBS[4]]] = family[job]
    if shape.timeless:
        event["name"] = "n" + job[-1]
        event["labels"] = {"team": "red"} if job[-1] in "147" else {}
        return event
    sometimes(0.2, "name", rng.choice(("n1", "m", "é")))
    sometimes(0.2, "labels", {"team": rng.choice(("red", "blue"))})
    step = rng.choice(("grant", "grant", "keep", "release"))
    sometimes(0.15, "lease", {"holder": rng.choice(("h1", "h2", "")), "op": step})
    sometimes(0.15, "holder", rng.choice(("h1", "h2")))
    sometimes(0.2, "answers", {"command": rng.choice(COMMAND_IDS), "ok": rng.random() < 0.4})
    return event


def _crowd(rng: Random) -> dict[str, Any]:
    """An event that alone meets a bound."""
    return rng.choice(
        (
            {"metrics": {f"m{number:03}": "1" for number in range(70)}},
            {"conditions": {f"c{number:03}": True for number in range(70)}},
            {"parts": [f"part{number}" for number in range(4100)]},
        )
    )
