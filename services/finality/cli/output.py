"""What commands print: tables for people, one JSON document for scripts, one line for an error.

With `--json` standard output holds the document and nothing else. Notes and progress go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["note", "show_json", "show_table"]


def show_json(document: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table that fits 100 columns; cells are cut, never wrapped."""
    console = Console(width=100 if not sys.stdout.isatty() else None, highlight=False)
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*[str(cell) for cell in row])
    console.print(table)


def note(text: str) -> None:
    """A line for people, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
