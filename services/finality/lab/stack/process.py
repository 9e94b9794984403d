"""One server process that outlives the command which started it, and can be found again by any later command.

The child itself writes its record (process id and time of birth) before it becomes the server, so there is no moment in
which it runs unrecorded, whenever the starter dies. A record names a process only while the birth agrees: a number that
the system gave to a stranger since is never signalled. The child has a session of its own: Ctrl-C does not reach it.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from finality.core.errors import DependencyError

__all__ = ["ServerProcess", "recorded"]

LOG_LIMIT = 16 << 20  # bytes; a longer log is put aside at the next start
POLL_S = 0.02
BIRTH_S = 2.0  # in which a child that was just forked has written its record
_BOOT = "/proc/sys/kernel/random/boot_id"
_LAUNCH = f"""
record=$1; shift
boot=; birth=
read -r boot 2>/dev/null < {_BOOT}
read -r birth 2>/dev/null < /proc/$$/stat || birth=$(LC_ALL=C ps -o lstart= -p $$)
printf '%s\\n%s\\n%s\\n.\\n' "$$" "$boot" "$birth" > "$record" || exit 125
exec "$@"
"""
_TELLING = re.compile(r"^(?!\s).*(\b(ERROR|FATAL)\b|Exception\b|Error:|\berror\b|Caused by:)")
_EMPTY_TELLING = re.compile(r"(shutdown|Exiting Kafka due to fatal exception|Fatal error during .* startup)", re.I)
_GIVES_UP = re.compile(r"Fatal error during \w+ startup|Exiting Kafka due to fatal exception")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}T")


class ServerProcess:
    """A process by name. home: folder of the stack, with `run/NAME.pid` and `logs/NAME.log`."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.log = home / "logs" / f"{name}.log"
        self._record = home / "run" / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    def launch(self, command: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> None:
        """Start it and return at once. Raises `DependencyError` when it cannot be started at all."""
        for directory in (self.log.parent, self._record.parent):
            directory.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            os.replace(self.log, self.log.with_suffix(".log.1"))
        self._record.write_bytes(b"")  # announced: whoever cleans up now waits for the child's own words
        with self.log.open("ab") as log:
            self._log_from = log.tell()
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _LAUNCH, "sh", self._record, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Process id, or None when it does not run."""
        if self._child is not None:
            return self._child.pid if self._child.poll() is None else None
        return _named(self._record)

    @property
    def exit_code(self) -> int | None:
        """Exit code of a child of this process; None while it runs, or if another process started it."""
        return None if self._child is None else self._child.poll()

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal. Returns whether there was a process to take it."""
        pid = self.pid
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_gone(30.0)

    def pause(self) -> None:
        """SIGSTOP: its connections stay, nothing is answered."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def stop(self, patience_s: float = 20.0) -> None:
        """SIGTERM (a paused process is resumed for it), and SIGKILL after `patience_s`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not self.wait_gone(patience_s):
            self.kill()

    def wait_gone(self, patience_s: float) -> bool:
        """Wait for the end. Returns False when it still runs after `patience_s`."""
        deadline = time.monotonic() + patience_s
        while self.pid is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        self._record.unlink(missing_ok=True)
        return True

    def resident_bytes(self) -> int:
        """Memory held; 0 when it does not run."""
        pid = self.pid
        if pid is None:
            return 0
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return int(_ps(pid, "rss") or 0) * 1024
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found.group(1)) * 1024 if found else 0

    def last_words(self) -> str:
        """The log line of this run that tells most about a failure: the last error, else the last line."""
        try:
            with self.log.open("rb") as log:
                log.seek(self._log_from)
                text = log.read().decode(errors="replace")
        except OSError:
            return "nothing was logged"
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if _TELLING.match(line)]
        chosen = _cause(lines) or [line for line in errors if not _EMPTY_TELLING.search(line)] or errors or lines
        return chosen[-1].strip()[:300] if chosen else "nothing was logged"


def _cause(lines: Sequence[str]) -> list[str]:
    """Exceptions, outermost first, below the line with which a broker gives up; what it logs afterwards, while it takes
    itself apart, are mere consequences."""
    for place, line in enumerate(lines):
        if _GIVES_UP.search(line):
            trace = itertools.takewhile(lambda below: not _DATED.match(below), lines[place + 1 :])
            return [below for below in trace if not below.startswith(("\t", " "))]
    return []


def recorded(home: Path) -> list[ServerProcess]:
    """Every process that was ever started in this folder and has a record left, running or not."""
    return [ServerProcess(path.stem, home) for path in sorted((home / "run").glob("*.pid"))]


def _named(record: Path) -> int | None:
    """The process of a record, if that very process still runs."""
    lines = _lines(record)
    if lines is None:
        return None
    pid, boot, birth = int(lines[0]), lines[1], lines[2]
    if boot:
        now = _stat_fields(pid)
        then = birth.rpartition(")")[2].split()
        alive = (
            now is not None and now[0] not in "ZX" and now[19] == then[19] and Path(_BOOT).read_text().strip() == boot
        )
        return pid if alive else None
    return pid if _ps(pid, "lstart") == birth.strip() and not _ps(pid, "stat").startswith("Z") else None


def _lines(record: Path) -> list[str] | None:
    deadline = time.monotonic() + BIRTH_S
    while True:
        try:
            text = record.read_text()
        except OSError:
            return None
        lines = text.split("\n")
        if text.endswith("\n.\n") and len(lines) == 5 and lines[0].isdigit():
            return lines
        age = time.time() - record.stat().st_mtime if record.exists() else BIRTH_S
        if time.monotonic() >= deadline or not 0 <= age < BIRTH_S:
            return None
        time.sleep(POLL_S)


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat after the name: [0] is the state, [19] the time of birth in ticks since boot."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _ps(pid: int, column: str) -> str:
    try:
        done = subprocess.run(
            ["ps", "-o", f"{column}=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        if sys.platform == "linux":
            return ""
        raise DependencyError(f"the program ps cannot be run: {error.strerror}; it must be on the path") from None
    return done.stdout.strip()
