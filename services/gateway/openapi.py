"""The OpenAPI document of `/api`, made from the schemas of the messages. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from mlscope.exchange.formats import SPAN_FORMATS
from schemas.analysis import Compared, Predictions, Table, Tables
from schemas.exploration import Explored
from schemas.export.contract_schema import ContractSchema
from schemas.message import VERSION, Message
from schemas.price import PriceKept
from schemas.publishing import CatalogChanged, PublishManifest
from schemas.request import (
    Accepted,
    Evaluate,
    Match,
    Refused,
)
from schemas.status import Catalog, EvaluationList, EvaluationStatus, Matched
from schemas.trace import SpanDetails, TraceOverview
from schemas.values.identity import ALLOWED
from services.gateway.openapi_texts import DATASET, DESCRIPTIONS, PREDICTED_VISIBILITY, RUNNING
from services.gateway.pages.comparing.exploring import CONSTRAINTS
from services.gateway.parameters.query_string import FIGURES, QUERY
from services.gateway.parameters.trace_window import WINDOW
from services.gateway.table_files import FILES

_MODELS: tuple[type[Message], ...] = (
    Evaluate,
    Match,
    Matched,
    Accepted,
    Refused,
    EvaluationStatus,
    EvaluationList,
    Tables,
    Table,
    Compared,
    Explored,
    Catalog,
    PublishManifest,
    CatalogChanged,
    PriceKept,
    TraceOverview,
    SpanDetails,
    Predictions,
)
_TABLE_HELP = (
    "a name; the suffixes " + ", ".join(f"`.{suffix}`" for suffix in FILES) + " give files"
)
_CHART_HELP = "a table's name or number, and .svg, .png, .pdf, or .json for Vega-Lite"
_CHART = ("run", "batch_size", "level", "agent", "theme", "width")
_SAMPLE = {
    "type": "object",
    "properties": {
        "address": {"type": "string"},
        "sha256": {"type": "string"},
        "dataset": {"type": "string"},
        "sample": {"type": "integer"},
    },
}
"""A sample to predict: at an address, or the number of one of a dataset."""
_TOKENS = ("evaluation", "run")
_LAST_ID = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}
_LAST_DIGEST = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}


def document() -> dict[str, Any]:
    """Return the document (OpenAPI 3.1)."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS],
        schema_generator=ContractSchema,
        ref_template="#/components/schemas/{model}",
    )
    paths = {**_evaluation_paths(), **_trace_paths(), **_catalog_paths()}
    for path, operations in paths.items():
        path_parts = re.findall(r"[a-z]+", path.removeprefix("/api/"))
        for method, operation in operations.items():
            operation["operationId"] = "_".join((method, *path_parts))
            for parameter in operation["parameters"]:
                if "description" not in parameter:
                    parameter["description"] = DESCRIPTIONS[parameter["name"]]
    return {
        "openapi": "3.1.0",
        "info": {"title": "mlscope", "version": f"{VERSION}"},
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _evaluation_paths() -> dict[str, Any]:
    address, evaluation = "/api/evaluations/{evaluation}", _path_parameter("evaluation")
    table = {**_path_parameter("table"), "description": _TABLE_HELP}
    events = _operation("live events", None, [evaluation, _LAST_ID])
    events["description"] = "Events: state, run (with ids), progress, gap, end."
    all_events = _operation("live events of all evaluations", None, [_LAST_DIGEST])
    all_events["description"] = (
        "Events: changed (its id is a digest of what an overview shows), progress (columns with an "
        "entry for each run), trouble."
    )
    table_operation = _operation("a table", Table, [evaluation, table, *_query("format")])
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = table_operation["responses"]["200"]["content"]
    content |= dict.fromkeys(FILES.values(), binary)
    chart = {**_path_parameter("chart"), "description": _CHART_HELP}
    chart_operation = _operation("a table's chart", None, [evaluation, chart, *_query(*_CHART)])
    return {
        "/api/evaluations": {
            "get": _operation("the newest matching evaluations", EvaluationList, _query(*QUERY)),
            "post": _creating("evaluate a model", Evaluate, Accepted),
        },
        "/api/events": {"get": all_events},
        "/api/match": {
            "post": _asking("agents that could run an evaluation, and its runs", Match, Matched)
        },
        "/api/predict": {
            "post": _stating(
                "what a model answers to a few files (base64 by name) or samples; nothing is timed",
                {
                    "type": "object",
                    "required": ["model"],
                    "properties": {
                        "model": {"type": "string"},
                        "files": {"type": "object", "additionalProperties": {"type": "string"}},
                        "samples": {"type": "object", "additionalProperties": _SAMPLE},
                        "framework": {"type": "string"},
                        "system": {"type": "object"},
                        "agents": {"type": "array", "items": {"type": "string"}},
                        "options": {"type": "object"},
                        "visibility": PREDICTED_VISIBILITY,
                    },
                },
            )
        },
        "/api/equivalents": {
            "post": _stating(
                "the request as a command line, a Python program and JSON",
                {"$ref": "#/components/schemas/Evaluate"},
            )
        },
        address: {
            "get": _operation("status of an evaluation", EvaluationStatus, [evaluation]),
            "delete": _operation("cancel an evaluation", None, [evaluation], code="202"),
        },
        f"{address}/events": {"get": events},
        f"{address}/report": {
            "get": _file_operation(
                "an evaluation's report as one HTML document",
                "text/html",
                evaluation,
                *_query("download"),
            )
        },
        f"{address}/report.zip": {
            "get": _file_operation(
                "an evaluation's report with all tables and charts", "application/zip", evaluation
            )
        },
        f"{address}/analyses": {"get": _operation("tables without rows", None, [evaluation])},
        f"{address}/charts/{{chart}}": {"get": chart_operation},
        f"{address}/tables": {"get": _operation("all tables", Tables, [evaluation])},
        f"{address}/tables/{{table}}": {"get": table_operation},
    }


def _trace_paths() -> dict[str, Any]:
    address = "/api/evaluations/{evaluation}"
    run_address = f"{address}/runs/{{run}}"
    evaluation, run = _path_parameter("evaluation"), _path_parameter("run")
    binary = {"schema": {"type": "string", "format": "binary"}}
    spans = _operation("spans of a window, or tiles of them", None, [evaluation, run])
    spans["parameters"] += [
        {**_path_parameter(name), "in": "query", "required": False, "description": text}
        for name, text in WINDOW.items()
    ]
    spans["responses"]["200"]["content"] = {
        "application/vnd.apache.arrow.stream": binary,
        "application/json": {"schema": {"type": "object"}},
    }
    form = {**_path_parameter("format"), "schema": {"type": "string", "enum": [*SPAN_FORMATS]}}
    exported = _operation("a run's spans as a file", None, [evaluation, run, form])
    media_types = dict.fromkeys(kind.media_type for kind in SPAN_FORMATS.values())
    exported["responses"]["200"]["content"] = dict.fromkeys(media_types, binary)
    overview = "lanes, range and gaps of a run"
    span = [evaluation, run, _path_parameter("span")]
    waits = _query("waits")
    answers = _operation(
        "the model's answers", Predictions, [evaluation, *_query("run", "offset", "limit")]
    )
    return {
        path: {"get": operation}
        for path, operation in {
            f"{address}/trace": _operation(
                f"{overview}: the run with the deepest trace", TraceOverview, [evaluation, *waits]
            ),
            f"{run_address}/trace": _operation(overview, TraceOverview, [evaluation, run, *waits]),
            f"{run_address}/spans": spans,
            f"{run_address}/spans/{{span}}": _operation("one span", SpanDetails, span),
            f"{run_address}/series": _operation("sampled counters", None, [evaluation, run]),
            f"{run_address}/exports/{{format}}": exported,
            f"{address}/exports/flow": _operation(
                "an evaluation's facts as JSON lines", None, [evaluation]
            ),
            f"{address}/exports/log": _operation(
                "an evaluation's reference log", None, [evaluation]
            ),
            f"{address}/predictions": answers,
        }.items()
    }


def _catalog_paths() -> dict[str, Any]:
    manifest = [_path_parameter(name) for name in ("kind", "name", "version")]
    catalog_query = _query("kind", "name", "version")
    return {
        "/api/catalog": {"get": _operation("agents and manifests", Catalog, catalog_query)},
        "/api/compare": {
            "get": _operation("figures of several evaluations", Compared, _query(*FIGURES))
        },
        "/api/compare/report": {
            "get": _file_operation(
                "a comparison as one HTML document", "text/html", *_query(*FIGURES, "download")
            )
        },
        "/api/compare/tables/{table}": {
            "get": _operation(
                "one table of a comparison, as JSON or a file",
                Table,
                [
                    {**_path_parameter("table"), "description": _TABLE_HELP},
                    *_query(*FIGURES, "format"),
                ],
            )
        },
        **_exploration_paths(),
        **_price_paths(),
        "/api/status": {"get": _operation("services, and how far each is behind", None, [])},
        "/api/models": {"get": _listing_models("all models", _query("runnable"))},
        "/api/models/{name}": {
            "get": _listing_models("every version of a model", [_path_parameter("name")])
        },
        "/api/manifests": {
            "post": _creating("publish a manifest", PublishManifest, CatalogChanged)
        },
        "/api/files": {"post": _taking_file("store a file for a day, for a model in a request")},
        "/api/datasets": {
            "post": _taking_file(
                "store a dataset for a day (.zip, .tar, .npy, .npz) and describe it for a request",
                DATASET,
            )
        },
        "/api/manifests/check": {
            "post": _stating(
                "the faults of a manifest's text; nothing is published",
                {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": {"type": "string"},
                        "kind": {"type": "string"},
                        "files": {"type": "object", "additionalProperties": {"type": "object"}},
                    },
                },
            )
        },
        "/api/manifests/{kind}/{name}/{version}": {
            "delete": _operation("remove a manifest from the catalog", CatalogChanged, manifest)
        },
    }


def _listing_models(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an operation that answers with models, and where each runs."""
    operation = _operation(summary, Catalog, parameters)
    content = operation["responses"]["200"]["content"]["application/json"]
    running = {"type": "object", "required": ["running"], "properties": {"running": RUNNING}}
    content["schema"] = {"allOf": [content["schema"], running]}
    return operation


def _price_paths() -> dict[str, Any]:
    agent = {**_path_parameter("agent"), "description": "an agent's id"}
    keeping = _operation("set the price of an hour on an agent", PriceKept, [agent])
    body = {
        "type": "object",
        "required": ["dollars_per_hour"],
        "properties": {"dollars_per_hour": {"type": "number", "exclusiveMinimum": 0}},
    }
    content = {"application/json": {"schema": body}}
    return {
        "/api/prices": {"get": _operation("prices by agent, and who set them", Catalog, [])},
        "/api/prices/{agent}": {
            "put": {**keeping, "requestBody": {"required": True, "content": content}},
            "delete": _operation("remove the price of an agent", PriceKept, [agent]),
        },
    }


def _taking_file(summary: str, answer: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an operation that takes a file; `answer` is the schema of its answer."""
    operation = _operation(summary, None, _query("name"), code="201")
    if answer is not None:
        operation["responses"]["201"]["content"] = {"application/json": {"schema": answer}}
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return operation | {"requestBody": {"required": True, "content": content}}


def _exploration_paths() -> dict[str, Any]:
    terms = _query(*CONSTRAINTS, "price")
    table = {**_path_parameter("table"), "description": _TABLE_HELP}
    chart = {**_path_parameter("chart"), "description": _CHART_HELP}
    return {
        path: {"get": operation}
        for path, operation in {
            "/api/explore": _operation("explorations of many evaluations", Explored, terms),
            "/api/explore/tables/{table}": _operation(
                "one exploration, as JSON or a file", Table, [table, *terms, *_query("format")]
            ),
            "/api/explore/charts/{chart}": _operation(
                "the chart of an exploration", None, [chart, *terms, *_query("theme", "width")]
            ),
        }.items()
    }


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string"} | ({"pattern": ALLOWED} if name in _TOKENS else {})
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]


def _operation(
    summary: str, answer: type[Message] | None, parameters: list[dict[str, Any]], code: str = "200"
) -> dict[str, Any]:
    """Return an operation that answers with `code` and, if any, a message of type `answer`."""
    success: dict[str, Any] = {"description": summary}
    if answer is not None:
        success["content"] = _json(answer)
    refused = {"description": "refused, with the reason", "content": _json(Refused)}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {code: success, "default": refused},
    }


def _asking(summary: str, body: type[Message], answer: type[Message]) -> dict[str, Any]:
    """Return an operation with a body that changes nothing."""
    operation = _operation(summary, answer, [])
    return {**operation, "requestBody": {"required": True, "content": _json(body)}}


def _file_operation(summary: str, media_type: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    """Return an operation with these parameters that answers a file of a media type."""
    operation = _operation(summary, None, list(parameters))
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    operation["responses"]["200"]["content"] = content
    return operation


def _stating(summary: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an operation with a JSON `body` whose answer is an object of its own."""
    operation = _operation(summary, None, [])
    content = {"application/json": {"schema": {"type": "object"}}}
    operation["responses"]["200"]["content"] = content
    request = {"required": True, "content": {"application/json": {"schema": body}}}
    return {**operation, "requestBody": request}


def _creating(summary: str, body: type[Message], answer: type[Message]) -> dict[str, Any]:
    """Return an operation with a body; it answers 201, or 200 when it is repeated."""
    operation = _operation(summary, answer, [], code="201")
    created = operation["responses"]["201"]
    operation["responses"]["200"] = {**created, "description": "nothing changed"}
    return {**operation, "requestBody": {"required": True, "content": _json(body)}}


def _json(model: type[Message]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"application/json": {"schema": reference}}
