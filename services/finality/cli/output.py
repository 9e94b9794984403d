"""What commands print: tables for people, one JSON document for scripts, one line for an error.

With `--json` standard output holds the document and nothing else. Notes and progress go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["note", "plain", "show_json", "show_table"]

_WIDTH = 100
_GAP = 2
_LEAST_KEY = 24
_LEAST = 6


def show_json(document: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table that fits 100 columns, or the terminal. Cells are cut, never wrapped: the first column gives way
    first, in its middle, since keys of jobs differ at both ends. Whole numbers stand to the right."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    _fit(widths, console.width - _GAP * (len(columns) - 1))
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0))
    for place, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[place], int) for row in rows)
        table.add_column(Text(column), width=widths[place], justify="right" if numbers else "left", no_wrap=True)
    for row in cells:
        table.add_row(*[Text(_cut(cell, width)) for cell, width in zip(row, widths, strict=True)])
    with console.capture() as capture:
        console.print(table)
    sys.stdout.write("\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n")


def _fit(widths: list[int], room: int) -> None:
    """Narrow columns until they fit: the first one down to 24, then whichever is widest."""
    widths[0] -= max(0, min(sum(widths) - room, widths[0] - _LEAST_KEY))
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1


def _cut(cell: str, width: int) -> str:
    if cell_len(cell) <= width:
        return cell
    head = (width - 1) // 3
    tail = width - 1 - head
    return f"{cell[:head]}…{cell[len(cell) - tail :]}"


def plain(text: str) -> str:
    """Text of a foreign record, safe on a terminal: what is not printable is shown as its escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def note(text: str) -> None:
    """A line for people, on standard error, after what was printed before it."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
