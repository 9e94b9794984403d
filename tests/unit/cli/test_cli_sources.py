"""`finality sources check` says of every vendored file, job by job, what its truth table says."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from finality.sources.registry import SOURCES
from support.command import faults_of, finality
from support.mapped_files import DATA, SHIPPED
from support.sourced import table

ACTIVE = {"PENDING", "RUNNING", "PAUSED", "RETRYING", "CANCELLING"}
BORG = {0: "PENDING", 1: "RUNNING", 2: "FAILED", 3: "FAILED", 4: "SUCCEEDED", 5: "CANCELLED", 6: "INCONCLUSIVE"}

Document = dict[str, Any]


def checked(path: Path, folder: Path, *words: str) -> Document:
    """The document about one file, which keeps its schema."""
    done = finality("sources", "check", path, "--json", *words, folder=folder)
    assert (done.code, done.err) == (0, ""), done
    document: Document = done.document
    assert faults_of("sources-check", document) == []
    assert document["by_phase"] == dict(Counter(job["phase"] for job in document["jobs"]))
    return document


def wording(job: Document) -> str:
    """A phase in the neutral words of the tables."""
    if job["reason"] == "ACTION_REQUIRED":
        return "WAITING"
    return "ACTIVE" if job["phase"] in ACTIVE else str(job["phase"])


def told(document: Document) -> dict[str, str]:
    return {unquote(job["id"]): wording(job) for job in document["jobs"]}


def borg_truth(path: Path, *id_columns: int, code: int) -> dict[str, str]:
    """The trace's own rule, on its rows alone: sort by (time, code); updates (7, 8) are no state."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in (line.split(",") for line in text.splitlines()):
        found["-".join(row[place] for place in id_columns)].append((int(row[0]), int(row[code])))
    return {job: BORG[[what for _, what in sorted(rows) if what < 7][-1]] for job, rows in found.items()}


def test_all_jobs_of_the_shipped_borg_sample(tmp_path: Path) -> None:
    path = SHIPPED / "borg-jobs.csv.gz"
    document = checked(path, tmp_path)
    assert {job["id"]: job["phase"] for job in document["jobs"]} == borg_truth(path, 2, code=3)
    assert len(document["jobs"]) == 54_042
    assert document["records"] == {"total": 158_120, "unknown": 0, "rejected": 0, "duplicates": 0}


def test_rare_borg_jobs(tmp_path: Path) -> None:
    path = DATA / "google-borg-2011" / "job-events-rare.csv"
    document = checked(path, tmp_path)
    assert {job["id"]: job["phase"] for job in document["jobs"]} == borg_truth(path, 2, code=3)


def test_borg_tasks(tmp_path: Path) -> None:
    path = DATA / "google-borg-2011" / "task-events.csv.gz"
    document = checked(path, tmp_path)
    assert {job["id"]: job["phase"] for job in document["jobs"]} == borg_truth(path, 2, 3, code=5)


def test_slurm_jobs(tmp_path: Path) -> None:
    document = checked(DATA / "slurm" / "sacct.log", tmp_path)
    truth = {row["job_id"]: (row["expected"], row["reason"]) for row in table(DATA / "slurm" / "expected.tsv")}
    assert {job["id"]: (job["phase"], job["reason"]) for job in document["jobs"]} == truth


def test_openlineage_runs(tmp_path: Path) -> None:
    document = checked(DATA / "openlineage" / "events.ndjson.gz", tmp_path)
    rows = table(DATA / "openlineage" / "runs.expected.tsv")
    assert told(document) == {row["runId"]: row["expected"] for row in rows}
    assert document["rejections"] == {"NO_RUN": 2}
    assert document["records"]["duplicates"] == sum(int(row["events"]) - int(row["distinct_events"]) for row in rows)


def test_dbt_nodes_and_invocations(tmp_path: Path) -> None:
    document = checked(DATA / "dbt" / "structured-logs.jsonl.gz", tmp_path)
    nodes, streams = table(DATA / "dbt" / "nodes.expected.tsv"), table(DATA / "dbt" / "streams.expected.tsv")
    truth = {f"{row['invocation_id']}/{row['unique_id']}": row["expected"] for row in nodes}
    truth |= {row["invocation_id"]: row["command_expected"] for row in streams}
    assert told(document) == truth


def test_temporal_histories(tmp_path: Path) -> None:
    document = checked(DATA / "temporal" / "histories.ndjson.gz", tmp_path)
    rows = table(DATA / "temporal" / "expected.tsv")
    assert told(document) == {row["run_id"]: row["expected"] for row in rows if row["run_id"]}
    assert document["rejections"] == {"NO_ID": 1}


def test_polled_github_runs(tmp_path: Path) -> None:
    document = checked(DATA / "github-actions" / "run-polls.ndjson.gz", tmp_path)
    rows = table(DATA / "github-actions" / "runs.expected.tsv")
    assert told(document) == {row["run_id"]: row["final_by_updated_at"] for row in rows}
    assert [job["id"] for job in document["jobs"] if job["conflict"]] == ["6804432015"]
    assert {job["id"]: max(job["attempt"], 1) for job in document["jobs"]} == {
        row["run_id"]: int(row["attempts"]) for row in rows
    }


def test_github_webhooks_of_one_record_each(tmp_path: Path) -> None:
    document = checked(DATA / "github-actions" / "webhooks.ndjson.gz", tmp_path)
    rows = [row for row in table(DATA / "github-actions" / "webhooks.expected.tsv") if row["expected"] != "NOT_A_STATE"]
    of_object = Counter(row["object_id"] for row in rows)
    single = {row["object_id"]: row["expected"] for row in rows if of_object[row["object_id"]] == 1}
    found = told(document)
    assert single
    assert {key: found[key] for key in single if key in found} == {key: single[key] for key in single if key in found}
    assert set(single) <= set(found)


def test_kubernetes_objects_seen_once(tmp_path: Path) -> None:
    document = checked(DATA / "kubernetes" / "objects.ndjson.gz", tmp_path)
    rows = [row for row in table(DATA / "kubernetes" / "objects.expected.tsv") if row["uid"]]
    seen = Counter(row["uid"] for row in rows)
    truth = {quote(row["uid"], safe=""): row["expected"] for row in rows if seen[row["uid"]] == 1}
    found = {job["id"]: wording(job) for job in document["jobs"]}
    assert len(truth) > 20
    assert {key: found[key] for key in truth} == truth
    assert document["rejections"] == {"NO_ID": 8}


def test_a_pinned_source_says_the_same_as_the_one_that_was_found(tmp_path: Path) -> None:
    path = DATA / "slurm" / "sacct.log"
    assert checked(path, tmp_path, "--source", "slurm") == checked(path, tmp_path)


def test_a_file_given_twice_changes_no_job(tmp_path: Path) -> None:
    path = DATA / "openlineage" / "events.ndjson.gz"
    once = checked(path, tmp_path)
    twice = checked(path, tmp_path, str(path))
    assert twice["jobs"] == once["jobs"]
    records = once["records"]  # what is rejected is told as rejected, each time
    assert twice["records"]["duplicates"] == records["duplicates"] + records["total"] - records["rejected"]


def test_the_table_for_people_keeps_whole_phases_and_100_columns(tmp_path: Path) -> None:
    done = finality("sources", "check", DATA / "dbt" / "structured-logs.jsonl.gz", folder=tmp_path)
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["job", "attempt", "phase", "reason", "word"]
    assert len(lines) == 1 + 20
    assert all("SUCCEEDED" in line or "FAILED" in line for line in lines[1:])
    assert "51 jobs (FAILED 6, SUCCEEDED 45); 20 shown" in done.err


def test_words_of_a_hostile_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_text(
        '{"job":"default/canonical/default/job/1","phase":"FAILED","word":"\\u001b]0;owned\\u0007 [bold]x"}\n'
    )
    done = finality("sources", "check", path, "--source", "canonical", folder=tmp_path)
    assert done.code == 0, done
    assert not [letter for letter in done.out + done.err if not letter.isprintable() and letter != "\n"]
    assert "[bold]x" in done.out


def test_the_list_names_every_source(tmp_path: Path) -> None:
    done = finality("sources", "list", "--json", folder=tmp_path)
    assert faults_of("sources-list", done.document) == []
    assert [row["name"] for row in done.document["sources"]] == [source.name for source in SOURCES]
    people = finality("sources", "list", folder=tmp_path)
    assert all(f"\n{source.name}\n" in "\n" + people.out for source in SOURCES)
