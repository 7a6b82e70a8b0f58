"""The contract as files for other languages: a JSON Schema for each message, and AsyncAPI.

Pure: `documents()` returns texts by file name; `mlscope schemas --write` writes `schemas/v1`.
"""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from schemas.analysis import Compared, Flow, Predictions, Spans, Tables
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.exploration import Explored
from schemas.export.contract_schema import ContractSchema
from schemas.export.manifest_schema import manifest_schema
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import VERSION, Envelope, Fact, Message
from schemas.plan import OfflinePlan, WorkAnswer, WorkOrder
from schemas.price import PriceKept
from schemas.publishing import CatalogChanged
from schemas.reference import ReferenceLog
from schemas.request import (
    Accepted,
    Refused,
)
from schemas.status import Catalog, EvaluationList, EvaluationStatus, Matched
from schemas.subjects import ROOT, agent_command, command_subject, subject_of
from schemas.trace import SpanDetails, TraceOverview, TraceWindow, Watching

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI_FILE = "asyncapi.yaml"
MANIFEST_FILE = "manifest.json"

ANSWERS: Mapping[str, type[Message]] = {
    "evaluate": Accepted,
    "match": Matched,
    "cancel": Accepted,
    "evaluations": EvaluationList,
    "evaluation": EvaluationStatus,
    "catalog": Catalog,
    "publish": CatalogChanged,
    "withdraw": CatalogChanged,
    "price": PriceKept,
    "tables": Tables,
    "predictions": Predictions,
    "compare": Compared,
    "explore": Explored,
    "spans": Spans,
    "flow": Flow,
    "trace": TraceOverview,
    "trace_window": TraceWindow,
    "trace_span": SpanDetails,
    "watch": Watching,
}
"""Answer to each command, unless it is refused."""

_ANSWER_KINDS: tuple[type[Message], ...] = (*dict.fromkeys(ANSWERS.values()), WorkAnswer, Refused)


def documents() -> dict[str, str]:
    """Return the files of the contract: name to text."""
    bare: dict[str, type[Message]] = {
        "envelope": Envelope,
        "plan": OfflinePlan,
        "start": WorkOrder,
        "reference": ReferenceLog,
        **COMMANDS,
        **{_answer_name(kind): kind for kind in _ANSWER_KINDS},
    }
    schemas = {
        name: kind.model_json_schema(by_alias=True, schema_generator=ContractSchema)
        for name, kind in bare.items()
    }
    schemas["manifest"] = manifest_schema()
    schemas |= {name: fact_schema(fact) for name, fact in FACTS.items()}
    texts = {
        f"{name}.json": json.dumps(
            {"$schema": DIALECT, "$id": f"{ROOT}.{name}", **schema}, indent=2, ensure_ascii=False
        )
        + "\n"
        for name, schema in schemas.items()
    }
    texts[ASYNCAPI_FILE] = yaml.safe_dump(
        asyncapi(), sort_keys=False, allow_unicode=True, width=100
    )
    return dict(sorted(texts.items()))


def _answer_name(kind: type[Message]) -> str:
    return f"answer.{kind.__name__.lower()}"


def fact_schema(fact: type[Fact]) -> dict[str, Any]:
    """Return the schema of a fact as it is sent: the envelope with the fact's own `data`."""
    envelope = Envelope.model_json_schema(by_alias=True, schema_generator=ContractSchema)
    body = fact.model_json_schema(by_alias=True, schema_generator=ContractSchema)
    definitions = body.pop("$defs", {})
    properties = dict(envelope["properties"])
    properties["schema"] = {"const": fact.schema_name()}
    properties["version"] = {"const": VERSION}
    properties["data"] = {"anyOf": [body, {"maxProperties": 0, "description": "see `payload`"}]}
    return {
        "title": fact.__name__,
        "description": _description(fact),
        "type": "object",
        "properties": properties,
        "required": ["schema", "version", "id", "time_ns", "data"],
        **({"$defs": definitions} if definitions else {}),
    }


def asyncapi() -> dict[str, Any]:
    """Return the AsyncAPI 3.0 document: a channel for each subject, an operation for each use."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for name, fact in FACTS.items():
        channels[name] = _channel(address_of(fact), _description(fact), name)
        operations[name] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{name}"},
            "summary": _description(fact).partition("\n")[0],
            "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
        }
    for verb, command in COMMANDS.items():
        request = _channel(command_subject(command), _description(command), verb)
        _add_command(verb, request, ANSWERS[verb], channels, operations)
    start = _channel(agent_command("{agent}", "start"), _description(WorkOrder), "start")
    _add_command("start", start, WorkAnswer, channels, operations)
    sent: dict[str, type[Message]] = {**FACTS, **COMMANDS, "start": WorkOrder}
    sent |= {_answer_name(kind): kind for kind in _ANSWER_KINDS}
    messages = {
        name: {
            "name": name,
            "title": kind.__name__,
            "description": _description(kind),
            "payload": {"$ref": f"./{name}.json"},
        }
        for name, kind in sent.items()
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "mlscope",
            "version": f"{VERSION}.0.0",
            "description": "Benchmarks deep-learning inference over NATS. Facts are msgpack maps "
            "in JetStream; commands are core-NATS requests, JSON or msgpack.",
        },
        "defaultContentType": "application/msgpack",
        "servers": {"nats": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def _add_command(
    verb: str,
    request: dict[str, Any],
    answer: type[Message],
    channels: dict[str, Any],
    operations: dict[str, Any],
) -> None:
    """Add the channels of a command's request and reply, and the operation that uses them."""
    channel, reply = f"request.{verb}", f"reply.{verb}"
    answers = dict.fromkeys((_answer_name(answer), _answer_name(Refused)))
    channels[channel] = request
    channels[reply] = {
        "address": None,
        "description": f"The inbox of the sender of `{verb}`.",
        "messages": {name: _component(name) for name in answers},
    }
    operations[channel] = {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{verb}"}],
        "reply": {
            "channel": {"$ref": f"#/channels/{reply}"},
            "messages": [{"$ref": f"#/channels/{reply}/messages/{name}"} for name in answers],
        },
    }


def address_of(fact: type[Fact]) -> str:
    """Return a fact's subject with its parameters in braces."""
    if fact in (ManifestPublished, ManifestWithdrawn):
        return f"{ROOT}.{fact.entity}.{{manifest}}.{fact.happened}"
    names = {"evaluation", "run", "agent", "service"} & set(fact.model_fields)
    braced: dict[str, Any] = {name: f"{{{name}}}" for name in names}
    return subject_of(fact.model_construct(**braced))


def _channel(address: str, description: str, message: str) -> dict[str, Any]:
    parameters = [token[1:-1] for token in address.split(".") if token.startswith("{")]
    return {
        "address": address,
        "description": description,
        **({"parameters": {name: {} for name in parameters}} if parameters else {}),
        "messages": {message: _component(message)},
    }


def _component(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/messages/{name}"}


def _description(kind: type[Message]) -> str:
    return "\n".join(line.strip() for line in (kind.__doc__ or "").strip().splitlines())
