"""The fold's whole state as keyed items, and the digest over them.

| item key | content |
| --- | --- |
| `h` | header: position, log time, control number, epoch, active home, fold version, voters, namespace |
| `j/<job key>` | a job, open or finished (its first field, the index of its outcome, tells) |
| `c/<tenant>/<name>/<version>` | a contract version: [latest?, document] |
| `m/<topic>/<partition>` | source mark: [offset, ordinal] |
| `s/<source prefix>` | source times: [event-time mark, horizon] |
| `b/<tenant>/<contract>/<action>` | circuit breaker: [failures in a row, open until] |

An item is `key NUL canonical JSON`. The digest is the sum, modulo 2^2048, of SHAKE-128 over every item: it needs no
order, and a changed item costs one subtraction and one addition. Items are hashed only at digest positions; until then
the old bytes of a changed item are kept, once.

Everything else in here (timers, children, latest contracts) is derived from the items and rebuilt on import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from finality.core.canonical import DIGEST_BITS, encode, item_sum
from finality.core.contract import Contract, compile_contract, default_contract
from finality.core.genesis import Genesis, Voters
from finality.core.inputlog import Home
from finality.core.job import NO_TIME, Job, export_job, import_job, text
from finality.core.records import Coordinate
from finality.core.timers import CASCADE, COMMAND, DEADLINE, HOLD, LEASE, SETTLE, Timers

__all__ = ["State"]

_MASK = 2**DIGEST_BITS - 1
_rows = msgspec.json.Decoder(list[Any])


class State:
    """State of one partition's fold. position: last folded input record. index: last entry made."""

    def __init__(self, genesis: Genesis) -> None:
        parameters = genesis.parameters
        self.parameters = parameters
        self.position = 1
        self.index = 0
        self.log_time = int(genesis.log_time)
        self.control_epoch = 1
        self.control_number = 0
        self.epoch = 1
        self.active = Home(genesis.site, genesis.generation)
        self.fold_version = genesis.fold_version
        self.sites: tuple[Voters, ...] = genesis.sites
        self.namespace = ""
        self.jobs: dict[str, Job] = {}
        self.tombstones: dict[str, bytes] = {}  # in order of finality
        self.contracts: dict[tuple[str, str, str], Contract] = {}
        self.latest: dict[str, dict[str, Contract]] = {}  # tenant -> name -> newest version
        self.marks: dict[tuple[str, int], Coordinate] = {}
        self.source_times: dict[str, int] = {}
        self.horizons: dict[str, int] = {}
        self.breakers: dict[str, tuple[int, int]] = {}  # item key -> (failures in a row, open until)
        self.timers = Timers(parameters.log_time == "ticks")
        self.children: dict[str, set[str]] = {}  # root -> open jobs that end with it
        self.cascades: dict[str, int] = {}  # root -> timer of a cascade that did not fit into one step
        self.settle = int(parameters.settle)
        self.memory = int(parameters.memory)
        self._defaults: dict[str, Contract] = {}
        self._finals: dict[str, Job] = {}
        self._old: dict[str, bytes | None] = {}  # item key -> its bytes at the last digest
        self._moved: set[object] = set()  # source marks and times whose items stand in `_old`
        self._sum = 0
        self._count = 0

    # -- jobs ---------------------------------------------------------------------------------

    def touch(self, job: Job) -> None:
        """A job is about to change."""
        key = "j/" + job.key
        if key not in self._old:
            self._old[key] = self._job_bytes(job)

    def add(self, job: Job) -> None:
        """A new open job."""
        self.jobs[job.key] = job
        self._old.setdefault("j/" + job.key, None)

    def finish(self, job: Job) -> None:
        """An open job's outcome is in this step's entries; it becomes a tombstone when those have their indices."""
        self._finals[job.key] = job
        self.jobs.pop(job.key, None)

    def finishing(self, key: str) -> Job | None:
        """A job that finished within the step at hand."""
        return self._finals.get(key)

    def bury(self) -> None:
        """Turn the jobs that finished in this step into tombstones."""
        if self._finals:
            for job in self._finals.values():
                self.tombstones[job.key] = encode(export_job(job))
            self._finals.clear()

    def revive(self, key: str) -> Job | None:
        """The finished job under a tombstone, as a copy; None when there is none."""
        packed = self.tombstones.get(key)
        return self._unpack(key, packed) if packed is not None else None

    def rebury(self, job: Job) -> None:
        """A finished job took late evidence; its place in the order of finality stays."""
        self._old.setdefault("j/" + job.key, self._stone_bytes(job.key))
        self.tombstones[job.key] = encode(export_job(job))

    def forget(self) -> None:
        """Drop tombstones that are older than the memory by their source's time mark, or too many, oldest first."""
        over = len(self.tombstones) - self.parameters.max_finished
        gone: list[str] = []
        for key in self.tombstones:
            job = self._unpack(key, self.tombstones[key])
            source = key.rsplit("/", 2)[0]
            mark = self.source_times.get(source, NO_TIME)
            old = job.latest != NO_TIME and job.latest + self.memory < mark
            if not old and len(gone) >= over:
                break
            gone.append(key)
            if job.latest > self.horizons.get(source, NO_TIME):
                self._touch_item("s/" + source)
                self.horizons[source] = job.latest
        for key in gone:
            self._old.setdefault("j/" + key, self._stone_bytes(key))
            del self.tombstones[key]

    # -- everything else ----------------------------------------------------------------------

    def set_mark(self, place: tuple[str, int], at: Coordinate) -> None:
        """A source's record was folded."""
        if place not in self._moved:
            self._moved.add(place)
            self._touch_item(f"m/{place[0]}/{place[1]}")
        self.marks[place] = at

    def set_source_time(self, source: str, time: int) -> None:
        """A source's event-time mark moved."""
        if source not in self._moved:
            self._moved.add(source)
            self._touch_item("s/" + source)
        self.source_times[source] = time

    def set_breaker(self, key: str, failures: int, until: int) -> None:
        """A circuit breaker counted or opened."""
        self._touch_item(key)
        self.breakers[key] = (failures, until)

    def add_contract(self, contract: Contract) -> None:
        """A contract's version becomes the newest of its name."""
        names = self.latest.setdefault(contract.tenant, {})
        before = names.get(contract.name)
        if before is not None:
            self._touch_item(_contract_key(before))
        self._touch_item(_contract_key(contract))
        names[contract.name] = contract
        self.contracts[contract.tenant, contract.name, contract.version] = contract

    def drop_contract(self, tenant: str, name: str) -> None:
        """No new job is selected by this contract; those that are pinned to it keep it."""
        names = self.latest.get(tenant, {})
        if name in names:
            self._touch_item(_contract_key(names[name]))  # while its item still says that it is the newest
            del names[name]

    def _unpack(self, key: str, packed: bytes) -> Job:
        row = _rows.decode(packed)
        return import_job(key, row, self._pinned(key, row))

    def _pinned(self, key: str, row: list[Any]) -> Contract:
        tenant = key[: key.index("/")]
        return self.contracts.get((tenant, row[1], row[2])) or self.default(tenant)

    def default(self, tenant: str) -> Contract:
        """The built-in contract of a tenant."""
        contract = self._defaults.get(tenant)
        if contract is None:
            contract = self._defaults[tenant] = default_contract(tenant, self.settle)
        return contract

    # -- items and digest ---------------------------------------------------------------------

    def _touch_item(self, key: str) -> None:
        if key not in self._old:
            self._old[key] = self._item(key)

    def _job_bytes(self, job: Job) -> bytes:
        return b"j/%b\0%b" % (job.key.encode(), encode(export_job(job)))

    def _stone_bytes(self, key: str) -> bytes:
        return b"j/%b\0%b" % (key.encode(), self.tombstones[key])

    def _header(self) -> list[Any]:
        return [
            self.position,
            str(self.log_time),
            self.control_epoch,
            self.control_number,
            self.epoch,
            [self.active.site, self.active.generation],
            self.fold_version,
            [[row.site, list(row.voters), row.quorum] for row in self.sites],
            self.namespace,
            [[root, str(timer)] for root, timer in sorted(self.cascades.items())],
        ]

    def _item(self, key: str) -> bytes | None:
        """The current bytes of an item, None when there is none."""
        kind, _, rest = key.partition("/")
        value: list[Any] | None = None
        if kind == "j":
            job = self.jobs.get(rest)
            if job is not None:
                return self._job_bytes(job)
            return self._stone_bytes(rest) if rest in self.tombstones else None
        if kind == "h":
            value = self._header()
        elif kind == "m":
            topic, _, partition = rest.rpartition("/")
            mark = self.marks.get((topic, int(partition)))
            value = None if mark is None else [str(mark.offset), mark.ordinal]
        elif kind == "s":
            if rest in self.source_times or rest in self.horizons:
                value = [text(self.source_times.get(rest, NO_TIME)), text(self.horizons.get(rest, NO_TIME))]
        elif kind == "b":
            breaker = self.breakers.get(key)
            value = None if breaker is None else [breaker[0], str(breaker[1])]
        else:
            tenant, name, version = rest.split("/")
            contract = self.contracts.get((tenant, name, version))
            if contract is not None:
                newest = self.latest.get(tenant, {}).get(name)
                value = [int(newest is contract), contract.document.decode()]
        return None if value is None else key.encode() + b"\0" + encode(value)

    def digest(self) -> tuple[str, int]:
        """SHA-256 of the sum over all items, as hex, and how many items there are."""
        header = b"h\0" + encode(self._header())
        for key, old in self._old.items():
            if old is not None:
                self._sum -= item_sum(old)
                self._count -= 1
            new = self._item(key)
            if new is not None:
                self._sum += item_sum(new)
                self._count += 1
        self._old.clear()
        self._moved.clear()
        self._sum &= _MASK
        total = (self._sum + item_sum(header)) & _MASK
        return sha256(total.to_bytes(DIGEST_BITS // 8, "big")).hexdigest(), self._count + 1

    def items(self) -> Iterator[bytes]:
        """Every item, for an export; tombstones in order of finality."""
        yield b"h\0" + encode(self._header())
        for key in self.keys():
            item = self._item(key)
            if item is not None:
                yield item

    def keys(self) -> Iterator[str]:
        """Keys of all items but the header."""
        yield from [f"c/{'/'.join(place)}" for place in self.contracts]
        yield from [f"m/{topic}/{partition}" for topic, partition in self.marks]
        yield from ["s/" + source for source in self.source_times.keys() | self.horizons.keys()]
        yield from self.breakers
        yield from ["j/" + key for key in self.tombstones]
        yield from ["j/" + key for key in self.jobs]

    @classmethod
    def restore(cls, genesis: Genesis, items: Iterable[bytes], index: int) -> State:
        """State from exported items and the index of the last entry. Raises ValueError for bytes that are no item."""
        state = cls(genesis)
        state.index = index
        finished: list[tuple[int, str, bytes]] = []
        jobs: list[tuple[str, list[Any]]] = []
        for item in items:
            key, _, body = item.partition(b"\0")
            state._restore_item(key.decode(), body, finished, jobs)
            if key != b"h":
                state._sum += item_sum(item)
                state._count += 1
        state._sum &= _MASK
        for job_key, row in jobs:
            state.jobs[job_key] = import_job(job_key, row, state._pinned(job_key, row))
        for _, job_key, packed in sorted(finished):
            state.tombstones[job_key] = packed
        for job in state.jobs.values():
            state._restore_timers(job)
        for root, timer in state.cascades.items():
            state.timers.restore(root, CASCADE, timer)
        state.timers.rebuilt()
        return state

    def _restore_item(
        self,
        key: str,
        body: bytes,
        finished: list[tuple[int, str, bytes]],
        jobs: list[tuple[str, list[Any]]],
    ) -> None:
        row = _rows.decode(body)
        kind, _, rest = key.partition("/")
        if kind == "j":
            if row[0]:
                finished.append((row[0], rest, body))
            else:
                jobs.append((rest, row))
        elif kind == "h":
            self._restore_header(row)
        elif kind == "m":
            topic, _, partition = rest.rpartition("/")
            self.marks[topic, int(partition)] = Coordinate(int(row[0]), row[1])
        elif kind == "s":
            for value, into in zip(row, (self.source_times, self.horizons), strict=True):
                if value:
                    into[rest] = int(value)
        elif kind == "b":
            self.breakers[key] = (row[0], int(row[1]))
        elif kind == "c":
            contract = compile_contract(row[1].encode())
            self.contracts[contract.tenant, contract.name, contract.version] = contract
            if row[0]:
                self.latest.setdefault(contract.tenant, {})[contract.name] = contract
        else:
            raise ValueError(f"state item {key[:40]!r} is of no known kind")

    def _restore_header(self, row: list[Any]) -> None:
        self.position = row[0]
        self.log_time = int(row[1])
        self.control_epoch, self.control_number, self.epoch = row[2:5]
        self.active = Home(*row[5])
        self.fold_version = row[6]
        self.sites = tuple([Voters(site=site, voters=tuple(ids), quorum=quorum) for site, ids, quorum in row[7]])
        self.namespace = row[8]
        self.cascades = {root: int(timer) for root, timer in row[9]}

    def _restore_timers(self, job: Job) -> None:
        timers = self.timers
        if not 0 < job.deadline <= self.log_time:  # a deadline that passed was fired, and stays only to be known
            timers.restore(job.key, DEADLINE, job.deadline)
        timers.restore(job.key, SETTLE, job.settle)
        extra = job.extra
        if extra is not None:
            timers.restore(job.key, HOLD, extra.hold)
            timers.restore(job.key, LEASE, extra.lease)
            timers.restore(job.key, COMMAND, extra.command_timer)
            if extra.root:
                self.children.setdefault(extra.root, set()).add(job.key)


def _contract_key(contract: Contract) -> str:
    return f"c/{contract.tenant}/{contract.name}/{contract.version}"
