"""Layers of TensorFlow models: a session's trace, or XLA's profile."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.clock import now_ns
from services.agent.predictors import LayerSource
from services.agent.predictors.tensorflow.work import bytes_read, flops_of, readable_name
from tests.importing_later import imported_later
from tests.pools import tensorflow_pool
from tests.services.agent.predictors.tensorflow.test_predictor import (
    bare,
    batch,
    first,
    folder,
    manifest,
    opened,
    pytestmark,
)

tf = imported_later("tensorflow")
layers = imported_later("services.agent.predictors.tensorflow.layers")

__all__ = ["folder", "pytestmark", "tensorflow_pool"]

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("saved", {}),
    ("free.pb", {}),
    ("m.keras", {}),
    ("builder", {"jit_compile": True}),
    ("saved", {"jit_compile": True}),
]


@pytest.mark.parametrize(("name", "options"), FORMS)
def test_layers_lie_in_their_call_and_change_no_answer(
    folder: Path, name: str, options: dict[str, Any]
) -> None:
    predictor = opened(folder, name, options=options)
    assert isinstance(predictor, LayerSource)
    given = batch()
    expected = first(predictor.predict(given)).copy()
    capture = predictor.layers([given])
    stamps = []
    for _ in range(2):
        began = now_ns()
        answer = first(capture.predict(given))
        stamps.append((began, now_ns()))
        assert np.allclose(answer, expected, atol=1e-6)
    calls = capture.close()
    for (began, ended), call in zip(stamps, calls, strict=True):
        assert began <= call[0].start_ns
        assert all(each.start_ns + each.duration_ns <= ended for each in call)
        told = [json.loads(each.attributes) for each in call]
        assert [each["index"] for each in told] == list(range(len(call)))
        assert sum(each.get("flops") or 0 for each in told) >= 2 * 2 * 6 * 8 + 2 * 2 * 8 * 4
        assert any("MatMul" in str(each["original"]) for each in told) or name == "saved"
    assert np.array_equal(first(predictor.predict(given)), expected)
    predictor.close()


def holder(model: Any) -> Any:
    """Return a module of a Keras model, which adds what a table has of a row's class."""
    keys, values = tf.range(4, dtype=tf.int64), tf.constant([1.0, 2.0, 3.0, 4.0])
    held = tf.Module()
    filled = tf.lookup.KeyValueTensorInitializer(keys, values)
    held.model, held.table = model, tf.lookup.StaticHashTable(filled, 0.0)

    def run(x: Any) -> Any:
        scores = held.model(x)
        return {"scores": scores + held.table.lookup(tf.argmax(scores, -1))[:, None]}

    spec = tf.TensorSpec([None, 6], tf.float32, name="x")
    held.run = tf.function(run, input_signature=[spec])
    return held


@pytest.mark.parametrize("is_held", [False, True])
def test_a_keras_model_saved_by_tensorflow_has_layers(tmp_path: Path, is_held: bool) -> None:
    # Each of its variables is there twice, and a session's loader restores but one.
    model = bare()
    held = holder(model)
    signatures = held.run if is_held else None
    tf.saved_model.save(held if is_held else model, str(tmp_path / "saved"), signatures)
    predictor = opened(tmp_path, "saved", model=manifest("scores" if is_held else "output_0"))
    assert isinstance(predictor, LayerSource)
    inputs = batch()
    capture = predictor.layers([inputs])
    expected = held.run(inputs["x"])["scores"] if is_held else model(inputs["x"])
    assert np.allclose(first(capture.predict(inputs)), expected.numpy(), atol=1e-6)
    (call,) = capture.close()
    assert sum(json.loads(each.attributes).get("flops") or 0 for each in call) >= 2 * 2 * 6 * 8
    predictor.close()


def save_by_session(folder: Path) -> None:
    """Save a layer with its softmax as TensorFlow 1 did."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 6], name="x")
        weights = v1.get_variable("w", [6, 3], use_resource=True)
        # Its last operator has as many inputs as there are variables.
        y = tf.nn.softmax(tf.matmul(x, weights))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def test_a_model_saved_by_a_session_of_tensorflow_1_has_layers(tmp_path: Path) -> None:
    save_by_session(tmp_path / "one")
    predictor = opened(tmp_path, "one", model=manifest("y"))
    assert isinstance(predictor, LayerSource)
    capture = predictor.layers([batch()])
    capture.predict(batch())
    (call,) = capture.close()
    kinds = {json.loads(each.attributes)["type"] for each in call}
    assert any("MatMul" in kind for kind in kinds)
    predictor.close()


def square(folder: Path) -> str:
    """Save two products alike, of a free batch, behind each other."""
    drawn = np.random.default_rng(1).standard_normal((2, 512, 512), np.float32) / 512
    weights = [tf.Variable(each) for each in drawn]
    whole = tf.Module()
    whole.weights = weights
    spec = tf.TensorSpec([None, 512], tf.float32, name="x")
    run = tf.function(lambda x: {"y": x @ weights[0] @ weights[1]}, input_signature=[spec])
    tf.saved_model.save(whole, str(folder / "square"), run)
    return "square"


def test_layers_take_what_their_work_does_at_each_size(tmp_path: Path) -> None:
    predictor = opened(tmp_path, square(tmp_path), model=manifest("y", shape=(-1, 512)))
    assert isinstance(predictor, LayerSource)
    for size in (2048, 256, 1024):
        inputs = {"x": np.ones((size, 512), np.float32)}
        capture, whole = predictor.layers([inputs]), []
        for _ in range(10):
            began = now_ns()
            capture.predict(inputs)
            whole.append(now_ns() - began)
        sums = [0, 0]
        for call_ns, call in zip(whole, capture.close(), strict=True):
            assert 0 < sum(each.duration_ns for each in call) <= call_ns
            products = [each for each in call if "MatMul" in str(each.attributes)]
            sums = [both + each.duration_ns for both, each in zip(sums, products, strict=True)]
        # Layers of one work take like times, whatever ran before; not all is beside them.
        assert 1 / 30 < sums[1] / sums[0] < 30
        assert sum(whole) / 30 < sum(sums)
    predictor.close()


def test_memory_is_what_a_session_allocated(folder: Path) -> None:
    predictor = opened(folder, "free.pb")
    assert isinstance(predictor, LayerSource)
    capture = predictor.layers([batch()])
    capture.predict(batch())
    (call,) = capture.close()
    told = {each.name: json.loads(each.attributes) for each in call}
    # By its shapes: Keras numbers names by what its process made before.
    (product,) = [each for each in told.values() if each.get("input_shapes") == [[2, 6], [6, 8]]]
    assert str(product["type"]).endswith("MatMul")
    assert (product["memory_bytes"], product["memory_kind"]) == (2 * 8 * 4, "measured")


@pytest.mark.parametrize(("provider", "is_noted"), [("CPU:0", False), ("GPU:0", True)])
def test_no_call_starts_tensorflows_device_tracer(provider: str, is_noted: bool) -> None:
    seen = []

    def predict(inputs: Any, options: Any, _: Any) -> Any:
        seen.append(options.trace_level)
        return inputs

    capture = layers.TracedCapture(layers.NodeNames(provider), predict, [batch()])
    capture.predict(batch())
    capture.close()
    # From HARDWARE_TRACE on TensorFlow is a client of CUPTI, beside the collector.
    assert seen == [tf.compat.v1.RunOptions.SOFTWARE_TRACE] * 2
    assert any("device tracer is left off" in each for each in capture.notes) == is_noted


def test_names_lose_the_functions_they_were_inlined_from() -> None:
    inlined = "StatefulPartitionedCall_1/StatefulPartitionedCall/net/conv/Conv2D"
    assert readable_name(inlined) == "net/conv/Conv2D"
    assert readable_name("StatefulPartitionedCall") == "StatefulPartitionedCall"


def test_a_transposed_convolution_costs_what_its_convolution_did() -> None:
    # 5 x 5 of 7 channels to 10 x 10 of 3, by 2 x 2 kernels: each of the 5 x 5 x 7 sums 2 x 2 x 3
    shapes, flops = [[4], [2, 2, 3, 7], [1, 5, 5, 7]], 2 * (5 * 5 * 7) * (2 * 2 * 3)
    assert flops_of("Conv2DBackpropInput", shapes, [[1, 10, 10, 3]]) == flops
    shapes, flops = [[4], [2, 2, 3, 1], [1, 5, 5, 3]], 2 * (5 * 5 * 3) * (2 * 2)
    assert flops_of("DepthwiseConv2dNativeBackpropInput", shapes, [[1, 10, 10, 3]]) == flops


def test_a_matrix_broadcast_over_a_batch_counts_for_each() -> None:
    flops = 2 * (3 * 4 * 6) * 5
    assert flops_of("BatchMatMulV2", [[4, 5], [3, 5, 6]], [[3, 4, 6]]) == flops


def test_a_pool_counts_its_window_and_kernels_names_say_their_operator() -> None:
    shapes = [[2, 8, 8, 3]]
    assert flops_of("_MklNativeMaxPool", shapes, [[2, 4, 4, 3]], 9) == 9 * 2 * 4 * 4 * 3
    for kind in ("Softmax", "_MklSoftmax"):
        assert flops_of(kind, [[2, 5]], [[2, 5]]) == 5 * 10
    for kind in ("_FusedBatchNormEx", "_MklNativeFusedBatchNormV3", "FusedBatchNormV3"):
        assert flops_of(kind, shapes, shapes) == 2 * 2 * 8 * 8 * 3
    assert flops_of("AddV2", shapes, shapes) == 2 * 8 * 8 * 3
    assert flops_of("Max", shapes, [[2, 3]]) == 2 * 8 * 8 * 3


@pytest.mark.parametrize(
    ("equation", "shapes", "flops"),
    [
        ("BTNH,BSNH->BNTS", ([2, 3, 4, 5], [2, 7, 4, 5]), 2 * (2 * 3 * 4 * 5 * 7)),
        ("...ij, jk -> ...ik", ([9, 2, 3, 4], [4, 6]), 2 * (9 * 2 * 3 * 4 * 6)),
        ("a...b,...b->a...", ([8, 3, 4], [1, 4]), 2 * (8 * 3 * 4)),
    ],
)
def test_an_einsum_counts_every_combination_of_its_indices(
    equation: str, shapes: tuple[list[int], list[int]], flops: int
) -> None:
    assert flops_of("_MklEinsum", shapes, [[1]], equation) == flops


def test_a_gather_reads_of_its_table_the_rows_it_returns() -> None:
    assert bytes_read("GatherV2", [64_000, 40, 4], 640) == 640 + 40 + 4
    assert bytes_read("ResourceGather", [0, 40], 640) == 640 + 40
    assert bytes_read("MatMul", [64_000, 40], 640) == 64_040


def test_attention_and_loops_are_told_by_what_they_compute(tmp_path: Path) -> None:
    layers = tf.keras.layers
    steps = layers.Input((8, 16), name="x")
    heads = layers.MultiHeadAttention(2, 4)(steps, steps)
    model = tf.keras.Model(steps, layers.LSTM(4)(layers.MaxPooling1D(2)(heads)))
    model.export(tmp_path / "saved", verbose=False)
    predictor = opened(tmp_path, "saved", model=manifest("output_0", shape=(-1, 8, 16)))
    assert isinstance(predictor, LayerSource)
    capture = predictor.layers([])
    capture.predict({"x": np.ones((2, 8, 16), np.float32)})
    (call,) = capture.close()
    told = [json.loads(each.attributes) for each in call]
    of = {name: [each for each in told if name in each["type"]] for name in ("Einsum", "MaxPool")}
    assert [each["flops"] for each in of["Einsum"]] == [2 * 2 * 2 * 8 * 8 * 4] * 2
    assert [each["flops"] for each in of["MaxPool"]] == [2 * 2 * 4 * 16]
    # Four steps of the LSTM, two products each, and nothing of what moves its loop on.
    assert sum(each.get("input_shapes") == [[2, 4], [4, 16]] for each in told) == 4
    kinds = {each["type"] for each in told}
    assert not kinds & {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}
    predictor.close()
