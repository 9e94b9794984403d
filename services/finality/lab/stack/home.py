"""The folder of a stack: who may work on it, the context that it leaves for other commands, and cleaning it up.

```
.finality/stack/current.toml        a copy of the context of the stack that came up last
.finality/stack/NAME.lock           held while a command works on the stack
.finality/stack/NAME/stack.json     the plan: names, ports, options
.finality/stack/NAME/context.toml   sites as every command reads them
.finality/stack/NAME/{config,data,logs,run,scratch}/
```

Cleaning needs no plan: it ends what the records in `run/` name, so it works after any kind of death.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from finality.core.errors import DependencyError, Failed, UsageError
from finality.lab.stack.plan import StackPlan, write_file
from finality.lab.stack.ports import HOST
from finality.lab.stack.process import recorded

__all__ = ["alone", "context_text", "end_all", "erase", "redis_urls", "set_current", "unset_current"]

PATIENCE_S = 20.0


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Hold the stack against other commands. Raises `Failed` when one is at work on it."""
    path = home.parent / f"{home.name}.lock"
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+")
    except OSError as error:
        raise DependencyError(f"{home.parent} cannot be written: {error.strerror}; run in another folder") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise Failed(
                f"another command (process {holder}) is at work on stack {home.name!r}: wait for it, or end it"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def end_all(home: Path, gently: bool, spare: Collection[str] = ()) -> int:
    """End every recorded process but those to spare; returns how many ran.

    gently: SIGTERM to all at once, SIGKILL to those that stay; else SIGKILL.
    """
    running = [process for process in recorded(home) if process.name not in spare and process.pid is not None]
    for process in running:
        process.signal(signal.SIGTERM if gently else signal.SIGKILL)
        process.resume()
    for process in running:
        if not process.wait_gone(PATIENCE_S if gently else 0.0):
            process.kill()
    for left in (home / "run").glob("*.pid"):
        if left.stem not in spare:
            left.unlink(missing_ok=True)
    if not spare:
        shutil.rmtree(home / "scratch", ignore_errors=True)
    return len(running)


def erase(home: Path, keep_logs: bool = False) -> None:
    """Delete a stack whose processes have ended."""
    if not keep_logs:
        shutil.rmtree(home, ignore_errors=True)
        return
    for part in ("config", "data", "run", "scratch"):
        shutil.rmtree(home / part, ignore_errors=True)
    for file in ("stack.json", "context.toml"):
        (home / file).unlink(missing_ok=True)


def redis_urls(plan: StackPlan) -> dict[str, str]:
    """Address of the ledger per site: one server, a database each."""
    base = plan.redis.url or f"redis://{HOST}:{plan.redis.port}/0"
    parts = urlsplit(base)
    number = parts.path.strip("/") or "0"
    if parts.scheme not in ("redis", "rediss") or not number.isdigit():
        raise UsageError(f"--redis {base!r} must be redis://HOST:PORT/NUMBER or rediss://HOST:PORT/NUMBER")
    return {site: parts._replace(path=f"/{int(number) + index}").geturl() for index, site in enumerate(plan.clusters)}


def context_text(plan: StackPlan) -> str:
    """The context file of a stack."""
    urls = redis_urls(plan)
    lines = ['namespace = "finality"']
    for site in plan.clusters:
        servers = ",".join(f"{HOST}:{broker.advertised}" for broker in plan.of_site(site))
        voters = [f"r{number}" for number in range(1, plan.voters + 1)]
        lines += [
            "",
            f"[sites.{site}]",
            f'kafka = {{"bootstrap.servers" = {json.dumps(servers)}}}',
            f"redis = {{url = {json.dumps(urls[site])}}}",
            f"voters = {json.dumps(voters)}",
        ]
    return "\n".join(lines) + "\n"


def set_current(home: Path, text: str) -> None:
    """Leave the context in the stack's folder and as the current one."""
    write_file(home / "context.toml", text.encode())
    write_file(home.parent / "current.toml", text.encode())


def unset_current(home: Path) -> None:
    """Take the context away; the current one too, if it is this stack's."""
    current = home.parent / "current.toml"
    own = home / "context.toml"
    try:
        if current.read_bytes() == own.read_bytes():
            current.unlink()
        own.unlink()
    except FileNotFoundError:
        pass
