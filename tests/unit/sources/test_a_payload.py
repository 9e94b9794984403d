"""Reading foreign bytes ends in a value or a code, in linear time."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finality.core.errors import DependencyError, Rejected, UsageError
from finality.core.jobkey import job_key
from finality.sources.base import Keys, SourceSettings
from finality.sources.payload import (
    MAX_BYTES,
    clip,
    decimal_text,
    json_object,
    json_value,
    number_text,
    read_json,
    read_lines,
)
from support.fuzz import FUZZ

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


def code_of(value: bytes) -> str:
    with pytest.raises(Rejected) as refusal:
        json_object(value)
    return refusal.value.code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "BAD_JSON"),
        (b'{"a":', "BAD_JSON"),
        (b'{"a":1}x', "BAD_JSON"),
        (b'{"a":NaN}', "BAD_JSON"),
        (b'{"a":"\\ud800"}', "BAD_JSON"),
        (b"\xef\xbb\xbf{}", "BAD_JSON"),
        (b'{"a":"\xff"}', "NOT_UTF8"),
        (b"\xff\xfe{\x00}\x00", "NOT_UTF8"),
        (b"[]", "NOT_AN_OBJECT"),
        (b"3", "NOT_AN_OBJECT"),
        (b'{"a":1,"a":1}', "DUPLICATE_KEY"),
        (b'{"a":1, "\\u0061":2}', "DUPLICATE_KEY"),
        (b'{"x":[{"a":{"b":1,"b":2}}]}', "DUPLICATE_KEY"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "TOO_DEEP"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "TOO_DEEP"),
        (b"[" * 100_000, "TOO_DEEP"),
        (b" " * (MAX_BYTES + 1), "TOO_LARGE"),
    ],
)
def test_each_fault_has_its_code(value: bytes, code: str) -> None:
    assert code_of(value) == code


def test_64_levels_are_taken() -> None:
    assert json_object(b'{"a":' * 64 + b"1" + b"}" * 64)


@FUZZ
@given(JSON)
def test_any_document_is_read_as_it_is_however_it_is_written(document: Any) -> None:
    for text in (
        json.dumps(document),
        json.dumps(document, indent=2, ensure_ascii=False),
        json.dumps(document, separators=(",", ":")),
    ):
        assert json_value(text.encode()) == json.loads(text)


@FUZZ
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_rejection(value: bytes) -> None:
    with suppress(Rejected):
        json_value(value)


@pytest.mark.parametrize(
    "value",
    [
        b'"' * MAX_BYTES,
        b'"\\' * (MAX_BYTES // 2),
        b"[" * MAX_BYTES,
        b'{"a":' * (MAX_BYTES // 5),
        b"[" + b"9" * (MAX_BYTES - 2) + b"]",
        b"[" + b"1e1," * (MAX_BYTES // 4 - 2) + b"1]",
        b'{"' + b"\\u0041" * (MAX_BYTES // 6 - 2) + b'":0}',
        b"{" + b",".join(b'"%d" :0' % n for n in range(MAX_BYTES // 13)) + b"}",
    ],
    ids=["quotes", "escapes", "brackets", "objects", "digits", "exponents", "long key", "many keys"],
)
def test_the_largest_hostile_documents_take_bounded_time(value: bytes) -> None:
    assert len(value) <= MAX_BYTES
    before = time.process_time()
    with suppress(Rejected):
        json_object(value)
    assert time.process_time() - before < 20  # a quadratic reader takes hours


def test_the_lines_of_a_file_are_read_plain_or_packed(tmp_path: Path) -> None:
    content = b"one\r\n\ntwo\nthree"
    plain, packed = tmp_path / "lines.txt", tmp_path / "lines.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    expected = [(b"one", "1"), (b"two", "3"), (b"three", "4")]
    for path in (plain, packed):
        assert [(r.value, r.where) for r in read_lines(path)] == [(v, f"{path.name}:{n}") for v, n in expected]


def test_a_line_over_the_limit_is_yielded_cut_and_its_neighbours_stay(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(b"a\n" + b"x" * (MAX_BYTES * 2) + b"\nb\n")
    first, huge, last = read_lines(path)
    assert (first.value, last.value, last.where) == (b"a", b"b", "huge:3")
    assert len(huge.value) == MAX_BYTES + 2
    assert code_of(huge.value) == "TOO_LARGE"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'[{"a":1},\n {"a":2}]', [b'{"a":1}', b'{"a":2}']),
        (b'\n[{"a":1}]\n', [b'{"a":1}']),
        (b'{\n"a":1\n}\n', [b'{\n"a":1\n}\n']),
        (b'{"a":\n{"b":2}\n', [b'{"a":', b'{"b":2}']),
        (b'[{"a":1}, {"b"\n{"c":3}', [b'[{"a":1}, {"b"', b'{"c":3}']),
        (b'garbage\n{"a":1}\n', [b"garbage", b'{"a":1}']),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_a_json_file_is_lines_or_an_array_or_one_document(
    tmp_path: Path, content: bytes, expected: list[bytes]
) -> None:
    for path, written in ((tmp_path / "f.json", content), (tmp_path / "f.gz", gzip.compress(content))):
        path.write_bytes(written)
        assert [reading.value for reading in read_json(path)] == expected


def test_an_array_longer_than_one_record_may_be_is_read(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    path.write_bytes(b"[" + b",".join([b'"' + b"x" * 999 + b'"'] * 6000) + b"]")
    assert sum(1 for _ in read_json(path)) == 6000


def test_a_missing_file_and_a_cut_off_gzip_file_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="cannot open"):
        list(read_json(tmp_path / "nowhere"))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"line\n" * 100_000)[:-20])
    with pytest.raises(UsageError, match="damaged gzip"):
        list(read_lines(cut))


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), ("007", "007"), (-1, ""), (True, ""), (1.0, ""), ("1e3", ""), ("٣", ""), (None, ""), ("9" * 41, "")],
)
def test_an_id_is_exact_digits_or_nothing(value: object, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.020254374, "0.020254374"),
        (5e-06, "0.000005"),
        (-1.0, "-1.0"),
        (3, "3"),
        (1e300, ""),
        (float("nan"), ""),
        (float("inf"), ""),
        (True, ""),
        ("1", ""),
    ],
)
def test_a_measurement_is_plain_decimal_text(value: object, text: str) -> None:
    assert decimal_text(value) == text


def test_long_texts_are_cut_with_a_mark() -> None:
    assert clip("abcdef", 4) == "abc…"
    assert clip("abcd", 4) == "abcd"


@FUZZ
@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_quick_keys_equal_job_keys(tenant: str, ident: str) -> None:
    try:
        expected = job_key(tenant, "s", "i", "kind", ident)
    except Rejected:
        return
    assert Keys(SourceSettings(tenant, "i"), "s", ("kind",)).of("kind", ident) == expected


def test_settings_that_make_no_key_are_a_usage_error() -> None:
    for settings in (SourceSettings(tenant=""), SourceSettings(instance="i" * 600)):
        with pytest.raises(UsageError, match="source s"):
            Keys(settings, "s", ("kind",))
