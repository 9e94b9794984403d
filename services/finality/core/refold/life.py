"""The life of a job: the rules of the fold, in the order in which they are written down.

Everything here is about one job at a time and its family.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from finality.core.refold.contracts import Contract, most_specific
from finality.core.refold.events import contents_of, read_event
from finality.core.refold.jobs import CASCADED, EXPIRED, LEASE_LOST, PASSED_GAP, Job
from finality.core.refold.judging import Judgement, judge
from finality.core.refold.orders import Orders
from finality.core.refold.world import World

__all__ = ["FAMILY", "Life"]

FAMILY = 1000  # children that end with their root in one step


class Life:
    """The rules. `observe` and `due` are the two ways in."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.orders = Orders(world)
        self.families: dict[str, set[str]] = {}  # root -> open jobs that end with it
        self._ended_roots: list[str] = []

    # -- evidence -----------------------------------------------------------------------------

    def first(self, event: dict[str, Any]) -> str:
        """A job that nobody knew. Returns a code when something of it is refused."""
        key = event["job"]
        tenant, source, _, kind, _ = key.split("/")
        choice = self.world.contracts_of(tenant)
        contract = most_specific(choice, unquote(source), unquote(kind), event["name"], event["labels"])
        job = Job(key, contract or self.world.default_of(tenant))
        contract = job.contract
        if contract.cascade or contract.needs_labels:
            self._meet_family(job, event)
        self.world.open_jobs[key] = job
        if contract.deadline:
            job.timers["deadline"] = self.world.start(key, "deadline", contract.deadline)
        code = self._take(job, event)
        root_ended = bool(job.root) and job.root in self.world.finished
        if contract.cascade and key in self.world.open_jobs and root_ended:
            self._finish(job, CASCADED)
        return code

    def next(self, job: Job, event: dict[str, Any]) -> str:
        """A further event of an open job."""
        if job.contract.follows:
            job.contract = self.world.contract_of(job.contract.tenant, job.contract.name) or job.contract
        return self._take(job, event)

    def late(self, job: Job, event: dict[str, Any]) -> None:
        """An event of a finished job."""
        before = self._outcome(job)
        job.observe(event)
        after = self._outcome(job)
        if after != before:
            verdict = ("outcome", "phase", "reason", "delta")
            changed = any(after.get(name) != before.get(name) for name in verdict)
            entry = {**after, "kind": "amendment", "class": "outcome" if changed else "evidence"}
            self.world.say("amendment", entry, job)

    def _take(self, job: Job, event: dict[str, Any]) -> str:
        contract = job.contract
        if contract.contiguous and event["revision"] and self._is_held(job, event):
            if job.held and len(job.held) > self._hold_max(contract):
                self.let_go(job)
            else:
                self.decide(job, False)
            return ""
        code, counts = self._lease_step(job, event) if contract.lease is not None else ("", True)
        moved = job.observe(event, counts)
        if contract.contiguous and event["revision"]:
            moved = self._follow_on(job, event) or moved
        if event["answers"] is not None:
            self.orders.answered(job, event["answers"])
        self.decide(job, moved)
        return code

    # -- revisions without a gap --------------------------------------------------------------

    def _hold_max(self, contract: Contract) -> int:
        return contract.hold_max if contract.hold_max is not None else self.world.hold_max

    def _is_held(self, job: Job, event: dict[str, Any]) -> bool:
        job.rare = True
        epoch, revision = int(event["revision_epoch"] or 0), int(event["revision"])
        known_epoch, last = job.revisions
        if last < 0 or epoch != known_epoch or revision <= last + 1:
            return False
        job.held = sorted({*job.held, (revision, contents_of(event))})
        if len(job.held) <= self._hold_max(job.contract) and not job.timers["hold"]:
            wait = job.contract.hold_for or self.world.hold_for
            job.timers["hold"] = self.world.start(job.key, "hold", wait)
        return True

    def _follow_on(self, job: Job, event: dict[str, Any]) -> bool:
        moved = False
        epoch, revision = int(event["revision_epoch"] or 0), int(event["revision"])
        known_epoch, last = job.revisions
        if epoch > known_epoch or last < 0:
            if job.held:
                job.flags.add(PASSED_GAP)
                moved = self._release(job, len(job.held))
            job.revisions = (epoch, revision)
        elif epoch == known_epoch:
            job.revisions = (epoch, max(last, revision))
        while job.held and job.held[0][0] <= job.revisions[1] + 1:
            moved = self._release(job, 1) or moved
        if not job.held:
            job.timers["hold"] = 0
        return moved

    def _release(self, job: Job, count: int) -> bool:
        moved = False
        for revision, text in job.held[:count]:
            job.revisions = (job.revisions[0], max(job.revisions[1], revision))
            moved = job.observe(read_event(text.encode())) or moved
        job.held = job.held[count:]
        return moved

    def let_go(self, job: Job) -> None:
        """Nobody waits for the missing revision any longer."""
        job.flags.add(PASSED_GAP)
        moved = self._release(job, len(job.held))
        job.timers["hold"] = 0
        self.decide(job, moved)

    # -- leases of a job ----------------------------------------------------------------------

    def _lease_step(self, job: Job, event: dict[str, Any]) -> tuple[str, bool]:
        job.rare = True
        step = event["lease"]
        if step is not None:
            mine = job.holder == step["holder"]
            if not (mine or (step["op"] == "grant" and not job.holder)):
                return "LEASE_REFUSED", False
            job.holder = "" if step["op"] == "release" else step["holder"]
            job.timers["lease"] = 0
            if job.holder:
                job.flags.discard(LEASE_LOST)
                job.timers["lease"] = self.world.start(job.key, "lease", job.contract.lease or 0)
        if event["holder"] and event["holder"] != job.holder:
            return "NO_LEASE", False
        return "", True

    # -- decisions ----------------------------------------------------------------------------

    def decide(self, job: Job, moved: bool) -> None:
        """What follows from all that is known of an open job."""
        contract, seen = job.contract, job.evidence
        if moved and job.command:
            job.command, job.timers["command"] = "", 0
        if contract.strict and seen.rivals:
            self._finish(job)
        elif job.command:
            self._say_delta(job)
        elif seen.ended and not job.held:
            if not contract.settle:
                self.conclude(job)
                return
            if moved or not job.timers["settle"]:
                job.timers["settle"] = self.world.start(job.key, "settle", contract.settle)
            self._say_delta(job)
        else:
            job.timers["settle"] = 0
            if self._is_overdue(job):
                self.conclude(job, EXPIRED)
            else:
                self._say_delta(job)

    def _is_overdue(self, job: Job) -> bool:
        return 0 < job.timers["deadline"] <= self.world.log_time

    def conclude(self, job: Job, flag: int = 0) -> None:
        """Final, unless something can still be done about it. Only a deadline brings a job here that has not ended."""
        flag = flag if job.evidence.ended else EXPIRED
        outcome = self._outcome(job, flag)["outcome"]
        if job.contract.compensations and self.orders.give(job, outcome):
            self._say_delta(job)
        else:
            self._finish(job, flag)

    def _finish(self, job: Job, flag: int = 0) -> None:
        if flag:
            job.flags.add(flag)
        job.timers = dict.fromkeys(job.timers, 0)
        job.command = ""
        if job.held:
            job.flags.add(PASSED_GAP)
            self._release(job, len(job.held))
        self._leave_family(job)
        job.signature = ""
        self.world.say("outcome", {**self._outcome(job), "time": str(self.world.log_time)}, job)
        del self.world.open_jobs[job.key]
        self.world.finished[job.key] = job
        self._ended_roots.append(job.key)
        if len(self._ended_roots) == 1:  # the outermost one goes through all that end because of it
            for root in self._ended_roots:
                if root in self.families:
                    self.cascade(root)
            self._ended_roots = []

    def _judge(self, job: Job) -> Judgement:
        return judge(job.contract, job.evidence, job.labels, job.name, LEASE_LOST in job.flags)

    def _outcome(self, job: Job, flag: int = 0) -> dict[str, Any]:
        seen, contract = job.evidence, job.contract
        judgement = self._judge(job)
        entry = {
            "actual": judgement.actual,
            "attempts": seen.attempts,
            "contract": [contract.name, contract.version],
            "delta": judgement.delta,
            "expected": contract.expected,
            "job": job.key,
            "kind": "outcome",
            "outcome": self._word(job, judgement.delta, job.flags | {flag}),
            "phase": seen.phase,
        }
        rest = {
            "created": _text(seen.created),
            "end": _text(seen.end),
            "marks": job.marks,
            "parts": len(seen.parts),
            "reason": seen.reason,
            "stages": judgement.stages,
            "start": _text(seen.start),
            "word": seen.word,
        }
        return {**entry, **{name: value for name, value in rest.items() if value}}

    def _word(self, job: Job, delta: dict[str, str], flags: set[int]) -> str:
        seen, contract = job.evidence, job.contract
        contradictory = contract.strict and bool(seen.rivals)
        if not seen.ended:
            if CASCADED in flags:
                return "CANCELLED"
            return "EXPIRED" if EXPIRED in flags and not contradictory else "UNPROVEN"
        if contradictory:
            return "UNPROVEN"
        if EXPIRED in flags:
            limit, end, created = contract.deadline, seen.end, seen.created
            if limit is None or end is None or created is None or end - created > limit:
                return "EXPIRED"
        if seen.phase == "CANCELLED" != contract.target and "phase" in delta:
            return "CANCELLED" if delta["phase"] == "UNMET" else "UNPROVEN"
        if not delta:
            return "SATISFIED"
        return "VIOLATED" if "UNMET" in delta.values() else "UNPROVEN"

    def _say_delta(self, job: Job) -> None:
        judgement = self._judge(job)
        seen, contract = job.evidence, job.contract
        due = "due" if seen.ended or self._is_overdue(job) else "pending"
        missing = [f"{item}={verdict}" for item, verdict in judgement.delta.items()]
        signature = " ".join([due, seen.phase, *missing, *job.marks, *judgement.stages])
        if signature == job.signature:
            return
        job.signature = signature
        entry = {
            "actual": judgement.actual,
            "class": due,
            "contract": [contract.name, contract.version],
            "delta": judgement.delta,
            "expected": contract.expected,
            "job": job.key,
            "kind": "delta",
            "time": str(self.world.log_time),
        }
        rest = {"marks": job.marks, "phase": seen.phase, "stages": judgement.stages}
        self.world.say("delta", {**entry, **{name: value for name, value in rest.items() if value}}, job)

    # -- families -----------------------------------------------------------------------------

    def _meet_family(self, job: Job, event: dict[str, Any]) -> None:
        job.rare = True
        job.labels, job.name = dict(event["labels"]), event["name"]
        root = event["root"] or event["parent"]
        if job.contract.cascade and root and root != job.key:
            job.root, job.parent = root, event["parent"]
            self.families.setdefault(root, set()).add(job.key)

    def _leave_family(self, job: Job) -> None:
        members = self.families.get(job.root, set())
        members.discard(job.key)
        if job.root and not members:
            self.families.pop(job.root, None)

    def cascade(self, root: str) -> None:
        """A root ended: so do its open children, in the order of their keys."""
        self.world.cascades.pop(root, None)
        children = sorted(self.families.get(root, ()))
        for key in children[:FAMILY]:
            if key in self.world.open_jobs:
                self._finish(self.world.open_jobs[key], CASCADED)
        if len(children) > FAMILY:
            self.world.cascades[root] = self.world.start(root, "cascade", 1)

    # -- time ---------------------------------------------------------------------------------

    def due(self, job: Job, what: str) -> None:
        """A timer of an open job ran out."""
        if what == "deadline":
            self.decide(job, False)
            return
        job.timers[what] = 0
        if what == "settle":
            self.conclude(job)
        elif what == "hold":
            self.let_go(job)
        elif what == "lease":
            job.holder = ""
            job.flags.add(LEASE_LOST)
            self._say_delta(job)
        elif job.command == "-":
            job.command = "+"
            self.conclude(job)
        else:
            self.orders.failed(job)
            self.conclude(job)


def _text(time: int | None) -> str:
    return "" if time is None else str(time)
