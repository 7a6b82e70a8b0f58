"""The OpenAPI document: each path the gateway has is described, and nothing else is."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from starlette.routing import Mount, Route

from mlscope.bus.bus import Bus
from services.gateway.live.feeds import Feeds
from services.gateway.openapi import document
from services.gateway.responses import finite
from services.gateway.routes import build_app

_UNDESCRIBED = {("/api/openapi.json", "get")}


def _described() -> set[tuple[str, str]]:
    return {(path, method) for path, methods in document()["paths"].items() for method in methods}


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(each) for each in value))
    return set()


async def test_every_route_is_described_and_every_description_is_a_route(bus: Bus) -> None:
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=1)
    (api,) = [each for each in app.routes if isinstance(each, Mount) and each.path == "/api"]
    routes = {
        (f"/api{route.path.replace(':path', '')}", method.lower())
        for route in api.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert routes - _UNDESCRIBED == _described()


def test_what_it_refers_to_is_in_it() -> None:
    told = document()
    known = {f"#/components/schemas/{name}" for name in told["components"]["schemas"]}
    assert _references(told) <= known


@pytest.mark.parametrize("name", sorted(document()["components"]["schemas"]))
def test_its_schemas_are_schemas(name: str) -> None:
    told = document()
    jsonschema.Draft202012Validator.check_schema(told["components"]["schemas"][name])


def test_names_in_a_path_are_its_parameters() -> None:
    for path, methods in document()["paths"].items():
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for operation in methods.values():
            found = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert found == named, path


def test_every_operation_says_how_it_refuses() -> None:
    for path, method in _described():
        refused = document()["paths"][path][method]["responses"]["default"]
        reference = refused["content"]["application/json"]["schema"]["$ref"]
        assert reference == "#/components/schemas/Refused"


def test_a_validator_of_openapi_accepts_it() -> None:
    validator = pytest.importorskip(
        "openapi_spec_validator", reason="openapi-spec-validator is in the extra lint"
    )
    validator.validate(json.loads(json.dumps(finite(document()))))


def test_operations_have_ids_of_their_own_and_parameters_are_described() -> None:
    operations = [
        operation for methods in document()["paths"].values() for operation in methods.values()
    ]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    assert "get_evaluations_evaluation_tables_table" in ids
    parameters = [each for operation in operations for each in operation["parameters"]]
    assert all(each["description"] for each in parameters)


def test_the_requests_of_the_documentation_fit_their_schema() -> None:
    schema = {"$ref": "#/components/schemas/Evaluate", "components": document()["components"]}
    for request in (
        {"model": "efficientnet-lite0", "scenarios": ["online"]},
        {"model": "m", "scenarios": "online", "framework": "onnxruntime:>=1.16"},
        {"model": "m", "scenarios": [{"name": "poisson", "parameters": {"rate_hz": 5}}]},
    ):
        jsonschema.validate(request, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"model": "m", "scenarios": []}, schema)
    assert (
        document()["components"]["schemas"]["Evaluate"]["properties"]["trace_level"]["default"]
        == "model"
    )
