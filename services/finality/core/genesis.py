"""Genesis: the first record of every input partition, and everything that is fixed by it.

It names the partition count, the fold's parameters and version, the voters of every site, and which site begins. The
fold reads no settings: what is not in the log does not exist for it. `stream_id` is the hash of these very bytes, so
two histories that began differently can never be mixed up.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from finality.core.canonical import encode
from finality.core.errors import UsageError

__all__ = ["FOLD_VERSION", "Genesis", "Parameters", "Voters", "decode_genesis", "encode_genesis"]

FOLD_VERSION = 1
PARTITIONER: Literal["sha256-8"] = "sha256-8"

LogTimeMode = Literal["ticks", "events"]


class Voters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who votes at a site, and how many equal votes certify. quorum > half of the voters."""

    quorum: int
    site: str
    voters: tuple[str, ...]


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the fold. Durations in nanoseconds as decimal text.

    digest_every: input records between two digests. hold_max, hold_for: bounds of events held behind a gap, where the
    contract names none. memory, max_finished: how long, and how many, finished jobs are remembered. settle: rule of
    the built-in contract ("none" or a duration). log_time: `ticks`, or `events` (greatest occurred time; for replays).
    """

    digest_every: int = 10_000
    hold_for: str = "60000000000"
    hold_max: int = 64
    log_time: LogTimeMode = "ticks"
    max_finished: int = 10_000_000
    memory: str = "2592000000000000"
    settle: str = "0"


class Genesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document of the genesis record."""

    generation: int
    log_time: str
    nonce: str
    parameters: Parameters
    partitions: int
    site: str
    sites: tuple[Voters, ...]
    fold_version: int = FOLD_VERSION
    kind: Literal["genesis"] = "genesis"
    partitioner: Literal["sha256-8"] = PARTITIONER


_decoder = msgspec.json.Decoder(Genesis)


def decode_genesis(value: bytes) -> Genesis:
    """Genesis from its bytes. Raises msgspec.DecodeError or ValidationError."""
    return _decoder.decode(value)


def encode_genesis(genesis: Genesis) -> bytes:
    """Checked canonical bytes of a genesis. Raises `UsageError` naming what does not fit together."""
    if not 1 <= genesis.partitions <= 4096:
        raise UsageError(f"partitions = {genesis.partitions}: use 1 to 4096")
    names = [row.site for row in genesis.sites]
    if genesis.site not in names:
        raise UsageError(f"the first active site {genesis.site!r} is none of {', '.join(names)}")
    for row in genesis.sites:
        if len(set(row.voters)) != len(row.voters) or not row.voters:
            raise UsageError(f"site {row.site!r}: voters must be named once each, and at least one")
        if not len(row.voters) // 2 < row.quorum <= len(row.voters):
            raise UsageError(f"site {row.site!r}: quorum {row.quorum} is no majority of {len(row.voters)} voters")
    return encode(genesis)
