"""The files of this checkout, for tests that read the project itself."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "services" / "finality"
_UNPACKED = {".git", ".venv", ".finality", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis", "build"}


class Function(NamedTuple):
    """A function with its length in lines, decorators left out."""

    name: str
    line: int
    lines: int


@cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the project: known to git, or new and not ignored; without git, what was unpacked."""
    if (ROOT / ".git").exists():
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [ROOT / name for name in found if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not _UNPACKED & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in set(paths) if path.is_file()))


def python_files() -> tuple[Path, ...]:
    """Our Python files."""
    return tuple(path for path in files() if path.suffix == ".py")


@cache
def text_of(path: Path) -> str | None:
    """A file's text, None for what is no text (packed data, pictures)."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return None


@cache
def tree_of(path: Path) -> ast.Module:
    """A Python file, parsed."""
    return ast.parse(path.read_text("utf-8"), str(path))


def name_of(path: Path) -> str:
    """A path as people write it, from the checkout."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports, also inside functions; `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
