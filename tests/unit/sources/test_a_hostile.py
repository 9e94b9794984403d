"""Whatever the bytes: a source gives events that the fold takes, or rejects with a code. Real records, broken."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finality.core.errors import Rejected
from finality.core.event import MAX_EVENT_BYTES, check_event, encode_event
from finality.sources.base import NOTHING, Source
from finality.sources.payload import MAX_BYTES
from finality.sources.registry import build
from support.fuzz import FUZZ
from support.mapped_files import DATA, SHIPPED

NAMES = ("canonical", "cloudevents", "cdevents", "google-borg", "openlineage", "dbt")
SOURCES = build()
OWN = rb'{"job":"default/s/i/job/1","phase":"FAILED","at":"5","labels":{"a":"b"},"metrics":{"m":"1.5"},"attempt":1}'
CDEVENT = (
    rb'{"context":{"specversion":"0.5.0","id":"1","source":"/s","type":"dev.cdevents.taskrun.finished.0.3.0",'
    rb'"timestamp":"2026-11-30T20:00:00Z"},"subject":{"id":"t","content":{"outcome":"error","pipelineRun":{"id":"p"}}}}'
)
ENVELOPE = rb'{"specversion":"1.0","id":"1","source":"/s","type":"dev.finality.event.v1","data":' + OWN + rb"}"
AIRFLOW = (
    rb'{"eventType":"FAIL","eventTime":"2026-11-30T21:34:06.361Z","run":{"runId":"r","facets":{"airflow":{"taskInstance":'
    rb'{"try_number":1,"map_index":2},"task":{"task_id":"load","retries":1}},"airflowState":{"tasksState":{"a":"skipped"}},'
    rb'"parent":{"run":{"runId":"p"}}}},"job":{"namespace":"prod","name":"daily.load"}}'
)
FILES = {
    "google-borg": (DATA / "google-borg-2011" / "job-events-rare.csv", SHIPPED / "borg-jobs.csv.gz"),
    "openlineage": (DATA / "openlineage" / "events.ndjson.gz",),
    "dbt": (DATA / "dbt" / "structured-logs.jsonl.gz",),
}
MADE = {"canonical": [OWN], "cloudevents": [ENVELOPE], "cdevents": [CDEVENT], "openlineage": [AIRFLOW]}


def samples(name: str) -> list[bytes]:
    """Real records of a source (short enough to break a few hundred times), and made ones."""
    real = [
        r.value for path in FILES.get(name, ()) for r in islice(SOURCES[name].read(path), 150) if len(r.value) < 9000
    ]
    return MADE.get(name, []) + real


SAMPLES = {name: samples(name) for name in NAMES}


def take(source: Source, value: bytes, headers: tuple[tuple[str, bytes | None], ...] = ()) -> None:
    """Map, and check what came out as the fold would; anything but events or a code fails the test."""
    source.looks_like(value, headers)
    refused = None
    mapped = NOTHING
    try:
        mapped = source.map(value, headers)
    except Rejected as refusal:
        refused = refusal
    if refused is not None:
        assert re.fullmatch(r"[A-Z][A-Z0-9_]{2,30}", refused.code)
        assert len(str(refused)) < 1000
    for event in mapped.events:
        check_event(event)
        assert len(encode_event(event)) <= MAX_EVENT_BYTES
    assert all(len(word) <= 128 for word in mapped.unknown)


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_maps_to_events_that_the_fold_takes(name: str) -> None:
    for value in SAMPLES[name]:
        take(SOURCES[name], value)
    assert any(SOURCES[name].map(value, ()).events for value in SAMPLES[name])


@pytest.mark.parametrize("name", NAMES)
@FUZZ
@given(value=st.binary(max_size=300), header=st.binary(max_size=40))
def test_random_bytes_raise_nothing_but_a_rejection(name: str, value: bytes, header: bytes) -> None:
    take(SOURCES[name], value, (("content-type", header),))
    take(SOURCES[name], value)


@pytest.mark.parametrize("name", NAMES)
@FUZZ
@given(data=st.data())
def test_a_real_record_with_bytes_changed_raises_nothing_but_a_rejection(name: str, data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(SAMPLES[name])))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, max(len(value) - 1, 0)))
        length = data.draw(st.integers(0, 12))
        value[place : place + length] = data.draw(
            st.binary(max_size=6)
            | st.sampled_from(
                [b"null", b"{}", b"[]", b'""', b"-1", b"1e9", b"true", b'"x":', b"\\u0000", b"999999999999999999999"]
            )
        )
    take(SOURCES[name], bytes(value))


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(?!\s*:)|-?[0-9]+(?:\.[0-9]+)?|true|false|null')


@pytest.mark.parametrize("name", [name for name in NAMES if name != "google-borg"])
@FUZZ
@given(data=st.data())
def test_a_real_record_with_values_of_other_types_raises_nothing_but_a_rejection(
    name: str, data: st.DataObject
) -> None:
    value = data.draw(st.sampled_from(SAMPLES[name]))
    tokens = list(_TOKEN.finditer(value))
    for token in sorted(
        data.draw(st.lists(st.sampled_from(tokens), min_size=1, max_size=3, unique_by=id)), key=lambda t: -t.start()
    ):
        other = data.draw(
            st.sampled_from(
                [b"null", b"[]", b"{}", b"7", b"1.5", b"true", b'""', b'"\\u0000"', b'"' + b"z" * 700 + b'"', b"[[{}]]"]
            )
        )
        value = value[: token.start()] + other + value[token.end() :]
    take(SOURCES[name], value)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_cut_off_anywhere_is_rejected_or_still_sound(name: str) -> None:
    for value in SAMPLES[name][:3]:
        for end in range(0, len(value), 1 + len(value) // 300):
            take(SOURCES[name], value[:end])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "google-borg"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b'{"a":1,"a":2}', "DUPLICATE_KEY"),
        (b'{"a":"\xff"}', "NOT_UTF8"),
        (b'{"a":', "BAD_JSON"),
        (b'{"a":' * 5000, "TOO_DEEP"),
        (b"{" + b" " * MAX_BYTES + b"}", "TOO_LARGE"),
        (b"null", "NOT_AN_OBJECT"),
    ],
)
def test_the_same_fault_has_the_same_code_at_every_json_source(name: str, value: bytes, code: str) -> None:
    with pytest.raises(Rejected) as refusal:
        SOURCES[name].map(value, ())
    assert refusal.value.code == code


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_record_in_a_file_loses_no_neighbour(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    good = next(value for value in SAMPLES[name] if SOURCES[name].map(value, ()).events)
    path = tmp_path_factory.mktemp("mixed") / "records"
    path.write_bytes(b"\n".join([good, b"\xff\x00{[", good[: len(good) // 3], good, b'{"a":1,"a":1}', good]) + b"\n")
    told = []
    for reading in SOURCES[name].read(path):
        try:
            told.append(len(SOURCES[name].map(reading.value, reading.headers).events) > 0)
        except Rejected:
            told.append(False)
    assert told == [True, False, False, True, False, True]
