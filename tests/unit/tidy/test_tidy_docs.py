"""Documents are true: links lead somewhere, named files exist, invariants are quoted where they are enforced."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from support.tree import PACKAGE, ROOT, files, name_of, python_files, text_of

ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
INVARIANT = re.compile(r"\bI([1-9][0-9]?)\b")
RULE = re.compile(r"\b[LT][1-9]\b")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([a-z_]+(?:/[\w.*-]+)+/?)`")
DOCUMENTS = [path for path in files() if path.suffix == ".md" and "LICENSES" not in path.parts]
MOST_LINES = 300  # of a document; what is longer is split
README_TERMS = ("event", "contract", "outcome", "delta", "proof", "site")


def ids_of(text: str) -> set[str]:
    """Invariant ids that a text quotes."""
    return {f"I{number}" for number in INVARIANT.findall(text)}


def quotes() -> dict[str, set[str]]:
    """Files of ours that quote an invariant, by id."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in python_files():
        for invariant in ids_of(text_of(path) or ""):
            if path != Path(__file__):
                found[invariant].add(name_of(path))
    return found


def anchors_of(path: Path) -> set[str]:
    """Names of the headings of a document, as links spell them."""
    headings = re.findall(r"^#+ (.+)$", text_of(path) or "", re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_table_of_invariants_is_whole() -> None:
    rows = re.findall(r"^\| (I\d+) \|", text_of(ARCHITECTURE) or "", re.M)
    assert rows == [f"I{number}" for number in range(1, 14)]


def test_every_invariant_that_code_quotes_is_in_the_table() -> None:
    known = set(re.findall(r"^\| (I\d+) \|", text_of(ARCHITECTURE) or "", re.M))
    assert {invariant: where for invariant, where in quotes().items() if invariant not in known} == {}


@pytest.mark.parametrize("number", range(1, 14))
def test_every_invariant_is_quoted_where_it_is_enforced(number: int) -> None:
    product = PACKAGE.relative_to(ROOT).as_posix()
    assert [where for where in quotes()[f"I{number}"] if where.startswith(product)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in LINK.findall(text_of(path) or ""):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_files_that_a_document_names_exist(path: Path) -> None:
    bases = (ROOT, PACKAGE, path.parent)
    folders = {part.name for base in (ROOT, PACKAGE) for part in base.iterdir() if part.is_dir()}
    missing = [
        name
        for name in NAMED.findall(text_of(path) or "")
        if name.split("/")[0] in folders and not any((base / name).exists() for base in bases)
    ]
    assert missing == []


def test_documents_that_code_names_exist() -> None:
    missing = [
        f"{name_of(path)}: {name}"
        for path in python_files()
        for name in re.findall(r"\bdocs/[\w/.-]+\.md\b", text_of(path) or "")
        if not (ROOT / name).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_a_document_has_at_most_300_lines(path: Path) -> None:
    assert len((text_of(path) or "").splitlines()) <= MOST_LINES


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_glossary_says_each_word_once_in_order_and_the_readme_s_terms_first() -> None:
    words = re.findall(r"^\| ([a-z][a-z ,]*?) \|", text_of(ROOT / "docs" / "GLOSSARY.md") or "", re.M)[1:]
    assert words[:6] == list(README_TERMS)
    assert words[6:] == sorted(words[6:], key=lambda word: word.replace(",", ""))
    assert len(words) == len(set(words))


def test_the_rules_that_code_names_are_written_down() -> None:
    """L rules stand in the seat, T rules in the transaction sink; nobody quotes one that is in neither."""
    seat = text_of(PACKAGE / "workers" / "reconciler" / "seat.py") or ""
    sink = text_of(PACKAGE / "kafka" / "transaction.py") or ""
    known = set(RULE.findall(seat + sink)) | {"L7"}  # L7: the readers', `kafka/watch.py`
    wrong = {
        f"{name_of(path)}: {rule}"
        for path in python_files()
        if path.is_relative_to(PACKAGE)
        for rule in RULE.findall(text_of(path) or "")
        if rule not in known
    }
    assert wrong == set()
