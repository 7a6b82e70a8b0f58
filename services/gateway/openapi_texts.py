"""What the OpenAPI document says of parameters, and of answers that no message has. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from schemas.request import Visibility

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "Last-Event-ID": "the id of the last event received: the stream continues after it",
        "accelerator": "a part of an accelerator's name, in any case",
        "accelerator_memory_bytes": "least memory of an accelerator, in bytes",
        "agent": "an agent's id; several may be named by repeating the parameter",
        "architecture": "the processor's architecture, such as x86_64",
        "batch_size": "only runs of this batch size",
        "device": "the planned device, such as cpu or gpu",
        "download": "`yes`: the browser keeps the answer as a file",
        "evaluation": "an evaluation's id",
        "format": "the format of the answer",
        "framework": "the planned framework: `name`, or `name:constraint`",
        "hardware": "the name of a hardware manifest that the agents satisfy",
        "image": "the agent's container image",
        "interconnect": "how accelerators are connected",
        "kind": "the kind of manifest: model, framework, dataset, scenario, hardware, software",
        "label": "a label of the request, `name=value`; may be repeated",
        "least_accuracy": "leave out results below this accuracy",
        "level": "only runs of this trace level",
        "limit": "how many entries the answer has at most",
        "memory_bytes": "least memory of the machine, in bytes",
        "model": "a model: `name`, or `name:constraint`",
        "most_cost": "leave out results that cost more than this, in dollars a million samples",
        "most_latency_ns": "leave out results whose latency is above this, in nanoseconds",
        "name": "the name of the manifest or file",
        "offset": "how many entries to leave out, for the pages of a list",
        "predictions": "`true`: also evaluations that only answered files",
        "price": "dollars an hour of an agent, `agent=dollars`; may be repeated",
        "run": "a run's name in its evaluation",
        "runnable": "`true`: only models that an agent can open as it is",
        "scenario": "only loads of this scenario",
        "requested_by": "only evaluations that this person requested",
        "search": "words that all occur, as parts and in any case, in any field or label",
        "software": "the name of a software manifest that the agents satisfy",
        "sort": "newest, oldest, model, state, throughput, latency or noise",
        "span": "a span's id in its run",
        "state": "a state, such as running or analyzed",
        "system_label": "a label of the agent, `name=value`; may be repeated",
        "task": "only models of this task",
        "theme": "colours of the drawing: light or dark",
        "waits": "no: if a long run must be prepared first, answer at once with the progress",
        "version": "the manifest's version, or a constraint such as `>=1.2 <2`",
        "width": "width of the drawing in pixels",
    }
)
"""Descriptions of parameters by their names."""
_TEXT = {"type": "string"}
RUNNING: Mapping[str, Any] = {
    "type": "array",
    "description": "for each of the models, in their order, where it runs or what is missing",
    "items": {
        "type": "object",
        "required": ["model", "version", "agents", "missing", "option"],
        "properties": {
            "model": _TEXT,
            "version": _TEXT,
            "agents": {
                "type": "array",
                "items": _TEXT,
                "description": "the agents that can open the model as it is",
            },
            "missing": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["part", "reason"],
                    "properties": {"part": _TEXT, "reason": _TEXT},
                },
                "description": "what agents lack and how to fix it, if none can open the model",
            },
            "option": {
                **_TEXT,
                "description": "what a request must say, such as weights=unverified; '' is nothing",
            },
        },
    },
}
"""The part `running` of an answer with models: where each of them runs."""
PREDICTED_VISIBILITY: Mapping[str, Any] = {
    "enum": get_args(Visibility),
    "default": "private",
    "description": "who sees the files and the answers: everybody, or only who asks and owners",
}
"""The field `visibility` of a request for answers to files."""
DATASET: Mapping[str, Any] = {
    "type": "object",
    "required": [
        "name",
        "manifest",
        "text",
        "reader",
        "samples",
        "classes",
        "class_count",
        "note",
        "size_bytes",
    ],
    "properties": {
        "name": {**_TEXT, "description": "the name of its file and the digest of its content"},
        "manifest": {"type": "object", "description": "for the field `dataset` of a request"},
        "text": {**_TEXT, "description": "the manifest as YAML"},
        "reader": _TEXT,
        "samples": {"type": "integer", "description": "0 where only an agent can tell"},
        "classes": {"type": "array", "items": _TEXT, "description": "the first 1000"},
        "class_count": {"type": "integer", "description": "all classes"},
        "note": {**_TEXT, "description": "what is not a class though it may seem so; mostly empty"},
        "size_bytes": {"type": "integer"},
    },
}
"""The answer to a dataset that was sent."""
