"""Kafka's classes, parsed once and mapped into every broker: a broker then starts with half the processor time.

The first broker on a machine writes down which classes it loads; the next start makes Java's class data archive out of
that list, beside the jars (64 MB, some seconds, once). The first start pays nothing. Java itself checks that the
archive fits its version and the jars and goes on without it otherwise, so it can break nothing; where it cannot be made
or kept, there is none.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

__all__ = ["ClassArchive"]

MAKE_S = 300.0
KEPT = 3  # archives


class ClassArchive:
    """The archive for one Java and one set of jars, kept beside the jars."""

    def __init__(self, java: Path, jars: Sequence[Path]) -> None:
        self._java = java
        self._jars = jars
        self._folder = jars[0].parent
        times = [path.stat().st_mtime_ns for path in (java, *jars)]
        key = sha256(repr((str(java), [str(jar) for jar in jars], times)).encode()).hexdigest()[:12]
        self._file = self._folder / f"classes-{key}.jsa"
        self._list = self._folder / f"classes-{key}.lst"
        self._growing = self._folder / f"classes-{key}.lst.{os.getpid()}"

    def options(self) -> list[str]:
        """Options of a Java that uses the archive, if there is one."""
        try:
            there = self._file.stat().st_size > 0
        except OSError:
            there = False
        return [f"-XX:SharedArchiveFile={self._file}"] if there else []

    def recording(self) -> list[str]:
        """Options for one broker that writes its classes down, if nobody did before."""
        if self._file.exists() or self._list.exists() or not os.access(self._folder, os.W_OK):
            return []
        return [f"-XX:DumpLoadedClassList={self._growing}"]

    def recorded(self) -> None:
        """The broker answers: what it loaded until now is the list. It may go on writing; that does no harm."""
        with suppress(FileNotFoundError):
            os.replace(self._growing, self._list)

    def make(self, progress: Callable[[str], None]) -> None:
        """Make the archive, when there is a list for it and nobody else is at it."""
        if self._file.exists() or not self._list.exists():
            return
        try:
            with (self._folder / ".archive").open("w") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not self._file.exists():
                    progress("making an archive of Kafka's classes, once: brokers then start in half the time")
                    self._dump()
        except OSError:  # another process makes it, or the folder cannot be written
            return

    def _dump(self) -> None:
        self._clean()
        fresh, classes = self._file.with_suffix(".fresh"), self._file.with_suffix(".fresh.lst")
        whole = self._list.read_text(errors="replace").rpartition("\n")[0]  # the last line may still be written
        lines = [line.partition(" id:")[0] for line in whole.splitlines() if not line.startswith(("#", "@cp"))]
        classes.write_text("\n".join(lines) + "\n")
        shared = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={fresh}"]
        command = [str(self._java), "-XX:+UseSerialGC", *shared, "-cp", os.pathsep.join(map(str, self._jars))]
        try:
            done = subprocess.run(command, capture_output=True, timeout=MAKE_S, check=False, cwd=self._folder)
            made = done.returncode == 0 and fresh.exists()
        except subprocess.TimeoutExpired:
            made = False
        if made:
            os.replace(fresh, self._file)
        else:
            self._file.touch()  # an empty one says: not with this Java
        classes.unlink(missing_ok=True)
        fresh.unlink(missing_ok=True)

    def _clean(self) -> None:
        """Leave a few archives, of other Javas on this machine; what is older goes. Who has one open keeps it."""
        files = sorted(self._folder.glob("classes-*"), key=lambda file: file.stat().st_mtime, reverse=True)
        archives = {file.stem for file in [file for file in files if file.suffix == ".jsa"][: KEPT - 1]}
        for file in files:
            if file != self._list and file.name.partition(".")[0] not in archives:
                file.unlink(missing_ok=True)
