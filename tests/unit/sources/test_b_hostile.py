"""Hostile bytes: Kubernetes, Slurm, GitHub and Temporal sources refuse with a code, in bounded time.

What they accept keeps the rules of a canonical event, whatever the record says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finality.core.event import ENDED, check_event, encode_event
from finality.sources.base import Reading, Source, SourceSettings
from finality.sources.registry import build, detect, source_by_name
from support.mapped_files import DATA
from support.source_digest import FILES, digest
from support.sourced import Given, give

NAMES = tuple(FILES)
FUZZ = partial(
    settings, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # the same examples on every machine, however slow
SOURCES = {
    name: source_by_name(name, SourceSettings(zone="Europe/Berlin") if name == "slurm" else None) for name in NAMES
}
RECORDS = {name: [one for file in FILES[name] for one in SOURCES[name].read(DATA / file)] for name in NAMES}
JSON_NAMES = tuple(name for name in NAMES if name != "slurm")

# Small records that a source accepts: the frame into which hostile parts are put.
SOUND: dict[str, dict[str, Any]] = {
    "kubernetes": {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"uid": "u"}, "status": {"active": 1}},
    "github": {"workflow_run": {"id": 1, "status": "queued", "created_at": "2024-01-01T00:00:00Z"}},
    "temporal": {
        "events": [
            {
                "eventId": "1",
                "eventType": "WorkflowExecutionStarted",
                "workflowExecutionStartedEventAttributes": {"originalExecutionRunId": "r"},
            }
        ]
    },
    "slurm": {"jobid": 1, "cluster": "c", "state": "RUNNING", "@submit": "2024-01-01T00:00:00"},
}


def code(name: str, value: bytes) -> str:
    """Code of the rejection of some bytes, within a bound that even a busy machine keeps."""
    began = time.process_time()
    given_: Given = give(SOURCES[name], Reading(value))
    assert time.process_time() - began < 20
    return given_.code


def sound(name: str) -> bytes:
    return json.dumps(SOUND[name]).encode()


def hold(source: Source, value: bytes, headers: tuple[tuple[str, bytes | None], ...] = ()) -> None:
    """Nothing but a rejection is raised, and each event keeps the rules of canonical events."""
    source.looks_like(value, headers)
    for event in give(source, Reading(value, headers)).events:
        check_event(event)
        assert len(encode_event(event)) <= 65_536
        assert all(map(str.isascii, (*event.labels, *event.metrics, *event.conditions)))
        assert event.job.split("/")[1] == source.name
        assert event.phase in ENDED or event.end == ""
        assert not (event.start and event.end) or int(event.start) <= int(event.end)


@pytest.mark.parametrize("name", NAMES)
def test_the_frame_of_these_tests_is_sound(name: str) -> None:
    assert code(name, sound(name)) == ""
    assert len(give(SOURCES[name], Reading(sound(name))).events) >= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda good: good[:-1], "BAD_JSON"),
        (lambda good: good[: len(good) // 2], "BAD_JSON"),
        (lambda good: good[:-1] + b',"x":"\xff\xfe"}', "NOT_UTF8"),
        (lambda good: good[:-1] + b',"x":"\\ud800"}', "BAD_JSON"),
        (lambda good: good[:-1] + b',"x":NaN}', "BAD_JSON"),
        (lambda good: good[:-1] + b',"x":1,"x":2}', "DUPLICATE_KEY"),
        (lambda good: good[:-1] + b',"x":{"y":{"z":1,"z":1}}}', "DUPLICATE_KEY"),
        (lambda good: good[:-1] + b',"x":' + b"[" * 65 + b"]" * 65 + b"}", "TOO_DEEP"),
        (lambda good: good[:-1] + b',"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", "TOO_DEEP"),
        (lambda good: good[:-1] + b',"x":' + b"[" * 1_000_000, "TOO_DEEP"),
        (lambda good: good[:-1] + b',"x":"' + b"a" * (4 << 20) + b'"}', "TOO_LARGE"),
        (lambda good: b"{" + b'"k":' * 500_000, "BAD_JSON"),
        (lambda good: b'{"' + b"\\" * 2_000_001, "BAD_JSON"),
    ],
    ids=[
        "last byte missing",
        "half",
        "not UTF-8",
        "lone surrogate",
        "NaN",
        "key twice",
        "key twice inside",
        "65 deep",
        "100,000 deep",
        "a million opened",
        "over 4 MiB",
        "keys without values",
        "backslashes without end",
    ],
)
def test_damaged_and_oversized_json_is_refused_by_name(name: str, change: Any, expected: str) -> None:
    assert code(name, change(sound(name))) == expected


@pytest.mark.parametrize("name", JSON_NAMES)
@pytest.mark.parametrize("value", [b"", b"null", b"7", b'"text"', b"[]", b"\xef\xbb\xbf{}", b"\x00" * 64])
def test_bytes_that_are_no_record_are_refused(name: str, value: bytes) -> None:
    assert code(name, value) in {"BAD_JSON", "NOT_AN_OBJECT", "NO_EVENTS"}


@pytest.mark.parametrize("name", NAMES)
def test_large_records_within_the_limit_take_bounded_time(name: str) -> None:
    wide = sound(name)[:-1] + b',"x":{' + b",".join(b'"k%d":0' % n for n in range(200_000)) + b"}}"
    assert code(name, wide) == ""
    many = json.dumps(json.dumps([0] * 500_000)).encode()
    assert code(name, sound(name)[:-1] + b',"x":' + many + b"}") == ""


def test_a_history_of_many_events_a_list_of_many_objects_and_a_page_of_many_runs_take_bounded_time() -> None:
    first = SOUND["temporal"]["events"][0]
    events = [first, *({"eventId": n, "eventType": "TimerFired"} for n in range(2, 50_000))]
    assert code("temporal", json.dumps({"events": events}).encode()) == ""
    objects = [SOUND["kubernetes"] | {"metadata": {"uid": str(n)}} for n in range(20_000)]
    assert code("kubernetes", json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}).encode()) == ""
    runs = [SOUND["github"]["workflow_run"] | {"id": n} for n in range(30_000)]
    assert code("github", json.dumps({"workflow_runs": runs}).encode()) == ""


@pytest.mark.parametrize("name", NAMES)
def test_every_cut_of_a_real_record_is_refused_or_kept_by_the_rules(name: str) -> None:
    for reading in RECORDS[name][:: max(1, len(RECORDS[name]) // 12)]:
        for place in range(0, len(reading.value), max(1, len(reading.value) // 25)):
            hold(SOURCES[name], reading.value[:place], reading.headers)


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_record_loses_no_neighbour(name: str, tmp_path: Path) -> None:
    good = [one.value for one in RECORDS[name][:6]]
    path = tmp_path / "records"
    path.write_bytes(b"\n".join([*good[:3], b'{"cut', b"\xff\xfe\x00", *good[3:]]) + b"\n")
    found = [give(SOURCES[name], reading) for reading in SOURCES[name].read(path)]
    expected = [give(SOURCES[name], Reading(value)) for value in good]
    assert [one for one in found if one.code in ("", "NO_ID")] == expected
    assert len(found) == 8


@FUZZ(max_examples=300)
@given(name=st.sampled_from(NAMES), value=st.binary(max_size=400))
def test_random_bytes_never_raise_anything_else(name: str, value: bytes) -> None:
    hold(SOURCES[name], value)
    hold(SOURCES[name], b"{" + value)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "completed", "Failed", "True", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1e99", "٣", "x" * 900]
    )
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all members and items of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for name, item in inner:
        found.append((*path, name))
        found.extend(places(item, (*path, name)))
    return found


@FUZZ(max_examples=400)
@given(data=st.data())
def test_real_records_with_any_member_changed_never_raise_anything_else(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(JSON_NAMES))
    reading = data.draw(st.sampled_from(RECORDS[name]))
    record = json.loads(reading.value)
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(places(record)[:2_000] or [()]))
        if not path:
            break
        box = record
        for part in path[:-1]:
            box = box[part]
        if data.draw(st.booleans()):
            box[path[-1]] = data.draw(JSON_VALUES)
        elif isinstance(box, dict):
            del box[path[-1]]
    hold(SOURCES[name], json.dumps(record).encode())


@FUZZ(max_examples=300)
@given(data=st.data())
def test_real_records_with_bytes_changed_never_raise_anything_else(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    value = bytearray(data.draw(st.sampled_from(RECORDS[name])).value)
    for _ in range(data.draw(st.integers(1, 6))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    hold(SOURCES[name], bytes(value))


@FUZZ(max_examples=300)
@given(data=st.data())
def test_rows_with_any_cell_changed_never_raise_anything_else(data: st.DataObject) -> None:
    cells = data.draw(st.sampled_from(RECORDS["slurm"])).value.decode().split("|")
    words = st.sampled_from(
        ["", "Unknown", "None assigned", "9" * 30, "99999-99:99:99", "0:0:0", "-1", "4700_[1-3]", "٣", "x" * 900]
    )
    for _ in range(data.draw(st.integers(1, 4))):
        cells[data.draw(st.integers(0, 25))] = data.draw(words | st.text(max_size=9))
    hold(SOURCES["slurm"], "|".join(cells).encode())


@FUZZ(max_examples=200)
@given(header=st.sampled_from(["X-GitHub-Event", "sacct-columns", "other"]), content=st.none() | st.binary(max_size=60))
def test_headers_from_outside_never_raise_anything_else(header: str, content: bytes | None) -> None:
    for name in NAMES:
        hold(SOURCES[name], RECORDS[name][0].value, ((header, content),))


@pytest.mark.parametrize("name", NAMES)
def test_real_records_are_detected_among_all_sources(name: str) -> None:
    sources = build()
    found = {getattr(detect(reading.value, reading.headers, sources.values()), "name", "") for reading in RECORDS[name]}
    assert found == {name}


@pytest.mark.parametrize(
    ("zone", "locale", "seed"),
    [("Asia/Kathmandu", "C", "1"), ("America/St_Johns", "tr_TR.UTF-8", "4242"), ("UTC", "C.UTF-8", "random")],
)
def test_zone_locale_and_hash_seed_of_the_machine_change_nothing(zone: str, locale: str, seed: str) -> None:
    environment = os.environ | {"TZ": zone, "LC_ALL": locale, "PYTHONHASHSEED": seed}
    tests = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "support.source_digest", *NAMES],
        cwd=tests,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == digest(list(NAMES))
