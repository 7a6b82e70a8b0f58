"""ORT's profile, line by line."""

import json
from typing import Any

import pytest

from services.agent.predictors.onnx_graph import Graph, Node
from services.agent.predictors.onnxruntime_layers import (
    LayerNames,
    readable_name,
    runs_of,
)


def event(name: str, ts: int, cat: str = "Node", **args: object) -> str:
    return json.dumps({"cat": cat, "tid": 3, "dur": 5, "ts": ts, "name": name, "args": args}) + ","


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("conv1_kernel_time", "conv1"),
        ("conv_stem/relu6_nchwc_kernel_time", "conv_stem/relu6"),
        ("ReorderOutput_token_101", "ReorderOutput"),
        ("a_token_b", "a_token_b"),
    ],
)
def test_names_lose_what_the_optimiser_adds(name: str, readable: str) -> None:
    assert readable_name(name) == readable


def test_events_belong_to_the_run_that_ends_after_them() -> None:
    lines = [
        "[",
        event("session_initialization", 0, "Session"),
        event("b_kernel_time", 20),
        event("a_kernel_time", 10),
        event("model_run", 9, "Session"),
        event("a_kernel_time", 30),
        event("model_run", 29, "Session"),
        event("a_kernel_time", 40),
        "]",
    ]
    names = [[each["name"] for each in events] for events in runs_of(lines)]
    assert names == [["a_kernel_time", "b_kernel_time"], ["a_kernel_time"]]


def test_a_layer_is_told_in_nanoseconds_of_our_clock() -> None:
    given, executed = Node("a", "Conv", (), ("a",)), Node("a_nchwc", "Conv", (), ("t",))
    names = LayerNames(Graph((given,)), Graph((executed,)))
    raw = json.loads(event("a_nchwc_kernel_time", 7, op_name="Conv", node_index="4").rstrip(","))
    raw["args"]["input_type_shape"] = [{"float": [1, 3, 2, 2]}, {"float": [8, 3, 2, 2]}]
    raw["args"]["output_type_shape"] = [{"float": [1, 8, 1, 1]}]
    raw["args"] |= {"parameter_size": "384", "activation_size": "48", "output_size": "32"}
    layer = names.layer(raw, 1_000_000)
    assert (layer.name, layer.start_ns, layer.duration_ns, layer.thread) == (
        "a",
        1_007_000,
        5000,
        3,
    )
    assert json.loads(layer.attributes) == {
        "type": "Conv",
        "index": 0,
        "shape": [1, 8, 1, 1],
        "input_shapes": [[1, 3, 2, 2], [8, 3, 2, 2]],
        "provider": "",
        "original": ["a"],
        "memory_bytes": 32,
        "memory_kind": "outputs",
        "flops": 2 * 8 * 12,
        "bytes_read": 432,
        "bytes_written": 32,
    }


def test_memory_is_what_the_first_run_allocated() -> None:
    def ran(name: str, grown: object) -> Any:
        given: dict[str, Any] = {
            "node_index": "4",
            "output_size": "32",
            "mem_requested_in_use_delta": grown,
        }
        return json.loads(event(f"{name}_kernel_time", 7, **given).rstrip(","))

    names = LayerNames(Graph(), Graph())
    names.measure([ran("a", "48"), ran("in_place", "0"), ran("frees", "-8")])
    names.measure([ran("a", "0")])

    def told(name: str) -> tuple[object, ...]:
        nature = json.loads(names.layer(ran(name, "0"), 0).attributes)
        return nature["memory_bytes"], nature["memory_kind"], nature["bytes_written"]

    assert told("a") == (48, "measured", 32)
    assert told("in_place") == told("frees") == (0, "measured", 32)
    assert told("not seen") == (32, "outputs", 32)
