"""Kafka's jars on this machine: fetched once, checked by hash, kept in the user's cache folder, reused without network.

A jar is taken from the cache, else copied out of a local Maven repository that has it, else downloaded. It enters the
cache by one rename, after its size and SHA-256 agreed with the shipped lock, so that a cut download or a full disk
never leaves half a jar behind. A warm start looks at sizes only (46 `stat` calls); hashes are compared again when a
broker failed to start. What is downloaded comes through `jgo`, so its settings (mirrors) and the usual proxy variables
hold.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any

from finality.core.errors import DependencyError
from finality.lab.stack.lock import Jar, JarLock

__all__ = ["JarCache", "cache_folders", "local_repository"]

ATTEMPTS = 3
TIMEOUT_S = 30
STEP_BYTES = 8_000_000  # of a download, between two lines about it


def cache_folders(environment: Mapping[str, str]) -> list[Path]:
    """Where the cache may be, best first: the user's cache folder, then `.finality/cache` for a read-only home."""
    base = environment.get("XDG_CACHE_HOME")
    if base:
        first = Path(base)
    elif sys.platform == "darwin":
        first = Path.home() / "Library" / "Caches"
    else:
        first = Path.home() / ".cache"
    return [first / "finality", Path(".finality/cache").absolute()]


def local_repository(environment: Mapping[str, str]) -> Path:
    """Maven's own cache, of which a copy is as good as a download."""
    return Path(environment.get("M2_REPO") or Path.home() / ".m2" / "repository")


class JarCache:
    """The jars of one lock. folders: candidates, best first; progress: takes lines for people."""

    def __init__(
        self, folders: Sequence[Path], lock: JarLock, repository: Path, progress: Callable[[str], None]
    ) -> None:
        self._folders = [folder / f"kafka-{lock.kafka}" for folder in folders]
        self._lock = lock
        self._repository = repository
        self._progress = progress

    def provide(self) -> list[Path]:
        """All jars, in the order of the lock. Raises `DependencyError`: no network, no space, no folder."""
        for folder in self._folders:
            if not self._missing(folder):
                return [folder / jar.name for jar in self._lock.jars]
        folder = self._writable()
        try:
            with _alone(folder, self._progress):
                self._fill(folder)
        except OSError as error:
            raise DependencyError(
                f"Kafka's jars cannot be kept in {folder}: {error.strerror or error}; they need "
                f"{_megabytes(self._lock.size)} MB there, or set XDG_CACHE_HOME to a folder with room"
            ) from None
        return [folder / jar.name for jar in self._lock.jars]

    def damaged(self) -> list[Path]:
        """Jars whose content is not what the lock says; each is removed, so that the next start fetches it again."""
        found = []
        for folder in self._folders:
            for jar in self._lock.jars:
                path = folder / jar.name
                if path.is_file() and not _is(path, jar):
                    found.append(path)
                    path.unlink(missing_ok=True)
        return found

    def _missing(self, folder: Path) -> list[Jar]:
        return [jar for jar in self._lock.jars if _size(folder / jar.name) != jar.size]

    def _writable(self) -> Path:
        reasons = []
        for folder in self._folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    return folder
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror or error}")
        raise DependencyError(
            f"no folder for Kafka's jars ({'; '.join(reasons)}): set XDG_CACHE_HOME to one that can be written"
        )

    def _fill(self, folder: Path) -> None:
        wanted = self._missing(folder)
        for jar in list(wanted):
            source = self._repository / jar.place
            if _size(source) == jar.size and _is(source, jar):
                _enter(source, folder / jar.name)
                wanted.remove(jar)
        if wanted:
            self._download(folder, wanted)

    def _download(self, folder: Path, wanted: Sequence[Jar]) -> None:
        total = sum(jar.size for jar in wanted)
        what = f"Apache Kafka {self._lock.kafka}"
        self._progress(f"{what}: downloading {len(wanted)} jars, {_megabytes(total)} MB, once, to {folder}")
        done = told = 0
        with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
            fetch = _fetcher(Path(scratch))
            for jar in wanted:
                _enter(self._checked(jar, fetch), folder / jar.name)
                done += jar.size
                if done == total or (done - told >= STEP_BYTES and total - done >= STEP_BYTES):
                    told = done
                    self._progress(f"{what}: {_megabytes(done)} of {_megabytes(total)} MB")

    def _checked(self, jar: Jar, fetch: Callable[[Jar], Path]) -> Path:
        """Download until size and hash agree. A repository out of reach is one line, not a trace."""
        import requests

        reason = ""
        for _ in range(ATTEMPTS):
            try:
                path = fetch(jar)
            except requests.RequestException as error:
                reason = _short(error)
                continue
            except RuntimeError as error:  # jgo: in none of the repositories
                raise DependencyError(f"{jar.at} cannot be had: {error}") from None
            if _size(path) == jar.size and _is(path, jar):
                return path
            reason = "what came is not what the lock file says"
            path.unlink()
        raise DependencyError(
            f"Kafka's jars ({_megabytes(self._lock.size)} MB, needed once) cannot be downloaded, {jar.name}: {reason}; "
            "connect this machine, set HTTPS_PROXY, or name a cache that has them with XDG_CACHE_HOME"
        )


def _fetcher(scratch: Path) -> Callable[[Jar], Path]:
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError:
        raise DependencyError("the wheel jgo, which fetches Kafka, is missing: pip install 'finality[stack]'") from None
    settings: Any = GlobalSettings.load()
    mirrors = dict(settings.repositories)
    context = MavenContext(repo_cache=scratch, remote_repos=mirrors or None, timeout=TIMEOUT_S)

    def fetch(jar: Jar) -> Path:
        group, artifact, version = jar.at.split(":")
        (scratch / jar.place).unlink(missing_ok=True)
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())

    return fetch


@contextmanager
def _alone(folder: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Only one process fills the cache; the others wait for it and then find it full."""
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another process is filling {folder}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        for left in folder.glob("download-*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def _enter(source: Path, target: Path) -> None:
    fresh = target.with_suffix(".fresh")
    try:
        shutil.copyfile(source, fresh)
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _is(path: Path, jar: Jar) -> bool:
    with path.open("rb") as handle:
        return file_digest(handle, "sha256").hexdigest() == jar.sha256


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f}"


def _short(error: Exception) -> str:
    """The innermost reason of a network error: the outer ones repeat addresses and objects."""
    inner: BaseException = error
    while inner.args and isinstance(inner.args[0], BaseException):
        inner = inner.args[0]
    reason = getattr(inner, "reason", None) or inner
    text = str(reason)
    return text.split("): ", 1)[-1].strip("()'\" ") or type(error).__name__
