"""The OpenAPI document of `/api`, from the messages' own schemas. Pure."""

from typing import Any

from pydantic.json_schema import models_json_schema

from schemas.analysis import Compared, Table, Tables
from schemas.message import VERSION, Message
from schemas.request import (
    Accepted,
    CatalogChanged,
    Evaluate,
    PublishManifest,
    Refused,
)
from schemas.status import Catalog, EvaluationList, EvaluationStatus
from services.gateway.answers import FILES
from services.gateway.constraints import FIGURES, QUERY

_MODELS: tuple[type[Message], ...] = (
    Evaluate,
    Accepted,
    Refused,
    EvaluationStatus,
    EvaluationList,
    Tables,
    Table,
    Compared,
    Catalog,
    PublishManifest,
    CatalogChanged,
)
_SUFFIXES = "a name; " + ", ".join(f"`.{suffix}`" for suffix in FILES) + " behind it give files"
_LAST_ID = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}


def _in_path(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **more}


def document() -> dict[str, Any]:
    """Return the document (OpenAPI 3.1)."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "mlscope", "version": f"{VERSION}"},
        "security": [{}, {"bearer": []}],
        "paths": _paths(),
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> dict[str, Any]:
    return {**_evaluation_paths(), **_catalog_paths()}


def _evaluation_paths() -> dict[str, Any]:
    place, evaluation = "/api/evaluations/{evaluation}", _in_path("evaluation")
    table = _in_path("table", description=_SUFFIXES)
    return {
        "/api/evaluations": {
            "get": _operation("the newest evaluations that fit", EvaluationList, _of(*QUERY)),
            "post": _taking(Evaluate, _operation("evaluate a model", Accepted, [], code="201")),
        },
        place: {
            "get": _operation("where an evaluation is", EvaluationStatus, [evaluation]),
            "delete": _operation("end it now", None, [evaluation], code="202"),
        },
        f"{place}/events": {
            "get": {
                **_operation("what happens, live", None, [evaluation, _LAST_ID]),
                "description": "Events: state, run (with ids), progress, gap, end.",
            }
        },
        f"{place}/analyses": {"get": _operation("what its tables say", None, [evaluation])},
        f"{place}/tables": {"get": _operation("its tables", Tables, [evaluation])},
        f"{place}/tables/{{table}}": {
            "get": _with_files(_operation("one table", Table, [evaluation, table, *_of("format")]))
        },
    }


def _catalog_paths() -> dict[str, Any]:
    manifest = [_in_path(name) for name in ("kind", "name", "version")]
    publishing = _operation("put a manifest into the catalog", CatalogChanged, [], code="201")
    return {
        "/api/catalog": {
            "get": _operation("what can run where", Catalog, _of("kind", "name", "version"))
        },
        "/api/compare": {
            "get": _operation("figures of evaluations side by side", Compared, _of(*FIGURES))
        },
        "/api/models": {"get": _operation("the models there are", Catalog, [])},
        "/api/models/{name}": {
            "get": _operation("every version of a model", Catalog, [_in_path("name")])
        },
        "/api/manifests": {"post": _taking(PublishManifest, publishing)},
        "/api/manifests/{kind}/{name}/{version}": {
            "delete": _operation("take a manifest out of the catalog", CatalogChanged, manifest)
        },
    }


def _of(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]


def _operation(
    summary: str, answer: type[Message] | None, parameters: list[dict[str, Any]], code: str = "200"
) -> dict[str, Any]:
    good: dict[str, Any] = {"description": summary}
    if answer is not None:
        good["content"] = _json(answer)
    refused = {"description": "refused, and why", "content": _json(Refused)}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {code: good, "default": refused},
    }


def _taking(body: type[Message], operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation that takes a body; the same again is answered 200."""
    good = operation["responses"]["201"]
    operation["responses"]["200"] = {**good, "description": "as before: nothing changed"}
    return {**operation, "requestBody": {"required": True, "content": _json(body)}}


def _with_files(operation: dict[str, Any]) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    operation["responses"]["200"]["content"] |= dict.fromkeys(FILES.values(), binary)
    return operation


def _json(model: type[Message]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"application/json": {"schema": reference}}
