"""The schemas that are checked in are those that the code makes, and they say what the code says.

`UPDATE=1` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from contract_documents import SPECS, STEADY, sample, tree
from hypothesis import given

from finality.core.contract import contract_of_tree
from finality.core.contract_schema import contract_schemas

SCHEMAS = Path(__file__).parents[3] / "schemas"
MADE = contract_schemas()


@pytest.mark.parametrize("name", MADE)
def test_the_schema_in_the_repository_is_the_one_that_the_code_makes(name: str) -> None:
    if os.environ.get("UPDATE"):
        (SCHEMAS / name).write_bytes(MADE[name])
    assert (SCHEMAS / name).read_bytes() == MADE[name], f"run UPDATE=1 pytest {Path(__file__).name}"


def _validator() -> Any:
    return jsonschema_rs.validator_for(MADE["contract.schema.json"].decode())


@pytest.mark.parametrize("name", ["borg.yaml", "nightly.yaml"])
def test_the_contracts_that_ship_are_valid_by_the_schema(name: str) -> None:
    assert _validator().is_valid(yaml.safe_load(sample(name)))


@STEADY
@given(SPECS)
def test_what_the_code_accepts_the_schema_accepts(spec: dict[str, Any]) -> None:
    document = tree(spec)
    made, _ = contract_of_tree(document)
    assert made is not None
    assert [error.message for error in _validator().iter_errors(document)] == []


@pytest.mark.parametrize(
    "spec",
    [
        {"limts": {}},
        {"limits": {"runTime": "1.5h"}},
        {"limits": {"retries": -1}},
        {"limits": {"retries": "2"}},
        {"deadline": "soon"},
        {"deadline": None},
        {"settle": "never"},
        {"targetState": {"phase": "COMPLETED"}},
        {"targetState": {"metrics": {"a": "0.92"}}},
        {"predicates": [{"name": "a"}]},
        {"jobLease": {"ttl": "90s"}},
        {"compensations": [{"on": "SATISFIED", "action": "x"}]},
    ],
    ids=str,
)
def test_what_both_can_know_is_wrong_is_refused_by_both(spec: dict[str, Any]) -> None:
    assert contract_of_tree(tree(spec))[0] is None
    assert not _validator().is_valid(tree(spec))


def _nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = [schema]
    for child in schema.get("properties", {}).values():
        found += _nodes(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            found += _nodes(schema[key])
    return found


def test_the_crd_is_structural() -> None:
    definition = yaml.safe_load(MADE["statefuljob.crd.yaml"])
    assert definition["metadata"]["name"] == "statefuljobs.finality.dev"
    (version,) = definition["spec"]["versions"]
    nodes = _nodes(version["schema"]["openAPIV3Schema"])
    assert len(nodes) > 40
    for node in nodes:
        assert isinstance(node["type"], str)
        assert not {"$ref", "$defs", "anyOf", "const", "title"} & node.keys()
        assert node.get("additionalProperties") is not False
        assert "additionalProperties" not in node or "properties" not in node


def test_the_crd_knows_the_same_keys_as_the_schema() -> None:
    definition = yaml.safe_load(MADE["statefuljob.crd.yaml"])
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert jsonschema_rs.validator_for(spec).is_valid(yaml.safe_load(sample("nightly.yaml"))["spec"])
    assert "jobLease" in spec["properties"]
