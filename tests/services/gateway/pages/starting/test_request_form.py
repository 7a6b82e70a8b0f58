"""The form that starts evaluations: its fields as requests, and requests as its fields."""

from typing import Any

import pytest

from schemas.encoding.codec import parse
from schemas.request import Evaluate
from services.gateway.manifest_texts import manifest_fields
from services.gateway.pages.starting.request_form import (
    bytes_of,
    field_of,
    filled,
    size_text,
    sizes_of,
    values_from,
    values_of,
)
from tests.mlscope.client.test_equivalents import REQUESTS

MANIFEST = """
name: mine
version: 1.0.0
framework: {name: onnxruntime}
model: {graph_path: "https://example.org/m.onnx", checksum: "sha256:%s"}
inputs: [{type: image, shape: [-1, 3, 8, 8]}]
outputs: [{type: raw}]
""" % ("0" * 64)


def one(**values: str | list[str]) -> Evaluate:
    """Return the one request of a form."""
    texts = {n: [v] if isinstance(v, str) else v for n, v in values.items()}
    read = filled(texts, manifest_fields, {"online": {"queries": 50}})
    assert read.faults == {}
    (request,) = read.requests
    return request


def faults(**values: str) -> dict[str, str]:
    """Return what is wrong with a form."""
    read = filled(
        {"model": ["m"], **{name: [value] for name, value in values.items()}}, manifest_fields
    )
    assert read.requests == ()
    return dict(read.faults)


def test_empty_fields_are_the_defaults() -> None:
    names = ("framework", "device", "memory_bytes", "warmup", "blocks.least", "options", "further")
    assert one(model="m", **dict.fromkeys(names, "")) == Evaluate(model="m")


def test_each_field_is_one_of_the_request() -> None:
    request = one(
        model="m",
        framework="onnxruntime:>=1.16",
        device="cuda",
        memory_bytes="8 GB",
        accelerator_memory_bytes="16GiB",
        system_labels="site=lab\n\n rack = 2 ",
        agents=["a1", "a2"],
        spread="all",
        scenarios=["online", "poisson:rate_hz=20"],
        batch_sizes="1, 2 4",
        trace_level="framework",
        options="threads=2\nname=yes",
        labels="n=1",
        warmup="0",
        serialised="yes",
        further='{"levels": ["none", "framework"], "system": {"image": "manifest"}}',
        **{
            "online.queries": "9",
            "poisson.seed": "2",
            "blocks.least": "3",
            "blocks.most": "5",
            "collectors.perf": "off",
            "collectors.nvml": "",
        },
    )
    assert request == Evaluate(
        model="m",
        framework="onnxruntime:>=1.16",
        system={
            "device": "cuda",
            "memory_bytes": 8 * 10**9,
            "accelerator_memory_bytes": 16 * 2**30,
            "labels": {"site": "lab", "rack": "2"},
            "image": "manifest",
        },
        agents=("a1", "a2"),
        spread="all",
        scenarios=[
            {"name": "online", "parameters": {"queries": 9}},
            {"name": "poisson", "parameters": {"rate_hz": 20, "seed": 2}},
        ],
        batch_sizes=(1, 2, 4),
        trace_level="framework",
        levels=("none", "framework"),
        options={"threads": 2, "name": True},
        labels={"n": "1"},
        warmup=0,
        serialised=True,
        blocks={"least": 3, "most": 5},
        collectors={"perf": False},
    )


def test_a_parameter_at_its_default_is_left_out() -> None:
    assert one(model="m", scenarios="online", **{"online.queries": "50"}) == Evaluate(model="m")


def test_several_models_and_a_manifest_are_several_requests() -> None:
    read = filled({"model": ["a", "b:1.0", "a"], "manifest": [MANIFEST]}, manifest_fields)
    assert read.faults == {}
    names = [one.model if isinstance(one.model, str) else one.model.name for one in read.requests]
    assert names == ["a", "b:1.0", "mine"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("batch_sizes", "1, two", "'1, two' is not a list of integers such as 1, 2, 4"),
        ("batch_sizes", "1, 1", "listed twice"),
        ("memory_bytes", "much", "8 GB"),
        ("warmup", "some", "a number"),
        ("warmup", "-1", "greater"),
        ("blocks.budget_s", "x", "a number"),
        ("options", "threads", "key=value"),
        ("options", "x=[&a [1, 1], [*a, *a]]", "without aliases"),
        ("further", "[1]", "fields of a request"),
        ("further", '{"modle": 1}', "modle"),
        ("trace_level", "deep", "unknown trace level"),
        ("spread", "some", "one"),
        ("visibility", "secret", "private"),
        ("manifest", "name: x\n  y", "line:"),
        ("dataset_manifest", "kind: model", "line"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(field: str, value: str, expected: str) -> None:
    found = faults(**{field: value})
    assert list(found) == [field]
    assert expected in found[field]


def test_a_further_field_shows_to_nobody_what_its_own_field_keeps_private() -> None:
    typed = {"further": '{"visibility": "cluster"}', "visibility": "private"}
    assert list(faults(**typed)) == ["visibility"]
    assert one(model="m", further='{"visibility": "private"}').visibility == "private"


def test_a_form_without_a_model_says_so() -> None:
    assert filled({}, manifest_fields).faults == {"model": "choose a model"}


@pytest.mark.parametrize("fields", REQUESTS)
def test_a_request_as_fields_is_the_same_request(fields: dict[str, Any]) -> None:
    request = parse(Evaluate, fields)
    if request.blocks is not None and request.blocks == type(request.blocks)():
        pytest.skip("an empty stop rule has no field")
    assert filled(values_of(request), manifest_fields).requests == (request,)


def test_an_inline_manifest_is_text_to_edit() -> None:
    request = one(manifest=MANIFEST)
    values = values_of(request)
    assert "model" not in values
    assert filled(values, manifest_fields).requests == (request,)


def test_paths_of_refusals_lead_to_fields() -> None:
    scenarios = [{"name": "online"}, {"name": "poisson"}]
    assert field_of("scenarios.1.parameters.rate_hz", scenarios) == "poisson.rate_hz"
    assert field_of("scenarios.0.name", scenarios) == "scenarios"
    assert field_of("system.memory_bytes") == "memory_bytes"
    assert field_of("system.labels.a") == "system_labels"
    assert field_of("model.inputs.0.type") == "manifest"
    assert field_of("blocks.most") == "blocks.most"
    assert field_of("batch_sizes.1") == "batch_sizes"
    assert field_of("levels") == "further"
    assert field_of("whatever") == ""


def test_sizes() -> None:
    for size_bytes in (8 * 10**9, 16 * 2**30, 123, 1536 * 2**20):
        assert bytes_of(size_text(size_bytes)) == size_bytes
    assert sizes_of("1,2;4 8") == [1, 2, 4, 8]


def test_lists_in_an_address_may_have_commas() -> None:
    pairs = [("model", "a,b"), ("model", "c"), ("labels", "x=1,2")]
    assert values_from(pairs) == {"model": ["a", "b", "c"], "labels": ["x=1,2"]}
