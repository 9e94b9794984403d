"""`docs/FOLD.md` is current: its diagram and examples are what the code makes, its tables name what the code knows."""

from __future__ import annotations

import re
from pathlib import Path

from finality.core import attested, commands, inputlog
from finality.core.entries import RANKS
from finality.core.event import PHASES, Event
from support.fold_document import DOCUMENT, current, quoted_json

TEXT = DOCUMENT.read_text()


def test_the_made_parts_are_current() -> None:
    """Run `python tests/support/fold_document.py` where they are not."""
    assert current(TEXT) == TEXT


def test_every_kind_has_an_example() -> None:
    """In the order in which entries of one record stand."""
    kinds = [row["kind"] for row in quoted_json(TEXT) if isinstance(row, dict)]
    assert kinds == list(RANKS)


def test_every_field_phase_and_reason_is_named() -> None:
    """Fields of events, phases, refusals of both logs, operations and errors of commands."""
    names = {*Event.__struct_fields__, *PHASES}
    for module, pattern in ((attested, "return "), (inputlog, "return "), (commands, "(?:error = |return )")):
        source = Path(str(module.__file__)).read_text()
        names |= set(re.findall(pattern + r'"([A-Z_]{4,})"', source))
    assert names > {"NO_GENESIS", "QUORUM", "BAD_CONTRACT"}
    assert {name for name in names if not re.search(rf"\b{name}\b", TEXT)} == set()
