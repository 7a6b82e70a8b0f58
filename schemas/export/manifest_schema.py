"""JSON Schema of manifests as people write them, for editors: `schemas/v1/manifest.json`.

It allows what reading allows in addition to the contract: a step by its name or as the papers'
map, several frameworks instead of a first one, and the papers' placeholders. Unknown fields are
errors. In a YAML file: `# yaml-language-server: $schema=…/schemas/v1/manifest.json`. A file without
a kind is a model. Pure.
"""

from typing import Any

from pydantic import TypeAdapter

from schemas.manifest import Manifest
from schemas.manifest.operators import OPERATORS

_MODEL = "ModelManifest"
_ALIASES = {"checksum": "graph_checksum"}
"""Second names of fields in a file."""

Schema = dict[str, Any]


def manifest_schema() -> Schema:
    """Return the JSON Schema of a manifest's file, whatever its kind."""
    schema: Schema = TypeAdapter(Manifest).json_schema(by_alias=False)
    definitions = schema["$defs"]
    for definition in definitions.values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    definitions["Step"] = {
        "description": "An operator and its parameters: `decode`, or a map whose first key is it.",
        "anyOf": [
            {"enum": list(OPERATORS)},
            *({"required": [operator], "type": "object"} for operator in OPERATORS),
            definitions["Step"],
        ],
    }
    definitions["Assets"]["properties"] |= {
        alias: definitions["Assets"]["properties"][name] for name, alias in _ALIASES.items()
    }
    _allow_file_forms(definitions[_MODEL])
    conditions = []
    for name, definition in definitions.items():
        if not name.endswith("Manifest"):
            continue
        # With a condition for each kind, editors report the faults of that kind alone.
        kind = definition["properties"]["kind"]["const"]
        condition: Schema = {"properties": {"kind": {"const": kind}}}
        if name != _MODEL:
            condition["required"] = ["kind"]
        conditions.append({"if": condition, "then": {"$ref": f"#/$defs/{name}"}})
    return {
        "title": "Manifest",
        "description": "A model, framework, dataset, scenario, machine or its software, as data.",
        "type": "object",
        "allOf": conditions,
        "$defs": definitions,
    }


def _allow_file_forms(model: Schema) -> None:
    """Allow `frameworks` instead of `framework`, and the papers' placeholder for code."""
    model["required"] = [name for name in model["required"] if name != "framework"]
    model["anyOf"] = [{"required": ["framework"]}, {"required": ["frameworks"]}]
    for name, field in model["properties"].items():
        if name.endswith(("preprocess", "postprocess")):
            field.pop("type", None)
            field["anyOf"] = [{"type": "string"}, {"const": [["code"]]}]
