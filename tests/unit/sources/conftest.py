"""Tests of sources. Those that read data which is not in the repository are deselected where it is not at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "outside_data: reads files under the directory that FINALITY_DATA names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("FINALITY_DATA"):
        return
    left_out = [item for item in items if item.get_closest_marker("outside_data")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("outside_data")]
        config.stash[_LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"FINALITY_DATA is not set: {left_out} tests that read data outside the repository are left out"
        )


@pytest.fixture
def outside_data() -> Path:
    """The directory that FINALITY_DATA names."""
    return Path(os.environ["FINALITY_DATA"])
