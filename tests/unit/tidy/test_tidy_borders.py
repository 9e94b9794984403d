"""Borders between rooms that the import rules of `pyproject.toml` cannot say, and words that must not be there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.tree import PACKAGE, ROOT, files, imports, name_of, python_files, text_of, tree_of

# What the core may use. None of these waits, reads a clock, draws by chance, or looks outside of the process.
CORE_STANDARD = {
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "difflib",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "operator",
    "re",
    "struct",
    "sys",
    "typing",
    "urllib.parse",
    "zlib",
}
CORE_LIBRARIES = {"msgspec", "orjson", "yaml", "cel_expr_python"}
CORE_BANNED_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval", "__import__"}
CORE_SYS = {"intern"}  # the only name of `sys` that is no state of the process

# Who may use threads or processes, and why.
THREADS = {
    "services/finality/kafka/transaction.py": "commits of the transaction sink block, with the GIL released",
    "services/finality/kafka/watch.py": "the type of the admin client's answers; nothing is started",
    "services/finality/cli/verify.py": "a refold on each core, in processes of their own",
    "tests/unit/tidy/test_tidy_borders.py": "names them",
}
TESTS_MAY_THREAD = ("tests/stack/", "tests/faults/", "tests/support/", "tests/unit/kafka/", "tests/unit/support/")
HOSTS = re.compile(
    r"(?i)\b(pypi\.org|pythonhosted\.org|repo1?\.maven|maven\.org|maven\.apache|npmjs|crates\.io|rubygems|docker\.io"
    r"|ghcr\.io|quay\.io|gcr\.io|proxy\.golang|index-url|find-links|trusted-host)"
)
MACHINE_PATH = re.compile(r"(?<![\w.$}<-])/(work|root|home|Users|tmp)(/|\b)")
PROCESS_WORDS = re.compile(r"(?i)\bissues? #?\d+\b|\bissue tracker\b|\bthis (session|issue)\b|\bclosing note\b|\bLLM\b")
FOREIGN = ("tests/data/", "deploy/locks/", "LICENSE")  # other people's words, or made by a tool


def ours() -> list[Path]:
    """Text files that we wrote."""
    return [path for path in files() if not name_of(path).startswith(FOREIGN) and text_of(path) is not None]


def core_files() -> list[Path]:
    """The core's modules."""
    return [path for path in python_files() if path.is_relative_to(PACKAGE / "core")]


def test_the_core_uses_a_white_list_only() -> None:
    """No I/O, clock, chance, threads, environment or logging can enter the core unseen."""
    wrong = [
        f"{name_of(path)}: {module}"
        for path in core_files()
        for node in ast.walk(tree_of(path))
        for module in _modules(node)
        if module.split(".")[0] not in CORE_LIBRARIES | {"finality"} and module not in CORE_STANDARD
    ]
    assert wrong == []


def test_the_core_opens_and_prints_nothing() -> None:
    """Built-in functions need no import; neither do names of `sys`."""
    wrong = []
    for path in core_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CORE_BANNED_CALLS:
                wrong.append(f"{name_of(path)}:{node.lineno} calls {node.func.id}")
            if isinstance(node, ast.Import) and "sys" in [alias.name for alias in node.names]:
                wrong.append(f"{name_of(path)}:{node.lineno} imports all of sys")
            if isinstance(node, ast.ImportFrom) and node.module == "sys":
                names = {alias.name for alias in node.names} - CORE_SYS
                wrong += [f"{name_of(path)}:{node.lineno} imports sys.{name}" for name in names]
    assert wrong == []


def test_the_core_runs_nothing_async() -> None:
    """The core decides and never waits."""
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [name_of(path) for path in core_files() if any(isinstance(x, waits) for x in ast.walk(tree_of(path)))] == []


def test_the_refold_shares_no_module_with_the_fold() -> None:
    """A proof by the same code proves nothing: of ours, the refold uses itself and the border to the CEL engine."""
    allowed = ("finality.core.refold", "finality.core.cel")
    wrong = [
        f"{name_of(path)}: {module}"
        for path in core_files()
        if path.is_relative_to(PACKAGE / "core" / "refold")
        for module in imports(tree_of(path))
        if module.startswith("finality") and not module.startswith(allowed)
    ]
    assert wrong == []


def test_the_border_to_cel_knows_nothing_else_of_us() -> None:
    """Fold and refold both stand on it, so nothing of either may hide behind it."""
    modules = set(imports(tree_of(PACKAGE / "core" / "cel.py")))
    assert set() == {module for module in modules if module.startswith("finality")}


def test_threads_stand_in_known_places_only() -> None:
    """Loops are single-threaded; each exception has its reason in `THREADS`."""
    users = {
        name_of(path)
        for path in python_files()
        for module in imports(tree_of(path))
        if module.split(".")[0] in {"threading", "_thread", "multiprocessing", "asyncio", "queue"}
        or module.startswith("concurrent.futures")
    }
    assert set() == {name for name in users if name not in THREADS and not name.startswith(TESTS_MAY_THREAD)}


def test_exceptions_for_threads_are_in_use() -> None:
    """An exception that nobody needs is an open door."""
    assert [name for name in THREADS if not (ROOT / name).is_file()] == []


def test_no_producer_is_closed_in_kafka() -> None:
    """`close()` and `with` send an abort at once, which may hit a later transaction (T4)."""
    wrong = []
    for path in (path for path in python_files() if path.is_relative_to(PACKAGE)):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.With):
                heads = [ast.unparse(item.context_expr) for item in node.items]
                wrong += [f"{name_of(path)}:{node.lineno} with {head}" for head in heads if re.search("Producer", head)]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value).lower()
                if node.func.attr in {"close", "abort_transaction"} and "producer" in owner:
                    wrong.append(f"{name_of(path)}:{node.lineno} {owner}.{node.func.attr}()")
    assert wrong == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (HOSTS, "--index-" + "url https://x"),
        (HOSTS, "https://py" + "pi.org/simple"),
        (MACHINE_PATH, "see /wor" + "k/x"),
        (MACHINE_PATH, "'/roo" + "t'"),
        (PROCESS_WORDS, "see issu" + "e 12"),
    ],
)
def test_the_patterns_find_what_they_look_for(pattern: re.Pattern[str], text: str) -> None:
    """A search that cannot find anything proves nothing."""
    assert pattern.search(text)


@pytest.mark.parametrize("pattern", [HOSTS, MACHINE_PATH, PROCESS_WORDS], ids=["hosts", "paths", "process"])
def test_no_file_speaks_of_registries_this_machine_or_how_it_was_made(pattern: re.Pattern[str]) -> None:
    """The project works from any registry and any folder, and speaks only of itself."""
    found = [
        f"{name_of(path)}:{number} {line.strip()[:80]}"
        for path in ours()
        if path != Path(__file__)
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_locks_carry_no_host() -> None:
    """A lock pins versions and hashes; where packages come from is the machine's business."""
    locks = [path for path in files() if name_of(path).startswith("deploy/locks/")]
    assert locks
    assert [
        name_of(path) for path in locks if HOSTS.search(text_of(path) or "") or "://" in (text_of(path) or "")
    ] == []


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []
