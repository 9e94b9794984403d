"""The main job end to end, on the local stack, with real data.

Sends the 54,042 jobs of the vendored Google Borg sample through a real Kafka, lets the services as separate processes
fold and publish them against the contract "succeeded, within an hour", kills the reconciler in mid-run, and compares
every outcome with the truth that the rows themselves tell. Then an independent refold proves the log, and finds a byte
that was flipped in a copy of it.

`Demo.run` performs the steps and gives back a `Report`; nothing is printed here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from finality.core.errors import Failed
from finality.core.logview import Attested, LogView
from finality.core.records import Record
from finality.lab.truth import Truth, truth_of_rows, unpack_rows

__all__ = ["Demo", "DemoPorts", "Report", "Service", "compare", "packaged"]

_QUIET_S = 12.0
_DEADLINE_S = 240.0


class DemoPorts(NamedTuple):
    """What the demo needs: places of the running stack, as functions, so that this file speaks to no driver.

    start_service: `finality run` as a child process. send: replay files, giving the number of records. poll_log: new
    records of the attested log. verify: verdicts of all partitions. refold: verdict on given input and log records.
    input_times: append time (ms) of input records of a partition by position. read_log: all log records of a partition.
    """

    start_service: Callable[[str], Service]
    send: Callable[[str, list[Path]], int]
    poll_log: Callable[[], list[Record]]
    verify: Callable[[], list[dict[str, Any]]]
    refold: Callable[[int, list[Record]], dict[str, Any]]
    input_times: Callable[[int], list[int]]
    read_log: Callable[[int], list[Record]]
    new_view: Callable[[int], LogView]
    partitions: int


class Service:
    """A service as a child process, and the CPU time that it used."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=dict(environment), stdin=subprocess.DEVNULL
        )
        self._reaped = False
        self.cpu_s = 0.0
        self.path = log

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self._end(signal.SIGTERM)

    def failure(self) -> str:
        """The last line that a process that ended by itself has written, "" while it runs."""
        if self._reaped or self._wait(os.WNOHANG):
            lines = self.path.read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else f"it ended without a word; see {self.path}"
        return ""

    def _end(self, number: int) -> None:
        if self._reaped:
            return
        self._process.send_signal(number)
        deadline = time.monotonic() + 10
        while not self._wait(os.WNOHANG):
            if time.monotonic() > deadline:
                self._process.kill()
            time.sleep(0.02)

    def _wait(self, options: int) -> bool:
        pid, status, usage = os.wait4(self._process.pid, options)
        if not pid:
            return False
        self._reaped = True
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self._log.close()
        return True


class Report(NamedTuple):
    """What was seen. differences: jobs whose outcome is not the truth, at most ten of them shown."""

    figures: dict[str, Any]
    differences: list[str]
    sample: Attested
    sample_partition: int
    tamper: dict[str, Any]
    verdicts: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """All of it is right."""
        return not self.differences and self.figures["verify"]["ok"] and self.figures["tamper"]["found"]


def packaged(name: str) -> Path:
    """A file of the package's data."""
    return Path(str(files("finality").joinpath("data", name)))


class Demo:
    """One run. say: a line of progress."""

    def __init__(self, ports: DemoPorts, say: Callable[[str], None], data: Path | None = None) -> None:
        self._ports = ports
        self._say = say
        self._data = data if data is not None else packaged("borg-jobs.csv.gz")
        self._views = {partition: ports.new_view(partition) for partition in range(ports.partitions)}
        self._jobs: dict[str, dict[str, Any]] = {}
        self._kinds: Counter[str] = Counter()
        self._phases: dict[str, str] = {}
        self._block_times: list[tuple[int, int, int]] = []  # partition, last position, append time
        self._sample: tuple[int, Attested] | None = None
        self._began = time.monotonic()
        self._first_outcome = 0.0

    def run(self) -> Report:
        """All steps. Raises `Failed` when a service ends by itself."""
        ports = self._ports
        truth = truth_of_rows(unpack_rows(packaged("borg-jobs.csv.gz").read_bytes()))
        services = {name: ports.start_service(name) for name in ("reconciler", "ingest")}
        spent = 0.0
        try:
            self._follow(services, lambda: self._kinds["control"] >= ports.partitions)
            self._say("every partition has folded the contract")
            events = ports.send("google-borg", [self._data])
            self._say(f"{events:,} events of {len(truth):,} jobs sent")
            self._follow(services, lambda: self._finished() > len(truth) // 10)
            services["reconciler"].kill()
            spent += services["reconciler"].cpu_s
            self._say(f"reconciler killed with -9 at {self._finished():,} outcomes; a new one goes on from Kafka alone")
            services["reconciler"] = ports.start_service("reconciler")
            expected = sum(1 for row in truth.values() if row.outcome)
            self._follow(services, lambda: self._finished() >= expected and len(self._jobs) >= len(truth))
            took = time.monotonic() - self._began
        finally:
            for service in services.values():
                service.stop()
                spent += service.cpu_s
        self._read(self._ports.poll_log())
        self._say("refolding the whole input with the independent implementation")
        verdicts = ports.verify()
        tamper = self._tamper()
        return self._report(truth, events, took, spent, verdicts, tamper)

    # -- following the log --------------------------------------------------------------------

    def _follow(self, services: Mapping[str, Service], done: Callable[[], bool]) -> None:
        """Read the attested log until `done`, or until nothing has come for a while."""
        quiet_since = shown_at = time.monotonic()
        deadline = quiet_since + _DEADLINE_S
        while not done():
            now = time.monotonic()
            if self._read(self._ports.poll_log()):
                quiet_since = now
            for name, service in services.items():
                failure = service.failure()
                if failure:
                    raise Failed(f"{name} ended by itself: {failure}")
            if now - quiet_since > _QUIET_S or now > deadline:
                return  # the comparison with the truth says what is missing
            if now - shown_at >= 2:
                shown_at = now
                self._say(f"{self._finished():,} outcomes, {len(self._jobs):,} jobs, {self._kinds['block']:,} blocks")

    def _read(self, records: list[Record]) -> int:
        for record in records:
            entries = self._views[record.partition].read(record)
            if not entries:
                continue
            self._kinds["block"] += 1
            self._block_times.append((record.partition, entries[-1].position, record.timestamp))
            for attested in entries:
                self._take(record.partition, attested)
        return len(records)

    def _take(self, partition: int, attested: Attested) -> None:
        document = attested.decoded()
        kind = str(document["kind"])
        self._kinds[kind] += 1
        if kind not in ("delta", "outcome", "amendment"):
            return
        self._jobs[str(document["job"])] = document
        if kind == "outcome":
            if not self._first_outcome:
                self._first_outcome = time.monotonic() - self._began
            if self._sample is None and document["outcome"] == "VIOLATED":
                self._sample = (partition, attested)

    def _finished(self) -> int:
        return self._kinds["outcome"]

    # -- the byte -----------------------------------------------------------------------------

    def _tamper(self) -> dict[str, Any]:
        """Flip one byte inside a certified entry of a copy of one partition's log, and let the refold find it."""
        partition = 0
        records = self._ports.read_log(partition)
        view = self._ports.new_view(partition)
        for place, record in enumerate(records):
            entries = view.read(record)
            at = (record.value or b"").find(b"SUCCEEDED")
            if entries and at > 0 and place > len(records) // 2:
                value = bytearray(record.value or b"")
                value[at] ^= 0x01
                copy = [*records[:place], record._replace(value=bytes(value)), *records[place + 1 :]]
                verdict = self._ports.refold(partition, copy)
                return {
                    "found": not verdict["ok"],
                    "partition": partition,
                    "offset": record.offset,
                    "indices": [entries[0].number, entries[-1].number],
                    "verdict": verdict,
                }
        return {"found": False, "partition": partition}

    # -- the report ---------------------------------------------------------------------------

    def _report(
        self,
        truth: Mapping[str, Truth],
        events: int,
        took: float,
        cpu_s: float,
        verdicts: list[dict[str, Any]],
        tamper: dict[str, Any],
    ) -> Report:
        differences = compare(truth, self._jobs)
        latencies = self._latencies()
        outcomes = Counter(str(job.get("outcome") or "OPEN") for job in self._jobs.values())
        figures = {
            "events_in": events,
            "jobs": len(self._jobs),
            "by_phase": dict(sorted(Counter(str(job.get("phase", "")) for job in self._jobs.values()).items())),
            "by_outcome": dict(sorted(outcomes.items())),
            "truth_ok": not differences,
            "rejected": self._kinds["rejected"],
            "duplicates": sum(int(row.get("repeats", 0)) for row in verdicts),
            "entries": sum(int(row["entries"]) for row in verdicts),
            "blocks": sum(int(row["blocks"]) for row in verdicts),
            "verify": {"ok": all(row["ok"] for row in verdicts), "partitions": len(verdicts)},
            "tamper": tamper,
            "seconds_to_first_outcome": round(self._first_outcome, 3),
            "seconds_total": round(took, 3),
            "events_per_s": round(events / took),
            "events_per_cpu_s": round(events / cpu_s) if cpu_s else 0,
            "p50_ms": latencies[len(latencies) // 2] if latencies else 0,
            "p99_ms": latencies[len(latencies) * 99 // 100] if latencies else 0,
        }
        if self._sample is None:
            raise Failed("no job violated its contract, so there is nothing to prove; the input was not the sample")
        return Report(figures, differences, self._sample[1], self._sample[0], tamper, verdicts)

    def _latencies(self) -> list[int]:
        """Append of an input record to append of the block that ends with it, ms, sorted."""
        found: list[int] = []
        for partition in range(self._ports.partitions):
            times = self._ports.input_times(partition)
            for row_partition, position, at in self._block_times:
                if row_partition == partition and 0 < position <= len(times):
                    found.append(max(0, at - times[position - 1]))
        return sorted(found)


def compare(truth: Mapping[str, Truth], jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Jobs whose latest certified word is not the truth; empty when all is right."""
    found = []
    seen = {key.rpartition("/")[2]: job for key, job in jobs.items() if "/google-borg/" in key}
    for ident in sorted(truth.keys() | seen.keys()):
        wanted, job = truth.get(ident), seen.get(ident)
        said = (str(job.get("phase", "")), str(job.get("outcome", ""))) if job is not None else None
        right = (wanted.phase, wanted.outcome) if wanted is not None else None
        if said != right:
            found.append(f"job {ident}: the log says {said}, the truth is {right}")
    return found


def service_command(*words: str) -> list[str]:
    """The command line of a `finality` child process, with this very interpreter."""
    return [sys.executable, "-m", "finality", *words]
