"""Our own events, CloudEvents in both modes (written by the CloudEvents SDK), and CDEvents."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from finality.core.errors import Rejected
from finality.core.event import Event, encode_event
from finality.sources.base import NOTHING, Headers, SourceSettings
from finality.sources.canonical import Canonical
from finality.sources.cdevents import CDEvents
from finality.sources.cloudevents import EVENT_TYPE, CloudEvents
from support.mapped_files import orders
from support.reduce_events import reduce_events

SETTINGS = SourceSettings()
JOB = "default/ours/default/job/1"
OURS = Event(at="5", job=JOB, phase="SUCCEEDED", metrics={"accuracy": "0.93"}, labels={"team": "data"})
STRUCTURED = (("content-type", b"application/cloudevents+json; charset=utf-8"),)
ENVELOPE = {
    "specversion": "1.0",
    "id": "a-1",
    "source": "/s",
    "type": EVENT_TYPE,
    "data": {"job": JOB, "phase": "FAILED"},
}
BINARY = (
    ("content-type", b"application/json"),
    ("ce_specversion", b"1.0"),
    ("ce_id", b"a-1"),
    ("ce_source", b"/s"),
    ("ce_type", EVENT_TYPE.encode()),
)


def code_of(source: Canonical | CloudEvents | CDEvents, value: bytes, headers: Headers = ()) -> str:
    with pytest.raises(Rejected) as refusal:
        source.map(value, headers)
    return refusal.value.code


# --- our own events ---------------------------------------------------------------------------------------------


def test_our_own_event_comes_through_as_it_is() -> None:
    assert Canonical(SETTINGS).map(encode_event(OURS), ()).events == (OURS,)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"job": "a/b"}, "BAD_EVENT"),
        ({"job": ""}, "BAD_EVENT"),
        ({"phase": "DONE"}, "BAD_EVENT"),
        ({"precision": "minutes"}, "BAD_EVENT"),
        ({"at": "05"}, "BAD_EVENT"),
        ({"at": "9223372036854775808"}, "BAD_EVENT"),
        ({"at": "1e3"}, "BAD_EVENT"),
        ({"revision": "x"}, "BAD_EVENT"),
        ({"attempt": -1}, "BAD_EVENT"),
        ({"metrics": {"m": "NaN"}}, "BAD_EVENT"),
        ({"parent": "nobody"}, "BAD_EVENT"),
        ({"labels": {"ü": "x"}}, "BAD_EVENT"),
        ({"labels": {f"l{n}": "" for n in range(257)}}, "BAD_EVENT"),
        ({"name": "n" * 70_000}, "TOO_LARGE"),
        ({"at": 5}, "BAD_FIELD"),
        ({"attempt": "1"}, "BAD_FIELD"),
        ({"phases": "FAILED"}, "BAD_FIELD"),
        ({"deleted": 1}, "BAD_FIELD"),
    ],
)
def test_an_event_of_ours_that_breaks_a_rule_is_rejected(fields: dict[str, Any], code: str) -> None:
    assert code_of(Canonical(SETTINGS), json.dumps({"job": JOB} | fields).encode()) == code


# --- CloudEvents ------------------------------------------------------------------------------------------------


def sdk(kind: str = EVENT_TYPE, data: Any = None) -> CloudEvent:
    attributes = {
        "id": "a-1",
        "source": "/s",
        "type": kind,
        "specversion": "1.0",
        "datacontenttype": "application/json",
    }
    return CloudEvent(attributes, data if data is not None else json.loads(encode_event(OURS)))


@pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
def test_both_modes_as_the_sdk_writes_them_give_the_same_event(write: Any) -> None:
    message: KafkaMessage = write(sdk())
    source = CloudEvents(SETTINGS)
    headers = tuple(message.headers.items())
    assert source.looks_like(message.value, headers)
    assert source.map(message.value, headers).events == (OURS,)


def test_the_mode_is_decided_by_the_content_type_and_not_by_mirrored_attributes() -> None:
    mirrored = (*STRUCTURED, ("ce_id", b"other"), ("ce_type", b"other"), ("ce_specversion", b"0.3"))
    assert CloudEvents(SETTINGS).map(json.dumps(ENVELOPE).encode(), mirrored).events[0].phase == "FAILED"


def test_a_binary_message_whose_data_looks_like_an_envelope_is_data() -> None:
    assert code_of(CloudEvents(SETTINGS), json.dumps(ENVELOPE).encode(), BINARY) == "BAD_FIELD"


def test_the_header_name_and_type_are_read_in_any_case() -> None:
    headers = (("Content-Type", b"Application/CloudEvents+JSON"),)
    assert CloudEvents(SETTINGS).map(json.dumps(ENVELOPE).encode(), headers).events[0].job == JOB


def test_data_in_base64_is_data() -> None:
    packed = {**ENVELOPE, "data_base64": base64.b64encode(encode_event(OURS)).decode()}
    del packed["data"]
    assert CloudEvents(SETTINGS).map(json.dumps(packed).encode(), STRUCTURED).events == (OURS,)


@pytest.mark.parametrize("name", ["id", "source", "specversion", "type"])
def test_a_missing_attribute_is_rejected_and_never_invented(name: str) -> None:
    source = CloudEvents(SETTINGS)
    missing = {key: item for key, item in ENVELOPE.items() if key != name}
    assert code_of(source, json.dumps(missing).encode(), STRUCTURED) == "MISSING_ATTRIBUTE"
    headers = tuple(pair for pair in BINARY if pair[0] != f"ce_{name}")
    assert code_of(source, b'{"job":"x"}', headers) == "MISSING_ATTRIBUTE"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"id": ""}, "BAD_ATTRIBUTE"),
        ({"id": 7}, "BAD_ATTRIBUTE"),
        ({"partitionKey": "k"}, "BAD_ATTRIBUTE"),
        ({"extension": {"a": 1}}, "BAD_ATTRIBUTE"),
        ({"extension": 1.5}, "BAD_ATTRIBUTE"),
        ({"specversion": "0.3"}, "BAD_VERSION"),
        ({"data": None}, "NO_DATA"),
        ({"data": "text"}, "NOT_AN_OBJECT"),
        ({"data_base64": "e30="}, "BAD_ATTRIBUTE"),
        ({"data": None, "data_base64": "!"}, "BAD_ATTRIBUTE"),
        ({"data": None, "data_base64": "ewo"}, "BAD_ATTRIBUTE"),
        ({"data": None, "data_base64": "/w=="}, "NOT_UTF8"),
        ({"datacontenttype": "text/xml"}, "NOT_JSON"),
        ({"type": "org.example.other"}, "UNKNOWN_TYPE"),
        ({"type": "dev.cdevents.pipelinerun.started.0.2.0"}, "NOT_CDEVENT"),
    ],
)
def test_an_envelope_that_breaks_the_specification_is_rejected(fields: dict[str, Any], code: str) -> None:
    assert code_of(CloudEvents(SETTINGS), json.dumps(ENVELOPE | fields).encode(), STRUCTURED) == code


@pytest.mark.parametrize(
    ("headers", "value", "code"),
    [
        ((*BINARY, ("ce_id", b"b")), b"{}", "DUPLICATE_ATTRIBUTE"),
        ((*BINARY, ("ce_Upper", b"b")), b"{}", "BAD_ATTRIBUTE"),
        ((*BINARY, ("ce_subject", b"\xff")), b"{}", "NOT_UTF8"),
        (BINARY, b"", "NO_DATA"),
        (BINARY, b"{", "BAD_JSON"),
        ((("content-type", b"text/plain"), *BINARY[1:]), b"{}", "NOT_JSON"),
        ((("content-type", b"application/cloudevents-batch+json"),), b"[]", "UNSUPPORTED_FORMAT"),
        ((("content-type", b"application/cloudevents+avro"),), b"\x00", "UNSUPPORTED_FORMAT"),
        ((*STRUCTURED, *STRUCTURED), b"{}", "DUPLICATE_ATTRIBUTE"),
        ((("other", b"x"),), b"{}", "MISSING_ATTRIBUTE"),
    ],
)
def test_a_message_that_breaks_the_binding_is_rejected(headers: Headers, value: bytes, code: str) -> None:
    assert code_of(CloudEvents(SETTINGS), value, headers) == code


def test_binary_data_may_leave_its_content_type_out() -> None:
    assert CloudEvents(SETTINGS).map(encode_event(OURS), BINARY[1:]).events == (OURS,)


# --- CDEvents ---------------------------------------------------------------------------------------------------


def cdevent(kind: str, second: int = 0, subject: dict[str, Any] | None = None, **content: Any) -> bytes:
    return json.dumps(
        {
            "context": {
                "specversion": "0.5.0",
                "id": f"ce-{second}",
                "source": "/ci/tekton",
                "type": f"dev.cdevents.{kind}.0.3.0",
                "timestamp": f"2026-11-30T20:00:{second:02}Z",
            },
            "subject": {"id": "ns/run-77", "content": content, **(subject or {})},
        }
    ).encode()


def test_a_pipeline_run_from_queue_to_end_in_any_order() -> None:
    source = CDEvents(SETTINGS)
    records = [
        cdevent("pipelinerun.queued", 1, pipelineName="train"),
        cdevent("pipelinerun.started", 2, pipelineName="train"),
        cdevent("pipelinerun.finished", 9, pipelineName="train", outcome="success"),
    ]
    events = [event for record in records for event in source.map(record, ()).events]
    for order, mixed in orders(events):
        ((job, state),) = reduce_events(mixed).items()
        assert job == "default/cdevents/default/pipelinerun/%2Fci%2Ftekton%23ns%2Frun-77", order
        assert (state.phase, state.attempts, state.word) == ("SUCCEEDED", 1, "finished success"), order
        assert int(state.end) - int(state.created) == 8 * 10**9, order
    assert events[0].name == "train"


@pytest.mark.parametrize(
    ("outcome", "phase", "reason"),
    [
        ("success", "SUCCEEDED", ""),
        ("failure", "FAILED", ""),
        ("error", "FAILED", "ERROR"),
        ("cancel", "CANCELLED", ""),
        ("Cancelled", "CANCELLED", ""),
        ("pass", "SUCCEEDED", ""),
        ("fail", "FAILED", ""),
        (None, "INCONCLUSIVE", ""),
    ],
)
@pytest.mark.parametrize("field", ["outcome", "status"])
def test_each_outcome_becomes_its_phase_under_either_name(field: str, outcome: str, phase: str, reason: str) -> None:
    (event,) = CDEvents(SETTINGS).map(cdevent("taskrun.finished", 0, None, **{field: outcome}), ()).events
    assert (event.phase, event.reason) == (phase, reason)


def test_an_outcome_that_nobody_knows_ends_nothing() -> None:
    mapped = CDEvents(SETTINGS).map(cdevent("taskrun.finished", outcome="melted"), ())
    assert (mapped.events[0].phase, mapped.unknown) == ("UNKNOWN", ("outcome melted",))


def test_older_capitalised_subjects_are_the_same_kind() -> None:
    (event,) = CDEvents(SETTINGS).map(cdevent("pipelineRun.started"), ()).events
    assert "/pipelinerun/" in event.job


def test_a_task_run_names_its_pipeline_run_as_parent() -> None:
    content: dict[str, Any] = {"pipelineRun": {"id": "ns/run-77", "source": "/ci/tekton"}, "taskName": "fit"}
    (task,) = CDEvents(SETTINGS).map(cdevent("taskrun.started", 0, {"id": "t-1"}, **content), ()).events
    (run,) = CDEvents(SETTINGS).map(cdevent("pipelinerun.started"), ()).events
    assert task.parent == run.job


def test_one_id_at_two_sources_is_two_jobs() -> None:
    jobs = {
        CDEvents(SETTINGS).map(cdevent("build.started", subject={"source": source}), ()).events[0].job
        for source in ("/a", "/b")
    }
    assert len(jobs) == 2


def test_events_about_no_job_give_nothing_and_new_predicates_are_counted() -> None:
    source = CDEvents(SETTINGS)
    assert source.map(cdevent("artifact.packaged"), ()) == NOTHING
    assert source.map(cdevent("taskrun.paused"), ()).unknown == ("taskrun.paused",)


def test_a_cdevent_in_a_cloudevent_is_the_same_event() -> None:
    document = cdevent("pipelinerun.finished", 9, outcome="error")
    message = to_structured_event(sdk("dev.cdevents.pipelinerun.finished.0.3.0", json.loads(document)))
    assert CloudEvents(SETTINGS).map(message.value, tuple(message.headers.items())) == CDEvents(SETTINGS).map(
        document, ()
    )


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"{}", "NOT_CDEVENT"),
        (b'{"context":{"type":"dev.cdevents."}}', "NOT_CDEVENT"),
        (b"[]", "NOT_AN_OBJECT"),
        (b'{"context":{"type":"dev.cdevents.build.started.0.1.0","source":"/s"},"subject":{}}', "NO_ID"),
        (b'{"context":{"type":"dev.cdevents.build.started.0.1.0"},"subject":{"id":"1"}}', "NO_ID"),
    ],
)
def test_a_document_that_is_no_cdevent_is_rejected(value: bytes, code: str) -> None:
    assert code_of(CDEvents(SETTINGS), value) == code


# --- the pages --------------------------------------------------------------------------------------------------


def test_the_records_printed_in_the_pages_are_taken() -> None:
    pages = Path(__file__).parents[3] / "docs" / "sources"
    printed = (pages / "canonical.md").read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    (event,) = Canonical(SETTINGS).map(printed.encode(), ()).events
    assert (event.phase, event.attempt, event.metrics) == ("SUCCEEDED", 2, {"accuracy": "0.93"})
    shown = (pages / "cloudevents.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    head, value = shown.strip().split("\n")
    headers = tuple((name, text.encode()) for name, text in (pair.split(" = ") for pair in head.split(", ")))
    (event,) = CloudEvents(SETTINGS).map(value.encode(), headers).events
    assert (event.job, event.phase) == ("default/ours/hpc1/job/4711", "SUCCEEDED")
