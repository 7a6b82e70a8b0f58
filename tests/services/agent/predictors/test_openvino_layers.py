"""Layers of OpenVINO, from its performance counts."""

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

import openvino as ov

from mlscope.tracing.clock import now_ns
from services.agent.predictors.natures import Nature
from services.agent.predictors.openvino import OpenVinoPredictor, open_model
from services.agent.predictors.openvino_layers import NodeNames, nodes_of
from tests.services.agent.predictors.test_onnxruntime import images, request


@pytest.fixture
def tiny() -> Iterator[OpenVinoPredictor]:
    predictor = open_model(request(batch_size=2))
    yield predictor
    predictor.close()


def test_layers_follow_each_other_within_their_call(tiny: OpenVinoPredictor) -> None:
    given = images(2)
    expected = tiny.predict(given)["scores"].copy()
    capture = tiny.layers([given])
    stamps = []
    for _ in range(3):
        began = now_ns()
        assert np.array_equal(capture.predict(given)["scores"], expected)
        stamps.append((began, now_ns()))
    for (began, ended), call in zip(stamps, capture.close(), strict=True):
        assert [json.loads(each.attributes)["index"] for each in call] == list(range(len(call)))
        ends = [each.start_ns + each.duration_ns for each in call]
        assert began <= call[0].start_ns
        assert ends[-1] <= ended
        assert [each.start_ns for each in call[1:]] == ends[:-1]


def test_a_layer_names_its_origins_and_counts_for_the_batch(tiny: OpenVinoPredictor) -> None:
    capture = tiny.layers([images(2)])
    capture.predict(images(2))
    (call,) = capture.close()
    conv = next(json.loads(each.attributes) for each in call if each.name.startswith("conv1"))
    assert {"conv1", "relu1"} <= set(conv["original"])
    assert conv["shape"][0] == 2
    channels, side = conv["shape"][1], conv["shape"][2]
    assert conv["flops"] == 2 * (2 * channels * side * side) * 27


def test_the_measured_model_does_not_count(tiny: OpenVinoPredictor) -> None:
    tiny.layers([images(2)]).close()
    given = images(2)
    tiny.predict(given)
    assert tiny._compiled.get_property("PERF_COUNT") in ("NO", False)


def ran(name: str, microseconds: int, status: str = "Status.EXECUTED") -> Any:
    real_time = timedelta(microseconds=microseconds)
    return SimpleNamespace(node_name=name, real_time=real_time, status=status)


def test_a_layer_below_a_microsecond_is_there_in_every_call() -> None:
    names = NodeNames({name: Nature(0, "Relu") for name in ("a", "b", "folded")})
    once = [ran("a", 3), ran("b", 1), ran("folded", 0, "Status.NOT_RUN")]
    other = [ran("a", 3), ran("b", 0, "Status.NOT_RUN"), ran("folded", 0, "Status.NOT_RUN")]
    names.note(once)
    for told in (once, other):
        assert [each.name for each in names.layers_of((0, 10_000, told), 1)] == ["a", "b"]


def test_durations_are_cut_to_the_call() -> None:
    names = NodeNames({"a": Nature(0, "Relu"), "b": Nature(0, "Relu")})
    told = [ran("a", 3), ran("b", 9)]
    names.note(told)
    layers = names.layers_of((1000, 6000, told), 1)
    assert [(each.start_ns, each.duration_ns) for each in layers] == [(1000, 3000), (4000, 2000)]


def test_a_grouped_convolution_counts_its_group_s_channels_alone() -> None:
    given = ov.opset13.parameter([1, 8, 6, 6], np.float32)
    # 2 groups: 6 channels of 4 each
    kernels = ov.opset13.constant(np.ones((2, 6, 4, 3, 3), np.float32))
    made = ov.opset13.group_convolution(given, kernels, [1, 1], [1, 1], [1, 1], [1, 1])
    compiled = ov.Core().compile_model(ov.Model([made], [given]), "CPU")
    told = [each.flops for each in nodes_of(compiled, 1).natures.values() if "Conv" in each.type]
    assert told == [2 * (12 * 6 * 6) * (4 * 3 * 3)]
