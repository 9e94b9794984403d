"""The local stack itself: it comes up as two sites that answer, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from confluent_kafka.admin import AdminClient

from finality.core.errors import Failed, UsageError
from finality.lab.stack import Stack, stop_stack
from finality.lab.stack.home import alone
from finality.lab.stack.plan import read_plan, write_plan
from finality.lab.stack.process import ServerProcess, recorded
from finality.lab.stack.survey import survey
from finality.settings import load_context
from stack.stack_case import PATIENCE_S, Folder, alive, folder, warm_cache

__all__ = ["folder"]


def brokers_at(bootstrap: str) -> int:
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).brokers)


def test_up_gives_two_sites_that_answer_and_down_ends_them(folder: Folder) -> None:
    folder.run("up", "--voters", "2", "--timeout", "150")

    context = load_context(str(folder.stacks / "current.toml"))
    assert {"primary", "dr"} == set(context.sites)
    for site in context.sites.values():
        assert site.voters == ("r1", "r2")
        assert brokers_at(site.kafka["bootstrap.servers"]) == 1
        assert redis.Redis.from_url(site.redis.url).ping()
    assert context.sites["primary"].kafka != context.sites["dr"].kafka

    document = json.loads(folder.run("status", "--json")[0])
    assert sorted((row["name"], row["state"]) for row in document["processes"]) == [
        ("dr-1", "ready"),
        ("primary-1", "ready"),
        ("redis", "ready"),
    ]
    pids = [row["pid"] for row in document["processes"]]
    assert "Kafka Server started" in folder.run("logs", "primary-1", "--lines", "1000")[0]

    folder.run("up", "--voters", "2")  # a second time changes nothing
    assert pids == [row.pid for row in survey(folder.home())]

    folder.run("down")
    assert folder.running() == []
    assert not (folder.stacks / "current.toml").exists()
    assert "not ready: primary-1, dr-1, redis" in folder.failure("status", code=1)
    folder.run("down", "--delete")
    assert not folder.home().exists()
    folder.run("down")


def test_a_stack_that_was_stopped_comes_back_with_its_data(folder: Folder) -> None:
    first = Stack.start(folder.stacks, with_dr=False, deadline_s=PATIENCE_S)
    redis.Redis.from_url(first.redis_url).set("kept", "yes")
    cluster = AdminClient({"bootstrap.servers": first.primary.bootstrap}).list_topics(timeout=60).cluster_id
    first.stop_all()

    second = Stack.start(folder.stacks, with_dr=False, deadline_s=PATIENCE_S)
    assert cluster == AdminClient({"bootstrap.servers": second.primary.bootstrap}).list_topics(timeout=60).cluster_id
    assert redis.Redis.from_url(second.redis_url).get("kept") == b"yes"

    second.brokers()[0].kill()
    assert second.redis is not None
    second.redis.pause()
    second.heal(PATIENCE_S)
    assert {"ready"} == {row.state for row in survey(second.home)}

    with pytest.raises(UsageError, match=r"has 1 brokers, not 3: .* --delete"):
        Stack.start(folder.stacks, brokers=3, with_dr=False)
    with pytest.raises(UsageError, match="runs with other options"):
        Stack.start(folder.stacks, with_dr=False, overrides={"log.cleaner.backoff.ms": "1000"})
    assert {"ready"} == {row.state for row in survey(second.home)}


@pytest.mark.parametrize("moment", ["primary-1-format", "primary-1"])
def test_after_kill_9_of_the_tool_in_mid_start_down_ends_what_it_began(folder: Folder, moment: str) -> None:
    tool = folder.tool("up")
    folder.until(lambda: moment in folder.running(), moment)
    tool.kill()
    tool.communicate()
    began = [process.pid for process in recorded(folder.home()) if process.pid is not None]
    assert began

    folder.run("down")
    assert folder.running() == []
    assert not any(alive(pid) for pid in began if pid is not None)


def test_after_kill_9_of_the_tool_the_next_up_cleans_and_succeeds(folder: Folder) -> None:
    tool = folder.tool("up")
    folder.until(lambda: "dr-1-format" in folder.running(), "the format of a data folder")
    tool.kill()
    tool.communicate()

    _, err = folder.run("up", "--timeout", "150")
    assert "cleaning up after a start of 'default' that did not end" in err
    assert {"ready"} == {row.state for row in survey(folder.home())}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_what_was_begun(folder: Folder, number: signal.Signals) -> None:
    tool = folder.tool("up")
    folder.until(lambda: {"primary-1", "dr-1", "redis"} <= set(folder.running()), "the brokers to be started")
    tool.send_signal(number)
    _, err = tool.communicate(timeout=PATIENCE_S)
    assert tool.returncode == 130
    assert "nothing of the stack was left running" in err
    assert "Traceback" not in err
    assert folder.running() == []


def test_a_tied_stack_ends_with_its_owner(folder: Folder) -> None:
    code = f"""
from pathlib import Path
from finality.lab.stack import Stack
Stack.start(Path({str(folder.stacks)!r}), with_dr=False, tied=True, deadline_s=150)
print("up", flush=True)
input()
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    pids = [row.pid for row in survey(folder.home())]
    owner.kill()
    owner.communicate()
    folder.until(lambda: not any(alive(pid) for pid in pids if pid is not None), "the guard")
    folder.until(lambda: not folder.home().exists(), "the guard to delete the folder")


def test_two_commands_at_once_exclude_each_other(folder: Folder) -> None:
    with alone(folder.home()):
        line = folder.failure("up", code=1)
        assert f"another command (process {os.getpid()}) is at work on stack 'default'" in line
        with pytest.raises(Failed):
            stop_stack(folder.home(), delete=False)


def test_stacks_live_side_by_side_by_name(folder: Folder) -> None:
    both = [Stack.start(folder.stacks, name, with_dr=False, deadline_s=PATIENCE_S) for name in ("left", "right")]
    assert set(both[0].plan.ports).isdisjoint(both[1].plan.ports)
    both[0].stop_all()
    assert folder.running("left") == []
    assert {"ready"} == {row.state for row in survey(folder.home("right"))}
    current = load_context(str(folder.stacks / "current.toml"))
    assert both[1].primary.bootstrap == current.sites["primary"].kafka["bootstrap.servers"]


def test_the_second_start_makes_an_archive_of_classes_and_brokers_use_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = warm_cache()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.path / "cache"))
    shutil.copytree(warm, folder.path / "cache" / "finality", ignore=shutil.ignore_patterns("classes-*"))
    said: list[str] = []
    for name in ("first", "second"):
        Stack.start(folder.stacks, name, with_dr=False, deadline_s=PATIENCE_S, progress=said.append).delete()
    assert sum("archive of Kafka's classes" in line for line in said) == 1
    third = Stack.start(folder.stacks, "third", with_dr=False, deadline_s=PATIENCE_S)
    command = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(third.brokers()[0].pid)], capture_output=True, text=True, check=True
    ).stdout
    archive = next((folder.path / "cache").rglob("classes-*.jsa"))
    assert f"-XX:SharedArchiveFile={archive}" in command
    maps = Path(f"/proc/{third.brokers()[0].pid}/maps")
    assert not maps.exists() or str(archive) in maps.read_text()  # Java did take it


def test_a_record_never_names_a_stranger(tmp_path: Path) -> None:
    own = ServerProcess("sleeper", tmp_path)
    own.launch(["sleep", "600"], os.environ, tmp_path)
    found = recorded(tmp_path)[0]
    assert own.pid == found.pid
    stranger = born_after(own)
    try:
        record = tmp_path / "run" / "sleeper.pid"
        birth = record.read_text().split("\n", 1)[1]
        record.write_text(f"{stranger.pid}\n{birth}")
        found.kill()
        assert stranger.poll() is None
    finally:
        own.kill()
        stranger.kill()
        stranger.wait()


def test_data_of_another_kafka_is_not_touched(folder: Folder) -> None:
    stack = Stack.start(folder.stacks, with_dr=False, deadline_s=PATIENCE_S)
    stack.stop_all()
    plan = read_plan(stack.home)
    assert plan is not None
    document = json.loads((stack.home / "stack.json").read_text())
    (stack.home / "stack.json").write_text(json.dumps({**document, "kafka": "3.9.0"}))
    with pytest.raises(UsageError, match=r"is of Kafka 3\.9\.0, this is .*--delete"):
        Stack.start(folder.stacks, with_dr=False)
    write_plan(stack.home, plan)
    assert (stack.home / "data" / "primary-1" / "meta.properties").exists()


def born_after(first: ServerProcess) -> subprocess.Popen[bytes]:
    """A process whose time of birth differs from that of `first`, as far as the system tells."""
    while True:
        made = subprocess.Popen(["sleep", "600"])
        if birth_of(made.pid) != birth_of(first.pid or 0):
            return made
        made.kill()
        made.wait()


def birth_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        return stat.read_text().rpartition(")")[2].split()[19]
    return subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
