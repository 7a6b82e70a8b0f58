"""A request as a command line, a Python program and JSON: all three ask for the same."""

import json
import shlex
from typing import Any

import pytest

from cli.arguments import build_parser
from cli.inputs.request import request_from
from cli.parser import parse
from mlscope.client.equivalents import equivalents_of
from schemas.encoding.codec import parse as parse_message
from schemas.request import Evaluate

REQUESTS: tuple[dict[str, Any], ...] = (
    {"model": "tiny-cnn"},
    {"model": "tiny-cnn:>=1.0 <2.0", "framework": "onnxruntime:>=1.16 <2"},
    {
        "model": "resnet50",
        "scenarios": [
            "online",
            {"name": "poisson", "parameters": {"rate_hz": 20.5, "queries": 100}},
            {"name": "batched", "parameters": {"samples": "streamed", "flag": True}},
        ],
        "batch_sizes": [1, 2, 4],
        "trace_level": "system",
        "levels": ["none", "model", "system"],
        "serialised": True,
        "warmup": 0,
        "outputs": 0,
        "pacing": "local",
        "run_timeout_s": 30.0,
        "wait_s": 5.0,
    },
    {
        "model": "resnet50",
        "agents": ["a1", "a2"],
        "spread": "all",
        "system": {
            "device": "cuda",
            "accelerator": "NVIDIA H200",
            "memory_bytes": 8_000_000_000,
            "labels": {"site": "lab one", "odd": "'\"$"},
            "hardware": "server:>=1.0",
        },
        "dataset": "photos:1.0.0",
        "options": {"threads": 2, "provider": "CPU", "text": "yes", "list": [1, "a"], "none": None},
        "collectors": {"perf": False, "nvml": True, "cupti": {"events": "a+b", "rate": 2}},
        "labels": {"purpose": "release 0.2", "n": "1"},
        "blocks": {"least": 3, "most": 10, "interval": 0.02, "budget_s": 60},
    },
    {"model": "resnet50", "blocks": {}},
)


@pytest.mark.parametrize("fields", REQUESTS)
def test_the_command_line_asks_for_the_same(fields: dict[str, Any]) -> None:
    request = parse_message(Evaluate, fields)
    texts = equivalents_of([request])
    assert texts.missing == ()
    words = shlex.split(texts.command_line)
    assert words[0] == "mlscope"
    assert request_from(parse(build_parser(), words[1:])) == request


@pytest.mark.parametrize("fields", REQUESTS)
def test_json_asks_for_the_same(fields: dict[str, Any]) -> None:
    request = parse_message(Evaluate, fields)
    assert Evaluate.model_validate(json.loads(equivalents_of([request]).json)) == request


class FakeClient:
    """Stands in for `mlscope.Client`: keeps what it is asked."""

    asked: tuple[Evaluate, ...] = ()

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, model: str, **fields: Any) -> "FakeClient":
        """Keep the request."""
        FakeClient.asked += (Evaluate(model=model, **fields),)
        return self

    def wait(self) -> None:
        """Return at once."""

    def table(self, name: str) -> str:
        """Return something to print."""
        return name


@pytest.mark.parametrize("count", [1, 2])
def test_python_asks_for_the_same(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlscope.Client", FakeClient)
    for fields in REQUESTS:
        monkeypatch.setattr(FakeClient, "asked", ())
        requests = tuple(parse_message(Evaluate, fields) for _ in range(count))
        exec(equivalents_of(requests).python, {})
        assert FakeClient.asked == requests


def test_a_key_is_left_out_and_what_the_command_line_lacks_is_named() -> None:
    request = Evaluate(
        model="m",
        key="once",
        variants=("serialised",),
        scenarios=[{"name": "poisson", "parameters": {"at": [1, 2]}}],
        blocks={"of": "result"},
    )
    texts = equivalents_of([request])
    assert "once" not in texts.command_line + texts.python + texts.json
    assert texts.missing == ("variants", "blocks.of", "poisson.at")


def test_a_manifest_is_a_file_for_the_command_line() -> None:
    model = {
        "name": "mine",
        "version": "1.0.0",
        "framework": {"name": "pytorch"},
        "inputs": [],
        "outputs": [],
    }
    texts = equivalents_of([Evaluate(model=model)])
    assert texts.command_line == "mlscope run my-model.yml"
    assert json.loads(texts.json)["model"]["name"] == "mine"
