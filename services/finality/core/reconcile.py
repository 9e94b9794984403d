"""Reconciling one job: evidence against contract, what is published of it, and when it is final.

Level, not edge: after every change of a job the same function looks at all of it again. Running it twice changes
nothing the second time, because deltas are published only when their signature changes.

The life of a job, as a table (`LIFE`) from which the documents draw it:

| from | when | to |
| --- | --- | --- |
| — | first event | open |
| open | ended phase, settle none | final |
| open | ended phase, settle a duration | settling |
| settling | newer evidence with an open phase | open |
| settling | newer evidence with an ended phase | settling, from the start |
| settling | settle over, met or not to be helped | final |
| settling | settle over, unmet, compensation left | compensating |
| open | deadline | final (EXPIRED) or compensating |
| compensating | newer evidence | open or settling |
| compensating | answer failed or command expired | compensating, or final when the budget is used |
| open, settling, compensating | its root ended | final (CANCELLED) |
| final | late evidence | final, with an amendment when it changes what was said (I12) |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from sys import intern
from typing import NamedTuple

from finality.core import barrier, compensate
from finality.core.contract import Contract, select
from finality.core.entries import DeltaEntry, Entry, OutcomeEntry
from finality.core.event import ENDED, Event
from finality.core.job import CASCADED, EXPIRED, Job, text
from finality.core.jobkey import source_and_kind
from finality.core.joblease import fold_lease, lose
from finality.core.state import State
from finality.core.timers import CASCADE, COMMAND, DEADLINE, HOLD, LEASE, SETTLE
from finality.core.verdict import judge, marks_of, outcome_of, reached_stages

__all__ = ["LIFE", "MAX_CASCADE", "Reconciler"]

LIFE = tuple(
    [
        (cells[1].strip(), cells[2].strip(), cells[3].strip())
        for cells in [line.split("|") for line in (__doc__ or "").splitlines() if line.startswith("| ")]
        if cells[1].strip() not in ("from", "---")
    ]
)
MAX_CASCADE = 1000


class Lack(NamedTuple):
    """What a delta says. signature: equal for two deltas that say the same."""

    actual: dict[str, str]
    delta: dict[str, str]
    marks: tuple[str, ...]
    stages: tuple[str, ...]
    signature: str


class Reconciler:
    """Decides about jobs. `emit` collects entries; `counts` is for metrics."""

    def __init__(self, state: State, emit: Callable[[Entry, Job | None], None], counts: Counter[str]) -> None:
        self.state = state
        self._emit = emit
        self._counts = counts
        self._ended_roots: list[str] = []
        self._waiting: dict[Contract, dict[str, Lack]] = {}

    # -- evidence -----------------------------------------------------------------------------

    def open(self, event: Event, at: int) -> str:
        """The first event of a job. Returns a rejection code or ""."""
        state = self.state
        contract = self._choose(event)
        job = Job(event.job, contract)
        if contract.cascade or contract.needs_labels:
            self._remember_family(job, event, contract)
        state.add(job)
        if contract.deadline:
            job.deadline = state.timers.start(state.log_time, job.key, DEADLINE, contract.deadline)
        code = self._take(job, contract, event, at)
        if contract.cascade and job.key in state.jobs and self._root_is_finished(job):
            self._finish(job, contract, CASCADED)
        return code

    def observe(self, job: Job, event: Event, at: int) -> str:
        """A further event of an open job. Returns a rejection code or ""."""
        self.state.touch(job)
        contract = job.contract
        if contract.follow_latest:
            contract = self._follow(job, contract)
        return self._take(job, contract, event, at)

    def observe_late(self, event: Event, at: int) -> str:
        """An event of a finished job: merge it, and amend what was said if that changed."""
        state = self.state
        job = state.finishing(event.job)
        pending = job is not None
        if job is None:
            job = state.revive(event.job)
        assert job is not None
        contract = job.contract
        before = self._outcome(job, contract, "outcome")
        job.merge(event, at)
        after = self._outcome(job, contract, "amendment")
        if not pending:
            state.rebury(job)
        said = _said(before)
        if _said(after) != said:
            after.cls = "outcome" if _verdict(after) != _verdict(before) else "evidence"
            self._emit(after, job)
        return ""

    def _take(self, job: Job, contract: Contract, event: Event, at: int) -> str:
        if contract.contiguous and event.revision:
            held = barrier.hold(self.state, job, contract, event)
            if held is not None:
                self.settle(job, contract, moved=False if held else barrier.pass_gap(job))
                return ""
        code = ""
        counts = True
        if contract.job_lease is not None:
            code, counts = fold_lease(self.state, job, contract.job_lease, event)
        moved = job.merge(event, at, counts)
        if contract.contiguous and event.revision:
            moved = barrier.applied(job, event) or moved
        if event.answers is not None:
            compensate.answered(self.state, job, contract, event.answers)
        self.settle(job, contract, moved)
        return code

    def _choose(self, event: Event) -> Contract:
        tenant = event.job[: event.job.index("/")]
        contracts = self.state.latest.get(tenant)
        if not contracts:
            return self.state.default(tenant)
        source, kind = source_and_kind(event.job.rpartition("/")[0])
        chosen = select(contracts.values(), source, kind, event.name, event.labels)
        return chosen if chosen is not None else self.state.default(tenant)

    def _follow(self, job: Job, contract: Contract) -> Contract:
        newest = self.state.latest.get(contract.tenant, {}).get(contract.name)
        if newest is None or newest is contract:
            return contract
        job.contract = newest
        return newest

    # -- decisions ----------------------------------------------------------------------------

    def settle(self, job: Job, contract: Contract, moved: bool) -> None:
        """Look at all of a job again. moved: its greatest order key changed, so a settle window begins anew."""
        state = self.state
        extra = job.extra
        ended = job.phase in ENDED
        if extra is not None:
            if moved and extra.command:
                compensate.superseded(state, job)
            if contract.strict and job.rivals:
                self._finish(job, contract, 0)
                return
            if extra.command:
                self._publish_delta(job, contract)
                return
            if extra.held:
                ended = False
        elif contract.strict and job.rivals:
            self._finish(job, contract, 0)
            return
        if not ended:
            job.settle = 0
            if 0 < job.deadline <= state.log_time:
                self.conclude(job, contract, EXPIRED)
            else:
                self._publish_delta(job, contract)
        elif not contract.settle:
            self.conclude(job, contract, 0)
        else:
            if moved or not job.settle:
                job.settle = state.timers.start(state.log_time, job.key, SETTLE, contract.settle)
            self._publish_delta(job, contract)

    def conclude(self, job: Job, contract: Contract, flag: int) -> None:
        """The job would be final now: order a compensation if one is left, else finish. Only a deadline brings a job
        here that has not ended, perhaps by way of compensations that did not help."""
        if job.phase not in ENDED:
            flag = EXPIRED
        if contract.compensations:
            said = self._outcome(job, contract, "outcome", flag)
            if compensate.order(self.state, job, contract, said.outcome, self._emit):
                self._publish_delta(job, contract)
                return
        self._finish(job, contract, flag)

    def _finish(self, job: Job, contract: Contract, flag: int) -> None:
        state = self.state
        job.flags |= flag
        job.deadline = job.settle = 0
        if job.extra is not None:
            extra = job.extra
            extra.hold = extra.lease = extra.command_timer = 0
            extra.command = ""
            if extra.held:
                barrier.pass_gap(job)
            if extra.root:
                self._leave_family(job)
        job.signature = ""
        entry = self._outcome(job, contract, "outcome")
        entry.time = str(state.log_time)
        self._emit(entry, job)
        state.finish(job)
        if job.key not in state.children:
            return
        self._ended_roots.append(job.key)
        if len(self._ended_roots) == 1:  # the outermost: a family may be as deep as it is long, so nothing recurs
            for root in self._ended_roots:
                self.cascade(root)
            self._ended_roots.clear()

    def _outcome(self, job: Job, contract: Contract, kind: str, flag: int = 0) -> OutcomeEntry:
        actual, delta = judge(job, contract)
        outcome = outcome_of(job, contract, delta, job.flags | flag)
        extra = job.extra
        return OutcomeEntry(
            actual,
            job.attempts,
            (contract.name, contract.version),
            delta,
            contract.expected,
            job.key,
            kind,
            outcome,
            job.phase,
            created=text(job.created),
            end=text(job.end),
            marks=marks_of(job),
            parts=len(extra.parts) if extra else 0,
            reason=job.reason,
            stages=reached_stages(job, contract) if contract.stages else (),
            start=text(job.start),
            word=job.word,
        )

    def _publish_delta(self, job: Job, contract: Contract) -> None:
        """Publish what is missing, if that differs from what was published last."""
        due = job.phase in ENDED or 0 < job.deadline <= self.state.log_time
        plain = contract.owes_times_only and not due and job.extra is None and not job.flags and not job.rivals
        lack = self._lack_of_phase(job, contract) if plain else _lack(job, contract, due)
        if lack.signature == job.signature:
            return
        job.signature = lack.signature
        entry = DeltaEntry(
            lack.actual,
            "due" if due else "pending",
            (contract.name, contract.version),
            lack.delta,
            contract.expected,
            job.key,
            lack.marks,
            job.phase,
            lack.stages,
            str(self.state.log_time),
        )
        self._emit(entry, job)

    def _lack_of_phase(self, job: Job, contract: Contract) -> Lack:
        """While nothing has ended, a contract on phase and times lacks the same in every plain job of a phase."""
        known = self._waiting.setdefault(contract, {})
        lack = known.get(job.phase)
        if lack is None:
            lack = known[job.phase] = _lack(job, contract, due=False)
        return lack

    # -- families -----------------------------------------------------------------------------

    def _remember_family(self, job: Job, event: Event, contract: Contract) -> None:
        extra = job.more()
        extra.labels = dict(event.labels)
        extra.name = event.name
        root = event.root or event.parent
        if contract.cascade and root and root != job.key:
            extra.root = root
            extra.parent = event.parent
            self.state.children.setdefault(root, set()).add(job.key)

    def _leave_family(self, job: Job) -> None:
        assert job.extra is not None
        siblings = self.state.children.get(job.extra.root)
        if siblings is not None:
            siblings.discard(job.key)
            if not siblings:
                del self.state.children[job.extra.root]

    def _root_is_finished(self, job: Job) -> bool:
        root = job.extra.root if job.extra else ""
        return bool(root) and (root in self.state.tombstones or self.state.finishing(root) is not None)

    def cascade(self, root: str) -> None:
        """Finish the open children of a root that ended, in the order of their keys, at most 1,000 in one step; the
        rest follows with the next moment of log time."""
        state = self.state
        children = sorted(state.children.get(root, ()))
        state.cascades.pop(root, None)
        for key in children[:MAX_CASCADE]:
            child = state.jobs.get(key)
            if child is not None:
                state.touch(child)
                self._finish(child, child.contract, CASCADED)
        if len(children) > MAX_CASCADE:
            state.cascades[root] = state.timers.start(state.log_time, root, CASCADE, 1)

    # -- time ---------------------------------------------------------------------------------

    def arm(self) -> None:
        """A tick was folded: start every duration that waited for it."""
        state = self.state
        timers, now = state.timers, state.log_time
        waiting, timers.waiting = timers.waiting, set()
        for key in waiting:
            if state.cascades.get(key, 0) < 0:
                state.cascades[key] = timers.arm(now, key, CASCADE, state.cascades[key])
            job = state.jobs.get(key)
            if job is None:
                continue
            state.touch(job)
            if job.deadline < 0:
                job.deadline = timers.arm(now, key, DEADLINE, job.deadline)
            if job.settle < 0:
                job.settle = timers.arm(now, key, SETTLE, job.settle)
            extra = job.extra
            if extra is not None:
                if extra.hold < 0:
                    extra.hold = timers.arm(now, key, HOLD, extra.hold)
                if extra.lease < 0:
                    extra.lease = timers.arm(now, key, LEASE, extra.lease)
                if extra.command_timer < 0:
                    extra.command_timer = timers.arm(now, key, COMMAND, extra.command_timer)

    def fire(self, due: int, key: str, kind: int) -> None:
        """A timer is due; it counts if the job still waits for exactly this moment."""
        state = self.state
        if kind == CASCADE:
            if state.cascades.get(key) == due:
                self.cascade(key)
            return
        job = state.jobs.get(key)
        if job is None:
            return
        extra = job.extra
        contract = job.contract
        if kind == DEADLINE and job.deadline == due:
            state.touch(job)
            self.settle(job, contract, moved=False)
        elif kind == SETTLE and job.settle == due:
            state.touch(job)
            job.settle = 0
            self.conclude(job, contract, 0)
        elif extra is not None:
            if kind == HOLD and extra.hold == due:
                state.touch(job)
                self.settle(job, contract, barrier.pass_gap(job))
            elif kind == LEASE and extra.lease == due:
                state.touch(job)
                lose(job)
                self._publish_delta(job, contract)
            elif kind == COMMAND and extra.command_timer == due:
                state.touch(job)
                compensate.timed_out(state, job, contract)
                if len(extra.command) <= 1:
                    self.conclude(job, contract, 0)


def _lack(job: Job, contract: Contract, due: bool) -> Lack:
    """What a job lacks now, and the text by which two such answers are told apart."""
    actual, delta = judge(job, contract)
    marks = marks_of(job)
    stages = reached_stages(job, contract) if contract.stages else ()
    missing = [f"{item}={verdict}" for item, verdict in delta.items()]
    signature = intern(" ".join(["due" if due else "pending", job.phase, *missing, *marks, *stages]))
    return Lack(actual, delta, marks, stages, signature)


def _said(entry: OutcomeEntry) -> tuple[object, ...]:
    """What an outcome says, apart from when it was said."""
    times = (entry.attempts, entry.created, entry.end, entry.start, entry.parts, entry.stages)
    return (*_verdict(entry), entry.actual, entry.marks, entry.word, times)


def _verdict(entry: OutcomeEntry) -> tuple[object, ...]:
    return (entry.outcome, entry.phase, entry.reason, entry.delta)
