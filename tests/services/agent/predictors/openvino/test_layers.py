"""Layers of OpenVINO, from its performance counts."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

import openvino as ov
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.clock import now_ns
from mlscope.tracing.layer_attributes import LayerAttributes
from services.agent.predictors.openvino.layers import (
    UNREAD,
    ExecutedNodes,
    Reading,
    nodes_of,
    rounding_us,
    share_of_call,
    windows_of,
)
from services.agent.predictors.openvino.predictor import (
    OpenVinoPredictor,
    options_of,
)
from tests.services.agent.predictors.onnxruntime.test_predictor import images


def test_layers_follow_each_other_within_their_call(tiny: OpenVinoPredictor) -> None:
    inputs = images(2)
    expected = tiny.predict(inputs)["scores"].copy()
    capture = tiny.layers([inputs])
    stamps = []
    for _ in range(3):
        began = now_ns()
        assert np.array_equal(capture.predict(inputs)["scores"], expected)
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
    inputs = images(2)
    tiny.predict(inputs)
    assert tiny._compiled.get_property("PERF_COUNT") in ("NO", False)


def named(*names: str) -> ExecutedNodes:
    return ExecutedNodes({name: LayerAttributes(0, "Relu") for name in names})


def test_a_layer_below_a_microsecond_is_there_in_every_call() -> None:
    names = named("a", "b", "folded")
    names.note(Reading(1, {"a": 3, "b": 1, "folded": 0}))
    before, behind = Reading(1, {"a": 3, "b": 1}), Reading(3, {"a": 3, "b": 0})
    calls = names.layers_of([(0, 10_000), (20_000, 30_000)], before, behind, 1)
    assert [[each.name for each in call] for call in calls] == [["a", "b"]] * 2
    assert [each.duration_ns for each in calls[1]] == [3000, 0]


def test_layers_keep_their_order_whenever_they_were_seen_and_are_then_kept_to() -> None:
    names = named("a", "b", "c")
    names.settle()
    names.note(Reading(1, {"b": 2}))
    names.note(behind := Reading(2, {"a": 1, "b": 2}))
    names.settle()
    names.note(Reading(1, {"c": 7}))
    (call,) = names.layers_of([(0, 10_000)], UNREAD, behind, 1)
    assert [each.name for each in call] == ["a", "b"]
    assert [json.loads(each.attributes)["index"] for each in call] == [0, 1]


def test_layers_that_are_longer_than_their_calls_are_cut_alike() -> None:
    names, behind = named("a", "b"), Reading(1, {"a": 3, "b": 9})
    names.note(behind)
    (call,) = names.layers_of([(1000, 7000)], UNREAD, behind, 1)
    assert [(each.start_ns, each.duration_ns) for each in call] == [(1000, 1500), (2500, 4500)]


def test_layers_are_alike_in_calls_but_those_too_short_for_them() -> None:
    names, behind = named("a", "b"), Reading(3, {"a": 3, "b": 1})
    names.note(behind)
    # 12 us in all, 4 a call; the second is shorter, its 2 us are the others'.
    spans = [(0, 900_000), (1_000_000, 1_002_000), (2_000_000, 2_005_000)]
    calls = names.layers_of(spans, UNREAD, behind, 1)
    durations = [[each.duration_ns for each in call] for call in calls]
    assert durations == [[3750, 1250], [1500, 500], [3750, 1250]]


def test_one_slow_call_holds_what_the_others_cannot() -> None:
    calls_ns = [100] * 19 + [2200]
    assert share_of_call(calls_ns, 19 * 100 + 2100) == 2100
    assert share_of_call(calls_ns, 20 * 50) == 50


def counted(calls_ns: list[int]) -> Reading:
    """Return what OpenVINO's PerfCount tells of a node's calls: whole us, and their mean."""
    total_us = sum(each // 1000 for each in calls_ns)
    return Reading(len(calls_ns), {"a": total_us // len(calls_ns)}) if calls_ns else UNREAD


@given(
    warmed=st.lists(st.integers(0, 10**9), max_size=4),
    block=st.lists(st.integers(0, 10**7), min_size=1, max_size=30),
)
def test_a_block_s_mean_is_known_as_well_as_is_said(warmed: list[int], block: list[int]) -> None:
    before, behind = counted(warmed), counted([*warmed, *block])
    off_ns = abs(1000 * behind.spent_us("a", before) - sum(block)) / len(block)
    assert off_ns <= 1000 * rounding_us(before, behind)
    assert rounding_us(before, behind) < 3 + len(warmed) / len(block)


#: the columns of two layers of the same work
_WIDTH = 512


def twice(threads: int, streams: int = 1) -> OpenVinoPredictor:
    """Open a model of two products alike, of a free batch."""
    start = ov.opset13.parameter([-1, _WIDTH], np.float32, name="x")
    last = start
    for seed, name in enumerate(("first", "second")):
        drawn = np.random.default_rng(seed).standard_normal((_WIDTH, _WIDTH)) / _WIDTH
        last = ov.opset13.matmul(last, drawn.astype(np.float32), False, False)
        last.set_friendly_name(name)
    model = ov.Model([last], [start], "twice")
    options = options_of({"threads": threads, "streams": streams}, "cpu", ["CPU"])

    def compiled(more: dict[str, Any]) -> Any:
        return ov.Core().compile_model(model, "CPU", {**options.settings, **more}), {}

    return OpenVinoPredictor(compiled({})[0], options, lambda: compiled(options.counting_settings))


def test_a_twin_has_one_stream_of_as_many_threads() -> None:
    # Two would count apart, and a request tell of the one that it came to.
    predictor = twice(2, streams=2)
    twin, _ = predictor._twin()
    assert (twin.get_property("NUM_STREAMS"), twin.get_property("INFERENCE_NUM_THREADS")) == (1, 1)
    predictor.close()


def times_in(predictor: OpenVinoPredictor, batch: int, calls: int) -> tuple[int, dict[str, int]]:
    """Return what a block's calls took (ns), and each layer's sum; none is beyond its call."""
    inputs = {"x": np.ones((batch, _WIDTH), np.float32)}
    capture, took, sums = predictor.layers([inputs]), [], Counter[str]()
    for _ in range(calls):
        began = now_ns()
        capture.predict(inputs)
        took.append(now_ns() - began)
    for call_ns, layers in zip(took, capture.close(), strict=True):
        assert 0 < sum(each.duration_ns for each in layers) <= call_ns
        sums.update({each.name: each.duration_ns for each in layers})
    return sum(took), sums


@pytest.mark.parametrize(("threads", "streams"), [(1, 1), (2, 1), (2, 2)])
def test_layers_take_what_their_work_does_at_each_size(threads: int, streams: int) -> None:
    predictor = twice(threads, streams)
    for batch, calls in ((2048, 6), (128, 10), (1024, 6)):
        whole, sums = times_in(predictor, batch, calls)
        # Layers of one work take like times, whatever ran before; not all is beside them.
        assert 1 / 30 < sums["second"] / sums["first"] < 30
        assert whole / 30 < sums["first"] + sums["second"]
    times_in(predictor, 1, 1)
    predictor.close()


def test_a_grouped_convolution_counts_its_group_s_channels_alone() -> None:
    start = ov.opset13.parameter([1, 8, 6, 6], np.float32)
    # 2 groups: 6 channels of 4 each
    kernels = ov.opset13.constant(np.ones((2, 6, 4, 3, 3), np.float32))
    made = ov.opset13.group_convolution(start, kernels, [1, 1], [1, 1], [1, 1], [1, 1])
    compiled = ov.Core().compile_model(ov.Model([made], [start]), "CPU")
    told = [
        each.flops for each in nodes_of(compiled, 1, {}).attributes.values() if "Conv" in each.type
    ]
    assert told == [2 * (12 * 6 * 6) * (4 * 3 * 3)]


def test_a_gather_reads_its_indices_and_the_rows_that_they_name() -> None:
    rows = ov.opset13.parameter([2, 5], np.int32)
    table = ov.opset13.constant(np.ones((1000, 16), np.float32))
    made = ov.opset13.gather(table, rows, ov.opset13.constant(np.array(0, np.int32)))
    compiled = ov.Core().compile_model(ov.Model([made], [rows]), "CPU")
    (told,) = [
        each for each in nodes_of(compiled, 2, {}).attributes.values() if each.type == "Gather"
    ]
    # Ten indices, ten rows of 16 and the axis.
    assert told.bytes_read == 4 * 10 + 4 * 10 * 16 + 4


def test_an_lstm_multiplies_each_weight_once_a_step() -> None:
    batch, steps, inner, wide = 3, 5, 8, 12
    x = ov.opset13.parameter([batch, steps, inner], np.float32)
    state = ov.opset13.constant(np.zeros((batch, 1, wide), np.float32))
    lengths = ov.opset13.constant(np.full(batch, steps, np.int32))
    weights = [np.ones((1, 4 * wide, size), np.float32) for size in (inner, wide)]
    bias = np.zeros((1, 4 * wide), np.float32)
    constants = [ov.opset13.constant(each) for each in (*weights, bias)]
    cells = ov.opset13.lstm_sequence(x, state, state, lengths, *constants, wide, "forward")
    compiled = ov.Core().compile_model(ov.Model(cells.outputs()[:1], [x]), "CPU")
    told = [
        each for each in nodes_of(compiled, batch, {}).attributes.values() if "RNN" in each.type
    ]
    assert [each.flops for each in told] == [2 * steps * batch * 4 * wide * (inner + wide)]


def test_a_pool_counts_its_window() -> None:
    start = ov.opset13.parameter([1, 8, 6, 6], np.float32)
    made = ov.opset13.avg_pool(start, [1, 1], [0, 0], [0, 0], [3, 2], exclude_pad=True)
    model = ov.Model([made], [start])
    nodes = nodes_of(ov.Core().compile_model(model, "CPU"), 1, windows_of(model))
    told = [each.flops for each in nodes.attributes.values() if each.type == "Pooling"]
    assert told == [(8 * 4 * 5) * (3 * 2)]
