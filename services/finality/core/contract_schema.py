"""The shape of a contract for other people's tools, made from the structs in `contract_model`.

JSON Schema (2020-12) for editors, and a CustomResourceDefinition so that the same documents can be kept in a Kubernetes
API server. Both are checked in under `schemas/`; a test compares them with what this file makes.

A CRD's schema has to be *structural*: no references, no alternatives with null, no `additionalProperties: false` beside
properties (the API server prunes or refuses unknown keys itself), and `metadata` is an object of Kubernetes' own, so a
tenant is the namespace there. Relations between settings (job lease times, unique stages) are beyond both schemas;
`finality contracts check` knows them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from finality.core.contract_model import API_VERSION, KIND, Document

__all__ = ["contract_schemas"]

_ID = "https://finality.dev/schemas/contract.schema.json"
_DROPPED = frozenset({"title", "additionalProperties"})


def contract_schemas() -> dict[str, bytes]:
    """File name under `schemas/` to its bytes."""
    return {
        "contract.schema.json": (json.dumps(_json_schema(), indent=2, ensure_ascii=False) + "\n").encode(),
        "statefuljob.crd.yaml": _crd(),
    }


def _json_schema() -> dict[str, Any]:
    made = msgspec.json.schema(Document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"{KIND} {API_VERSION}",
        "$ref": made["$ref"],
        "$defs": _pruned(made["$defs"]),
    }


def _pruned(value: Any) -> Any:
    """Without null: a key that has no value is left out, never null."""
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    if not isinstance(value, dict):
        return value
    options = value.get("anyOf")
    if options is not None and {"type": "null"} in options:
        (kept,) = [option for option in options if option != {"type": "null"}]
        rest = {key: item for key, item in value.items() if key not in ("anyOf", "default")}
        return _pruned({**kept, **rest})
    return {key: _pruned(item) for key, item in value.items() if item is not None}


def _crd() -> bytes:
    definitions = _pruned(msgspec.json.schema(Document)["$defs"])
    group, version = API_VERSION.split("/")
    plural = f"{KIND.lower()}s"
    schema = {
        "type": "object",
        "description": definitions["Document"]["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _structural(definitions["Spec"], definitions),
        },
    }
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": plural, "singular": KIND.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": "Target", "type": "string", "jsonPath": ".spec.targetState.phase"},
                        {"name": "Deadline", "type": "string", "jsonPath": ".spec.deadline"},
                        {"name": "Settle", "type": "string", "jsonPath": ".spec.settle"},
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    text = yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)
    return b"# Made from services/finality/core/contract_model.py; do not edit.\n" + text.encode()


class _Plain(yaml.SafeDumper):
    """Writes equal objects out instead of referring to them."""

    def ignore_aliases(self, data: Any) -> bool:
        """True: a contract's readers refuse aliases, and ours shall not write any."""
        return True


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema as a CRD may hold it: references written out, every node typed."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _structural(item, definitions) for name, item in value.items()}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            made[key] = _structural(value, definitions)
        elif key == "propertyNames" or key in _DROPPED or (key == "required" and not value):
            continue
        else:
            made[key] = value
    made.setdefault("type", "string" if "enum" in made else "object")
    return made
