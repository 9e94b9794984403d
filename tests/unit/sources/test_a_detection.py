"""Which source a record is of, and the names of sources."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from finality.core.errors import UsageError
from finality.sources.base import SourceSettings
from finality.sources.registry import SOURCES, build, detect, source_by_name
from support.mapped_files import DATA, SHIPPED

RECORDS = [
    ("openlineage", DATA / "openlineage" / "events.ndjson.gz"),
    ("dbt", DATA / "dbt" / "structured-logs.jsonl.gz"),
    ("google-borg", DATA / "google-borg-2011" / "job-events-rare.csv"),
    ("google-borg", DATA / "google-borg-2011" / "task-events.csv.gz"),
    ("google-borg", SHIPPED / "borg-jobs.csv.gz"),
]
MADE = [
    ("canonical", b'{"at":"5", "job": "t/s/i/k/1"}', ()),
    ("cdevents", b'{"context":{"type":"dev.cdevents.taskrun.started.0.1.0"},"subject":{"id":"1"}}', ()),
    ("cloudevents", b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}', ()),
    ("cloudevents", b"{}", (("content-type", b"application/cloudevents+json"),)),
    ("cloudevents", b"{}", (("content-type", b"application/json"), ("ce_specversion", b"1.0"))),
    ("cloudevents", b"{}", (("ce_specversion", b"1.0"),)),
]


@pytest.mark.parametrize(("name", "path"), RECORDS)
def test_real_records_are_known_by_their_shape(name: str, path: Path) -> None:
    sources = build()
    for reading in islice(sources[name].read(path), 2000):
        found = detect(reading.value, reading.headers, sources.values())
        assert found is not None, reading.where
        assert found.name == name, reading.where


@pytest.mark.parametrize(("name", "value", "headers"), MADE)
def test_made_records_are_known_by_shape_or_headers(
    name: str, value: bytes, headers: tuple[tuple[str, bytes], ...]
) -> None:
    found = detect(value, headers, build().values())
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("value", [b"", b"hello", b"{}", b"[]", b"1,2,3", b"\xff\xfe", b'{"a":{"b":1}}'])
def test_a_record_of_no_source_is_nobodys(value: bytes) -> None:
    assert detect(value, (), build().values()) is None


def test_every_source_says_what_it_takes_its_order_and_its_identity_in_one_line() -> None:
    names = [kind.name for kind in SOURCES]
    assert len(set(names)) == len(names)
    assert {"canonical", "cloudevents", "cdevents", "google-borg", "openlineage", "dbt"} <= set(names)
    for source in build().values():
        for text in (source.takes, source.order, source.identity):
            assert text
            assert "\n" not in text
            assert len(text) <= 120, text


def test_a_source_is_found_by_its_name_with_its_settings() -> None:
    source = source_by_name("google-borg", SourceSettings(tenant="acme", instance="cell-a"))
    assert source.map(b"1,,5,4,0", ()).events[0].job == "acme/google-borg/cell-a/job/5"
    assert list(build({"dbt": SourceSettings(tenant="acme")})) == [kind.name for kind in SOURCES]


def test_a_name_of_no_source_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'openlineage'"):
        source_by_name("open-lineage")
    with pytest.raises(UsageError, match="known are"):
        source_by_name("zzz")
    with pytest.raises(UsageError, match="does not exist"):
        build({"nobody": SourceSettings()})
