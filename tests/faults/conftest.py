"""Cases on the shared stack of one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from finality.lab.stack import Stack
from support.fault_case import Case


@pytest.fixture
def case(stack1: Stack, tmp_path: Path) -> Iterator[Callable[..., Case]]:
    """Makes cases that are ended and removed when the test is over."""
    made: list[Case] = []

    def make(**options: Any) -> Case:
        folder = tmp_path / f"case-{len(made)}"
        folder.mkdir()
        made.append(Case(folder, stack1.primary.bootstrap, stack1.redis_url, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
