"""Slurm accounting: rows of `sacct --parsable2`, and the JSON that the job completion plugins send.

A row is a job's whole account, not a change. Slurm numbers neither states nor attempts: a requeued job keeps its id,
and only its start time tells the attempts apart. The state's name ends at the first blank (`CANCELLED by 1000`), and
the state alone says how a job ended: cancelled and preempted jobs have exit code 0:0, timed-out ones 0:0 or 1:0.

`sacct` prints local times without a zone. They are unknown unless the setting `zone` names one, for an hour's error in
an order is worse than none; run `TZ=UTC sacct` and set `zone = "UTC"`. The plugins send UTC.

A job cancelled before it ran has a start time all the same; where no node was assigned the start is left out.

Columns: the 26 named in `COLUMNS`, or those in the record header `sacct-columns` (reading a file that begins with the
line that `sacct` prints without --noheader sets it). The job's name comes last, for it may hold a `|`.
Left out: `sacct --json`; rows for a whole range of array tasks (`4700_[3-9]`), which are no single job: no events.

Codes: those of `payload` and of job keys; BAD_COLUMNS (another number of columns); NO_ID; NO_STATE.

Source: Slurm manual, `sacct` ("JOB STATE CODES", "Job Accounting Fields"), jobcomp/kafka and jobcomp/elasticsearch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

from finality.core.errors import Rejected
from finality.core.event import ENDED, Event
from finality.core.jobkey import job_key
from finality.sources.base import NOTHING, Headers, Mapped, Reading, SourceSettings
from finality.sources.payload import MAX_BYTES, clip, json_object, number_text, read_lines, text_at
from finality.sources.times import iso, zone_of

__all__ = ["COLUMNS", "Slurm"]

COLUMNS = [
    "JobID",
    "JobIDRaw",
    "Cluster",
    "Partition",
    "QOS",
    "Account",
    "Group",
    "GID",
    "User",
    "UID",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Elapsed",
    "ExitCode",
    "State",
    "NNodes",
    "NCPUS",
    "ReqCPUS",
    "ReqMem",
    "ReqTRES",
    "AllocTRES",
    "Timelimit",
    "NodeList",
    "JobName",
]
COLUMNS_HEADER = "sacct-columns"

_STATES = {
    "PENDING": ("PENDING", ""),
    "CONFIGURING": ("PENDING", ""),
    "REQUEUED": ("RETRYING", ""),
    "REQUEUE_FED": ("RETRYING", ""),
    "REQUEUE_HOLD": ("PAUSED", ""),
    "SPECIAL_EXIT": ("PAUSED", ""),
    "RESV_DEL_HOLD": ("PAUSED", ""),
    "SUSPENDED": ("PAUSED", ""),
    "STOPPED": ("PAUSED", ""),
    "RUNNING": ("RUNNING", ""),
    "RESIZING": ("RUNNING", ""),
    "SIGNALING": ("RUNNING", ""),
    "STAGE_OUT": ("RUNNING", ""),
    "COMPLETING": ("RUNNING", ""),
    "UPDATE_DB": ("RUNNING", ""),
    "COMPLETED": ("SUCCEEDED", ""),
    "CANCELLED": ("CANCELLED", "USER"),
    "FAILED": ("FAILED", "ERROR"),
    "TIMEOUT": ("FAILED", "TIMEOUT"),
    "DEADLINE": ("FAILED", "DEADLINE"),
    "OUT_OF_MEMORY": ("FAILED", "OOM"),
    "NODE_FAIL": ("FAILED", "NODE_LOST"),
    "BOOT_FAIL": ("FAILED", "BOOT_FAIL"),
    "LAUNCH_FAILED": ("FAILED", "LAUNCH_FAILED"),
    "RECONFIG_FAIL": ("FAILED", "RECONFIG_FAIL"),
    "PREEMPTED": ("FAILED", "PREEMPTED"),
    "REVOKED": ("CONTINUED", ""),  # another cluster of the federation took the job
}
_JOB_ID = re.compile(r"(\d{1,20}(?:_\d{1,20}|\+\d{1,20})?)(?:\.([A-Za-z0-9_+-]{1,64}))?", re.ASCII)
_RANGE_ID = re.compile(r"\d{1,20}_\[[^]|]{0,4000}\]?", re.ASCII)
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(\d{1,4}):(\d\d):(\d\d)", re.ASCII)
_MEMORY = re.compile(r"(\d{1,19}(?:\.\d{1,4})?)([KMGTP])([nc])?", re.ASCII)
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
_MEGABYTES = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024**2), "P": Decimal(1024**3)}
_PER_CPU = 2**31  # a flag that old versions leave in the number of megabytes: it is per CPU
_ROW = re.compile(rb"[0-9]{1,20}[0-9_+.\[\]A-Za-z,%-]*\|[0-9]{1,20}[0-9.A-Za-z+_-]*\|[^|\n]*\|", re.ASCII)


class Slurm:
    """Jobs and steps of Slurm clusters."""

    name = "slurm"
    takes = "rows of `sacct --parsable2 --allusers` (26 columns, or named by a first line); jobcomp/kafka JSON"
    order = "time of the state where a zone is known, else the step of a life; attempts by start time"
    identity = "job: JobID, step: JobID with its step; the cluster belongs to the instance"

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._zone = zone_of(settings.zone)

    def looks_like(self, value: bytes, headers: Headers) -> bool:
        """A row of numbers and bars, or JSON with jobid, state and @submit."""
        if any(name == COLUMNS_HEADER for name, _ in headers) or _is_title(value):
            return True
        if value.lstrip()[:1] == b"{":
            return b'"jobid"' in value and b'"state"' in value and b'"@' in value
        return value.count(b"|") >= len(COLUMNS) - 1 and _ROW.match(value) is not None

    def map(self, value: bytes, headers: Headers) -> Mapped:
        """The account of one job or step. Raises `Rejected`."""
        if value.lstrip()[:1] == b"{":
            return self._from_json(json_object(value))
        if len(value) > MAX_BYTES:
            raise Rejected("TOO_LARGE", f"{len(value)} bytes, at most {MAX_BYTES}")
        if _is_title(value):
            return NOTHING
        try:
            line = value.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise Rejected("NOT_UTF8", f"byte {error.start}") from None
        columns = _columns(headers)
        cells = line.split("|", len(columns) - 1)
        if len(cells) != len(columns):
            raise Rejected("BAD_COLUMNS", f"{len(cells)} columns, expected {len(columns)}")
        return self._account(dict(zip(columns, cells, strict=True)), self._zone)

    def read(self, path: Path) -> Iterator[Reading]:
        """One row or one JSON document a line. A first line of column names rules the rows after it."""
        headers: tuple[tuple[str, bytes | None], ...] = ()
        for reading in read_lines(path):
            if _is_title(reading.value):
                headers = ((COLUMNS_HEADER, reading.value.rstrip(b"|")),)
            else:
                yield reading._replace(headers=headers)

    def _from_json(self, record: dict[str, Any]) -> Mapped:
        """A completion message as a row: same names, so that both ways of reading give the same event."""
        task, array = number_text(record.get("array_task_id")), number_text(record.get("array_job_id"))
        part, whole = number_text(record.get("het_job_offset")), number_text(record.get("het_job_id"))
        ident = number_text(record.get("jobid"))
        if ident and task and array not in ("", "0"):
            ident = f"{array}_{task}"
        elif ident and part and whole not in ("", "0"):
            ident = f"{whole}+{part}"
        row = {
            "JobID": ident,
            "Cluster": text_at(record, "cluster"),
            "Partition": text_at(record, "partition"),
            "QOS": text_at(record, "qos"),
            "Account": text_at(record, "account"),
            "Submit": text_at(record, "@submit"),
            "Eligible": text_at(record, "@eligible"),
            "Start": text_at(record, "@start"),
            "End": text_at(record, "@end"),
            "ElapsedRaw": number_text(record.get("elapsed")),
            "ExitCode": text_at(record, "exit_code"),
            "State": text_at(record, "state"),
            "NNodes": number_text(record.get("total_nodes")),
            "NCPUS": number_text(record.get("total_cpus")),
            "NodeList": text_at(record, "nodes"),
            "JobName": text_at(record, "job_name"),
        }
        return self._account(row, UTC)

    def _account(self, row: dict[str, str], zone: tzinfo | None) -> Mapped:
        ident = row.get("JobID", "") or row.get("JobIDRaw", "")
        if _RANGE_ID.fullmatch(ident):
            return NOTHING
        match = _JOB_ID.fullmatch(ident)
        if match is None:
            raise Rejected("NO_ID", f"JobID {ident[:40]!r} is no job id")
        state = row.get("State", "").split(" ", 1)[0].rstrip("+")
        if not state:
            raise Rejected("NO_STATE", f"job {ident} has no state")
        phase, reason = _STATES.get(state, ("UNKNOWN", ""))
        times = {name: iso(row.get(name, ""), zone) for name in ("Submit", "Eligible", "Start", "End")}
        start, end = times["Start"][0], times["End"][0]
        if row.get("NodeList") == "None assigned" or phase == "PENDING" or (end and start and int(start) > int(end)):
            start = ""
        latest = "End" if phase in ENDED else "Start" if start else "Submit"
        at, precision = times[latest]
        job, step = match.groups()
        cluster = row.get("Cluster", "")
        restarts = number_text(row.get("Restarts", ""))
        event = Event(
            job=self._key(cluster, "step" if step else "job", ident),
            attempt=int(restarts) + 1 if restarts and int(restarts) < 10**6 else 0,
            at=at,
            precision=precision,
            created=times["Submit"][0],
            start=start,
            end=end if phase in ENDED else "",
            phase=phase,
            reason=reason,
            word=clip(state, 64),
            name=clip(row.get("JobName", "")),
            labels=_labels(row),
            metrics=_metrics(row),
            parent=self._key(cluster, "job", job) if step else "",
            snapshot=True,
        )
        return Mapped((event,), (f"state:{event.word}",) if phase == "UNKNOWN" else ())

    def _key(self, cluster: str, kind: str, ident: str) -> str:
        """The cluster is the instance; a setting that names the instance stands before it."""
        instance = self._settings.instance
        if cluster:
            instance = cluster if instance == "default" else f"{instance}:{cluster}"
        return job_key(self._settings.tenant, "slurm", instance, kind, ident)


def _is_title(value: bytes) -> bool:
    """True for the line of column names."""
    names = value[:4096].strip().split(b"|")
    return b"JobID" in names and b"State" in names


def _columns(headers: Headers) -> list[str]:
    for name, content in headers:
        if name == COLUMNS_HEADER and content:
            return content[:4096].decode("utf-8", "replace").strip().strip("|").split("|")
    return COLUMNS


def _labels(row: dict[str, str]) -> dict[str, str]:
    names = {"cluster": "Cluster", "partition": "Partition", "qos": "QOS", "account": "Account"}
    return {label: clip(row[name], 256) for label, name in names.items() if row.get(name)}


def _metrics(row: dict[str, str]) -> dict[str, str]:
    """Numbers of the account: seconds, megabytes, counts."""
    exit_code = _EXIT.fullmatch(row.get("ExitCode", ""))
    found = {
        "elapsed_s": number_text(row.get("ElapsedRaw", "")) or _seconds(row.get("Elapsed", "")),
        "limit_s": _seconds(row.get("Timelimit", "")),
        "nodes": number_text(row.get("NNodes", "")),
        "cpus": number_text(row.get("NCPUS", "")),
        "exit_code": exit_code[1] if exit_code else "",
        "exit_signal": exit_code[2] if exit_code else "",
        **_memory(row.get("ReqMem", "")),
    }
    return {name: str(int(text)) for name, text in found.items() if 0 < len(text) < 19}


def _seconds(text: str) -> str:
    """Seconds of `[D-]HH:MM:SS`; "" for words such as Partition_Limit."""
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return ""
    days, hours, minutes, seconds = match.groups()
    return str(int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + int(seconds))


def _memory(text: str) -> dict[str, str]:
    """Requested megabytes, per CPU or per node; nothing where the unit does not say which."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        return {}
    amount = Decimal(match[1]) * _MEGABYTES[match[2]]
    per = {"n": "node", "c": "cpu", None: ""}[match[3]]
    if amount >= _PER_CPU and match[2] == "M":
        amount, per = amount - _PER_CPU, "cpu"
    if not per or amount != amount.to_integral_value() or amount >= 10**18:
        return {}
    return {f"requested_mb_per_{per}": str(int(amount))}
