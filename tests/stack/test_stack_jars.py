"""The cache of jars takes only what the lock file says, from where it can, to where it may."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from finality.core.errors import DependencyError
from finality.lab.stack.jars import JarCache, cache_folders
from finality.lab.stack.lock import Jar, JarLock, load_lock

CONTENT = b"content of a jar"
JAR = Jar("org.example:thing:1.0", len(CONTENT), sha256(CONTENT).hexdigest())
LOCK = JarLock("9.9.9", (JAR,))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A local Maven repository that has the one jar."""
    place = tmp_path / "repository" / JAR.place
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    return tmp_path / "repository"


@pytest.fixture
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")


def silent(line: str) -> None:
    pass


def test_a_jar_of_the_local_repository_is_copied_and_kept(tmp_path: Path, repository: Path) -> None:
    cache = JarCache([tmp_path / "cache"], LOCK, repository, silent)
    assert cache.provide() == [tmp_path / "cache" / "kafka-9.9.9" / "thing-1.0.jar"]
    (repository / JAR.place).unlink()
    assert cache.provide()[0].read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    candidates = [tmp_path / "file" / "cache", tmp_path / "second"]
    assert JarCache(candidates, LOCK, repository, silent).provide()[0].is_relative_to(tmp_path / "second")
    with pytest.raises(DependencyError, match=r"no folder for Kafka's jars .* set XDG_CACHE_HOME"):
        JarCache(candidates[:1], LOCK, repository, silent).provide()


@pytest.mark.usefixtures("_nowhere")
@pytest.mark.parametrize("wrong", [b"content of a jaR", b"content"])
def test_a_jar_that_is_not_what_the_lock_says_is_never_taken(tmp_path: Path, repository: Path, wrong: bytes) -> None:
    (repository / JAR.place).write_bytes(wrong)
    with pytest.raises(DependencyError, match="cannot be downloaded"):
        JarCache([tmp_path / "cache"], LOCK, repository, silent).provide()
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_a_jar_that_was_damaged_later_is_found_and_fetched_again(tmp_path: Path, repository: Path) -> None:
    cache = JarCache([tmp_path / "cache"], LOCK, repository, silent)
    (path,) = cache.provide()
    assert cache.damaged() == []
    path.write_bytes(CONTENT.upper())
    assert cache.damaged() == [path]
    assert cache.provide()[0].read_bytes() == CONTENT


def test_the_cache_follows_the_user_s_setting(tmp_path: Path) -> None:
    assert cache_folders({"XDG_CACHE_HOME": str(tmp_path)})[0] == tmp_path / "finality"


def test_the_shipped_lock_names_one_kafka_and_every_jar_once() -> None:
    lock = load_lock()
    names = [jar.name for jar in lock.jars]
    assert len(names) == len(set(names))
    assert {f"kafka_2.13-{lock.kafka}.jar", f"kafka-clients-{lock.kafka}.jar"} <= set(names)
    assert any(name.startswith("log4j-slf4j-impl-") for name in names)
