"""Size, names and docstrings are rules, not hopes. The lists of exceptions are empty and stay empty."""

from __future__ import annotations

import ast
import re

from support.tree import PACKAGE, ROOT, files, functions, name_of, python_files, text_of, tree_of

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "misc", "base_classes"}
TOP_LEVEL = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "compose.yaml"}
TOP_FOLDERS = {"services", "schemas", "deploy", "tests", "docs"}


def test_a_python_file_has_at_most_400_lines() -> None:
    """A reader can hold one file in the head."""
    long = {name_of(path): len((text_of(path) or "").splitlines()) for path in python_files()}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_a_function_has_at_most_60_lines() -> None:
    """A reader sees a function at once."""
    long = [
        f"{name_of(path)}:{function.line} {function.name} has {function.lines} lines"
        for path in python_files()
        for function in functions(path)
        if function.lines > MOST_FUNCTION_LINES
    ]
    assert long == []


def test_no_file_or_class_has_an_empty_name() -> None:
    """A name that fits everything says nothing."""
    bad = [name_of(path) for path in files() if EMPTY_NAMES & set(re.split(r"[/._-]", name_of(path).lower()))]
    classes = [
        f"{name_of(path)}: {node.name}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and re.search(r"(Utils?|Helpers?|Manager|Common)$", node.name)
    ]
    assert bad + classes == []


def test_every_module_begins_with_its_theory() -> None:
    """What it is, the idea, what it leaves out; only an empty `__init__` has nothing to say."""
    silent = [
        name_of(path) for path in python_files() if tree_of(path).body and not (ast.get_docstring(tree_of(path)) or "")
    ]
    assert silent == []


def test_what_the_product_exports_has_a_docstring() -> None:
    """Public functions, classes and methods say units, errors, sources."""
    assert [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in python_files()
        if path.is_relative_to(PACKAGE)
        for node in _public(tree_of(path))
        if not ast.get_docstring(node)
    ] == []


def test_what_a_module_exports_exists() -> None:
    """`__all__` names what is there, in order."""
    wrong = []
    for path in python_files():
        tree = tree_of(path)
        for node in tree.body:
            if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["__all__"]:
                names = ast.literal_eval(node.value)
                missing = set(names) - _bound(tree)
                wrong += [f"{name_of(path)}: {name}" for name in missing]
    assert wrong == []


def test_the_top_level_is_a_closed_list() -> None:
    """Nothing lies about in the first folder."""
    names = {path.relative_to(ROOT).parts[0] for path in files()}
    assert set() == {name for name in names if not name.startswith(".")} - TOP_LEVEL - TOP_FOLDERS


def _public(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    found: list[ast.FunctionDef | ast.ClassDef] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            found.append(node)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name[0] != "_"]
    return found


def _bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
