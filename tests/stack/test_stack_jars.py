"""The first download of Kafka's jars, out of a repository on this machine that serves the very jars of the cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from finality.core.errors import DependencyError
from finality.lab.stack.jars import JarCache, cache_folders, local_repository
from finality.lab.stack.lock import JarLock, load_lock


class Repository(ThreadingHTTPServer):
    """A Maven repository. requested: paths in order; cut: how many answers to send only half of; altered: whether a
    byte of every answer is another."""

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(root)))
        self.requested: list[str] = []
        self.cut = 0
        self.altered = False


class Handler(SimpleHTTPRequestHandler):
    """Answers out of a folder, and spoils what it is told to spoil."""

    server: Repository

    def do_GET(self) -> None:
        """Serve a file, whole, cut or altered."""
        self.server.requested.append(self.path)
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.server.altered:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if self.server.cut and self.path.endswith(".jar"):
            self.server.cut -= 1
            self.close_connection = True
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Say nothing."""


@pytest.fixture(scope="session")
def repository_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's jars, laid out as a repository."""
    lock = load_lock()
    jars = JarCache(cache_folders(os.environ), lock, local_repository(os.environ), lambda line: None).provide()
    root = tmp_path_factory.mktemp("repository")
    for jar, path in zip(lock.jars, jars, strict=True):
        place = root / jar.place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path.absolute())
        place.with_suffix(".pom").write_text(pom(*jar.at.split(":")))
    return root


def pom(group: str, artifact: str, version: str) -> str:
    """The least that a resolver may ask for."""
    return (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
        f"<artifactId>{artifact}</artifactId><version>{version}</version></project>"
    )


@pytest.fixture
def repository(repository_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """The repository, running, and named in the settings of the downloader."""
    server = Repository(repository_folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    settings = tmp_path / "jgo.conf"
    settings.write_text(f"[repositories]\ncentral = http://127.0.0.1:{server.server_address[1]}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def few() -> JarLock:
    """Three jars of the lock: the largest, and two small ones."""
    lock = load_lock()
    by_size = sorted(lock.jars, key=lambda jar: jar.size)
    return JarLock(lock.kafka, (by_size[-1], by_size[0], by_size[1]))


def cache_in(folder: Path, lock: JarLock, lines: list[str]) -> JarCache:
    """A cache that starts empty and finds no jars on the machine."""
    return JarCache([folder / "cache"], lock, folder / "none", lines.append)


def test_a_first_download_tells_its_size_and_a_second_start_asks_nobody(repository: Repository, tmp_path: Path) -> None:
    lines: list[str] = []
    lock = load_lock()
    cache = cache_in(tmp_path, lock, lines)
    jars = cache.provide()
    assert [jar.stat().st_size for jar in jars] == [jar.size for jar in lock.jars]
    assert f"downloading {len(lock.jars)} jars, {lock.size / 1e6:.0f} MB, once" in lines[0]
    assert lines[-1].endswith(f"{lock.size / 1e6:.0f} of {lock.size / 1e6:.0f} MB")
    assert 3 <= len(lines) < 12
    assert cache.damaged() == []
    asked = len(repository.requested)
    assert cache_in(tmp_path, lock, lines).provide() == jars
    assert len(repository.requested) == asked


def test_a_download_that_is_cut_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    repository.cut = 2
    lock = few()
    cache = cache_in(tmp_path, lock, [])
    jars = cache.provide()
    assert repository.cut == 0
    assert [jar.stat().st_size for jar in jars] == [jar.size for jar in lock.jars]
    assert cache.damaged() == []


def test_a_jar_that_is_not_what_the_lock_says_never_enters_the_cache(repository: Repository, tmp_path: Path) -> None:
    repository.altered = True
    with pytest.raises(DependencyError) as caught:
        cache_in(tmp_path, few(), []).provide()
    assert "not what the lock file says" in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_a_damaged_jar_is_found_removed_and_fetched_again(repository: Repository, tmp_path: Path) -> None:
    lock = few()
    cache = cache_in(tmp_path, lock, [])
    victim = cache.provide()[1]
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert cache.damaged() == [victim]
    repository.requested.clear()
    assert cache.provide()[1].read_bytes() == content
    assert [path for path in repository.requested if path.endswith(".jar")] == [f"/{lock.jars[1].place}"]


def test_jars_of_a_local_repository_are_copied_without_a_network(
    repository: Repository, repository_folder: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    lock = few()
    jars = JarCache([tmp_path / "cache"], lock, repository_folder, lines.append).provide()
    assert [jar.stat().st_size for jar in jars] == [jar.size for jar in lock.jars]
    assert not jars[0].is_symlink()
    assert repository.requested == []
    assert lines == []


def test_where_the_first_folder_cannot_be_written_the_second_is_used(repository: Repository, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, where a folder should be\n")
    second = tmp_path / "second"
    jars = JarCache([blocked / "finality", second], few(), tmp_path / "none", lambda line: None).provide()
    assert all(second in jar.parents for jar in jars)
    with pytest.raises(DependencyError, match="XDG_CACHE_HOME"):
        JarCache([blocked / "finality"], few(), tmp_path / "none", lambda line: None).provide()
