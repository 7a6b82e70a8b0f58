"""The OpenAPI document of `/api`, from the messages' own schemas. Pure."""

from typing import Any

from pydantic.json_schema import models_json_schema

from schemas.analysis import Table, Tables
from schemas.message import VERSION, Message
from schemas.request import Accepted, Evaluate, Refused
from schemas.status import Catalog, EvaluationList, EvaluationStatus
from services.gateway.answers import FILES

_MODELS: tuple[type[Message], ...] = (
    Evaluate,
    Accepted,
    Refused,
    EvaluationStatus,
    EvaluationList,
    Tables,
    Table,
    Catalog,
)
_EVALUATION = {"name": "evaluation", "in": "path", "required": True, "schema": {"type": "string"}}
_SUFFIXES = "a name; " + ", ".join(f"`.{suffix}`" for suffix in FILES) + " behind it give files"
_TABLE = {**_EVALUATION, "name": "table", "description": _SUFFIXES}
_LAST_ID = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}


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
    evaluation = "/api/evaluations/{evaluation}"
    return {
        "/api/evaluations": {
            "get": _operation(
                "the newest evaluations", EvaluationList, _of("limit", "model", "state")
            ),
            "post": {
                **_operation("evaluate a model", Accepted, [], code="201"),
                "requestBody": {"required": True, "content": _json(Evaluate)},
            },
        },
        evaluation: {
            "get": _operation("where an evaluation is", EvaluationStatus, [_EVALUATION]),
            "delete": _operation("end it now", None, [_EVALUATION], code="202"),
        },
        f"{evaluation}/events": {
            "get": {
                **_operation("what happens, live", None, [_EVALUATION, _LAST_ID]),
                "description": "Events: state, run (with ids), progress, gap, end.",
            }
        },
        f"{evaluation}/tables": {"get": _operation("its tables", Tables, [_EVALUATION])},
        f"{evaluation}/tables/{{table}}": {
            "get": _with_files(_operation("one table", Table, [_EVALUATION, _TABLE]))
        },
        "/api/catalog": {"get": _operation("what can run where", Catalog, _of("kind", "name"))},
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


def _with_files(operation: dict[str, Any]) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    operation["responses"]["200"]["content"] |= dict.fromkeys(FILES.values(), binary)
    return operation


def _json(model: type[Message]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"application/json": {"schema": reference}}
