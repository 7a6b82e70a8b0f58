"""The schema of manifests as people write them, for editors: `schemas/v1/manifest.json`.

It allows what reading allows beside the contract itself: a step by its name or as the papers' map,
several frameworks instead of a first one, the papers' placeholders; and no field that does not
exist. In a YAML file: `# yaml-language-server: $schema=…/schemas/v1/manifest.json`. A file that
does not say its kind is a model.
"""

from typing import Any

from pydantic import TypeAdapter

from schemas.manifest import Manifest
from schemas.operators import OPERATORS

_MODEL = "ModelManifest"
_ELSEWHERE = {"checksum": "graph_checksum"}
"""Fields that have a second name in a file."""

Schema = dict[str, Any]


def manifest_schema() -> Schema:
    """Return the JSON Schema of a manifest's file, whatever its kind."""
    schema: Schema = TypeAdapter(Manifest).json_schema(by_alias=False)
    kinds = schema["$defs"]
    for definition in kinds.values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    kinds["Step"] = _step(kinds["Step"])
    kinds["Assets"]["properties"] |= {
        other: kinds["Assets"]["properties"][name] for name, other in _ELSEWHERE.items()
    }
    _loosen(kinds[_MODEL])
    named = {kind["properties"]["kind"]["const"]: name for name, kind in _kinds(kinds)}
    return {
        "title": "Manifest",
        "description": "A model, framework, dataset, scenario, machine or its software, as data.",
        "type": "object",
        "allOf": [_if_kind(kind, name) for kind, name in named.items()],
        "$defs": kinds,
    }


def _kinds(definitions: Schema) -> list[tuple[str, Schema]]:
    return [(name, each) for name, each in definitions.items() if name.endswith("Manifest")]


def _if_kind(kind: str, name: str) -> Schema:
    """Return that a file of a kind is as the kind says; editors tell faults of that one alone."""
    told: Schema = {"properties": {"kind": {"const": kind}}}
    if name != _MODEL:
        told["required"] = ["kind"]
    return {"if": told, "then": {"$ref": f"#/$defs/{name}"}}


def _step(plain: Schema) -> Schema:
    """Return a step as its name, as the papers' map, or as the contract has it."""
    return {
        "description": "An operator and its parameters: `decode`, or a map whose first key is it.",
        "anyOf": [
            {"enum": list(OPERATORS)},
            *({"required": [each], "type": "object"} for each in OPERATORS),
            plain,
        ],
    }


def _loosen(model: Schema) -> None:
    """Let a model leave out `framework` where it has `frameworks`, and code as the papers do."""
    model["required"] = [each for each in model["required"] if each != "framework"]
    model["anyOf"] = [{"required": ["framework"]}, {"required": ["frameworks"]}]
    for name, field in model["properties"].items():
        if name.endswith(("preprocess", "postprocess")):
            field.pop("type", None)
            field["anyOf"] = [{"type": "string"}, {"const": [["code"]]}]
