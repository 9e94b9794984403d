"""What a bench says: rows of one table, and the clocks that they are taken with.

CPU time, not wall time, wherever work is measured: the machine may be shared. Each figure is the median of several
rounds. Ratios are taken against a bare loop that ran in the same process within the same minute, since absolute
figures of two days or two machines cannot be compared.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Row", "Table", "cpu_us"]


class Row(NamedTuple):
    """One figure. bare: how many times the bare loop's cost per event, None where that has no sense."""

    name: str
    value: float
    unit: str
    bare: float | None = None
    note: str = ""


class Table(NamedTuple):
    """Rows under a heading."""

    heading: str
    rows: list[Row]

    def lines(self) -> list[str]:
        """The table as markdown."""
        lines = [f"### {self.heading}", "", "| what | figure | × bare loop | |", "| --- | ---: | ---: | --- |"]
        for row in self.rows:
            figure = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:,.2f}"
            times = "" if row.bare is None else f"{row.bare:.2f}"
            lines.append(f"| {row.name} | {figure} {row.unit} | {times} | {row.note} |")
        return [*lines, ""]


def cpu_us(work: Callable[[], int], rounds: int = 5) -> float:
    """Median CPU time in µs for one of the things that `work` does; it says how many it did."""
    found = []
    for _ in range(rounds):
        gc.collect()
        begin = time.process_time_ns()
        count = work()
        found.append((time.process_time_ns() - begin) / 1000 / count)
    return statistics.median(found)
