"""The slow fold stands alone: the standard library, itself, and the one file that binds the CEL library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from finality.core import refold

FILES = sorted(Path(str(refold.__file__)).parent.glob("*.py"))


def imported(path: Path) -> set[str]:
    """Every module that a file imports, by full name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where something comes from"
            names.add(str(node.module))
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_shares_no_module_with_what_it_checks(path: Path) -> None:
    """An error of a shared module would be an error of both."""
    for name in imported(path):
        own = name.startswith("finality.core.refold")
        assert own or name == "finality.core.cel" or name.split(".")[0] in sys.stdlib_module_names, name


def test_what_it_shares_imports_nothing_of_ours() -> None:
    """The CEL binding brings no other module along."""
    binding = next(path for path in FILES[0].parents[1].glob("cel.py"))
    assert not [name for name in imported(binding) if name.startswith("finality")]
