"""ORT's profile, line by line."""

import json
from pathlib import Path
from time import monotonic_ns
from typing import Any

import numpy as np
import pytest

from mlscope.importing.onnxruntime.events import bodies_note, layers_among
from services.agent.predictors.onnxruntime.graph import Graph, Node
from services.agent.predictors.onnxruntime.layers import (
    LayerNames,
    fallback_note,
    readable_name,
    runs_of,
)
from tests.services.agent.predictors.onnx_nets import branched, captured, looped, opened

X = {"x": np.ones((1, 64), np.float32)}


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


@pytest.mark.parametrize(
    ("elsewhere", "note"),
    [
        (0, ""),
        (1, "1 of 8 nodes ran on CPU, not on CUDA: n0"),
        (7, "7 of 8 nodes ran on CPU, not on CUDA: n0, n1, n2, n3, n4 and 2 more"),
    ],
)
def test_nodes_that_another_provider_ran_are_named(elsewhere: int, note: str) -> None:
    providers = ["CPU"] * elsewhere + ["CUDA"] * (8 - elsewhere)
    events = [
        {"name": f"n{number}_kernel_time", "args": {"provider": provider}}
        for number, provider in enumerate(providers)
    ]
    assert fallback_note(events, "CUDA") == note


def test_nodes_in_the_body_of_another_are_no_layers_beside_it() -> None:
    def ran(name: str, ts: int, dur: int, kind: str = "Add", tid: int = 1) -> dict[str, Any]:
        return {"name": name, "ts": ts, "dur": dur, "tid": tid, "args": {"op_name": kind}}

    # In the order of their ends; the last two are in the cut microsecond at the loop's end.
    body = [ran("in", 11, 3), ran("nested", 15, 2, "Loop"), ran("elsewhere", 12, 4, tid=2)]
    branch = [ran("taken", 31, 2), ran("either", 30, 5, "If")]
    nodes = [ran("before", 7, 3), *body, ran("loop", 10, 9, "Loop"), ran("next", 19, 2), *branch]
    layers, holders = layers_among(nodes)
    assert [each["name"] for each in layers] == ["before", "loop", "elsewhere", "next", "taken"]
    assert holders == {"Loop"}


def test_a_loop_is_one_layer_whose_work_is_unknown(tmp_path: Path) -> None:
    with opened(tmp_path, looped(20), X, ["y"]) as predictor:
        capture = predictor.layers([X])
        began = monotonic_ns()
        capture.predict(X)
        took = monotonic_ns() - began
        (layers,) = capture.close()
    assert [layer.name for layer in layers] == ["pre", "loop"]
    assert sum(layer.duration_ns for layer in layers) <= took
    work = ("flops", "bytes_read", "bytes_written")
    assert not set(work) & json.loads(layers[1].attributes).keys()
    assert json.loads(layers[0].attributes)["flops"] == 64
    assert bodies_note(["Loop"]) in capture.notes


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_branch_has_the_layers_of_the_way_that_was_taken(tmp_path: Path, mode: str) -> None:
    found = captured(tmp_path, branched(), X, ["y"], mode=mode)
    assert list(found) == ["sum", "is_any", "then"]
    zeros = {"x": np.zeros((1, 64), np.float32)}
    other = captured(tmp_path, branched(), zeros, ["y"], mode=mode)
    assert (list(other), other["else"]["flops"]) == (["sum", "is_any", "else"], 2 * 64 * 64)


def test_a_profile_is_full_by_what_bodies_tell_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.predictors.onnxruntime.predictor._MAX_EVENTS", 300)
    with opened(tmp_path, looped(50), X, ["y"]) as predictor:
        capture = predictor.layers([X])
        for _ in range(3):
            capture.predict(X)
        assert len(capture.close()) == 3
    assert any("the profile was full" in note for note in capture.notes)


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
        attributes = json.loads(names.layer(ran(name, "0"), 0).attributes)
        return attributes["memory_bytes"], attributes["memory_kind"], attributes["bytes_written"]

    assert told("a") == (48, "measured", 32)
    assert told("in_place") == told("frees") == (0, "measured", 32)
    assert told("not seen") == (32, "outputs", 32)
