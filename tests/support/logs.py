"""Input and attested logs with planted faults, for acceptance: sound records, and each way to be unsound."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from finality.core.attested import Block, EpochProof, Leader, LogTip, VoterRow, encode_log_record
from finality.core.genesis import Genesis, Parameters, Voters, encode_genesis
from finality.core.inputlog import Home
from finality.core.records import COMMAND, COPY, EVENT, GENESIS, KIND, TICK, Headers, Record
from finality.core.replica import Replica

PRIMARY, DR = Home("primary", 1), Home("dr", 1)
VOTERS = {"primary": ("p1", "p2", "p3"), "dr": ("d1", "d2", "d3")}


def two_sites() -> bytes:
    """A genesis with three voters at each of two sites."""
    sites = tuple([Voters(2, site, voters) for site, voters in VOTERS.items()])
    parameters = Parameters(digest_every=4, settle="0", log_time="events")
    return encode_genesis(
        Genesis(
            generation=1,
            log_time="0",
            nonce="n",
            parameters=parameters,
            partitions=1,
            site="primary",
            sites=sites,
        )
    )


def epoch_command(epoch: int, home: Home, number: int = 0, **more: object) -> bytes:
    """The value of an epoch command."""
    body = {"epoch": epoch, "generation": home.generation, "number": number, "op": "epoch", "site": home.site, **more}
    return json.dumps(body).encode()


def input_record(rng: Random, genesis: bytes, position: int, number: int) -> Record:
    """A record for an input log whose next position is `position`; often one that does not fit."""
    dice = rng.random()
    value: bytes | None = json.dumps({"job": f"t/s/i/k/{rng.randrange(9)}", "phase": "SUCCEEDED", "at": "1"}).encode()
    kind: bytes | None = EVENT
    if dice < 0.1:
        kind, value = GENESIS, rng.choice((genesis, b"{}", None, b'{"site":"dr","generation":1}'))
    elif dice < 0.25:
        kind = COMMAND
        target = rng.choice((PRIMARY, DR, Home("dr", 2)))
        value = epoch_command(rng.choice((1, 2, 3, 4, 2**53)), target, rng.choice((0, 0, 0, 1)))
        value = rng.choice((value, value, value.replace(b" ", b""), value[:-1] + b',"x":1}', b"{", b"\xff"))
    elif dice < 0.3:
        kind, value = TICK, b'{"at":"5"}'
    elif dice < 0.35:
        kind = rng.choice((None, b""))
    headers: list[tuple[str, bytes | None]] = [("traceparent", b"t"), (KIND, kind)]
    if rng.random() < 0.05:
        headers = headers[:1]
    if rng.random() < 0.5:
        place = position + rng.choice((0, 0, 0, 0, 1, -1, 5))
        odd = rng.choice((b"", b"1", b"x 1", b"1 2 3", b"+1 1", b"1_0 1", None))
        copy = b"%d %d" % (max(place, 0), number) if rng.random() < 0.9 else odd
        headers.insert(rng.randrange(len(headers) + 1), (COPY, copy))
    return Record(0, number, rng.choice((None, b"", b"k")), value, tuple(headers))


class LogWriter:
    """Writes an attested log for what a replica computed; `fault` plants one fault into a sound record.

    Every fault is a change of the record, so that it is wrong in exactly that way.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    @property
    def tip(self) -> LogTip:
        """The accepted tip."""
        return self.replica.tip

    def leader(self, home: Home, **changes: Any) -> Leader:
        """The LEADER that fits, with changes."""
        tip = self.tip
        opens = home != tip.active
        voters = [VoterRow(name, "boot") for name in VOTERS.get(home.site, ("p1",))[:2]]
        fields: dict[str, Any] = {
            "boot": "boot",
            "build": "b",
            "epoch": tip.epoch + opens,
            "generation": home.generation,
            "proof": EpochProof(tip.input_chain.hex(), tip.position + 1, voters) if opens else None,
            "replica": VOTERS.get(home.site, ("p1",))[0],
            "settings": "s",
            "site": home.site,
            "term": tip.term + 1,
        }
        return Leader(**{**fields, **changes})

    def block(self, count: int = 3) -> Block | None:
        """The next block of at most `count` entries."""
        names = (self.tip.voters_of(self.tip.active.site) or Voters(1, "", ())).voters[:2]
        return self.replica.block(self.tip.index + count, tuple([VoterRow(name, "boot") for name in names]))


BLOCK_FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "TERM": lambda block: block.update(term=block["term"] - 1),
    "EPOCH": lambda block: block.update(epoch=block["epoch"] + 1),
    "FIRST": lambda block: block.update(first=block["first"] + 1),
    "PREVIOUS": lambda block: block.update(previous="0" * 64),
    "FOLD": lambda block: block.update(fold=2),
    "EMPTY": lambda block: block.update(entries=[]),
    "CHAIN": lambda block: block.update(chain=block["chain"][::-1]),
    "POSITION": lambda block: block.update(position=block["position"] + 1),
    "POSITION last": lambda block: block.update(last=block["last"] + 1),
    "QUORUM one": lambda block: block.update(voters=block["voters"][:1]),
    "QUORUM twice": lambda block: block.update(voters=block["voters"][:1] * 2),
    "QUORUM repeated": lambda block: block["voters"].append(block["voters"][0]),
    "QUORUM stranger": lambda block: block["voters"][0].__setitem__(0, "mallory"),
    "QUORUM none": lambda block: block.update(voters=[]),
    "ORDER ordinal": lambda block: block["entries"][0].__setitem__(1, block["entries"][0][1] + 7),
    "ORDER back": lambda block: block["entries"][-1].__setitem__(0, 0),
    "ORDER far": lambda block: block["entries"].append([2**64, 0, {}]),
    "ENTRY_SIZE": lambda block: block["entries"][0].__setitem__(2, {"x": "x" * 66_000}),
    "UNREADABLE hash": lambda block: block.update(input_chain="XY" * 32),
    "UNREADABLE short": lambda block: block.update(input_chain="00"),
    "UNREADABLE key": lambda block: block.update(more=1),
    "UNREADABLE lack": lambda block: block.pop("term"),
    "UNREADABLE type": lambda block: block.update(term="1"),
    "UNREADABLE float": lambda block: block.update(term=float(block["term"])),
    "UNREADABLE voter": lambda block: block["voters"][0].append("sig") or block["voters"][0].append("more"),
    "UNREADABLE entry": lambda block: block["entries"][0].append(1),
    "UNREADABLE kind": lambda block: block.update(kind="blok"),
    "CHAIN torn": lambda block: block["entries"].pop(0) if len(block["entries"]) > 1 else block.update(chain=""),
    "CHAIN forged": lambda block: block["entries"][-1].__setitem__(2, {"kind": "outcome", "outcome": "SATISFIED"}),
}


def faulty(block: Block, fault: str) -> bytes:
    """A block's bytes with a fault."""
    document = json.loads(encode_log_record(block))
    BLOCK_FAULTS[fault](document)
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def copied(headers: Headers, position: int) -> Headers:
    """Headers of a copied record."""
    return ((COPY, b"%d 0" % position), *headers)
