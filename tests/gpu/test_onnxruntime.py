"""ONNX Runtime on a GPU: the answers of the CPU, page-locked copies, and the parts of a call."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.clock import now_ns
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, LayerSource, Predictor
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, page_aligned

ort = pytest.importorskip("onnxruntime")

from services.agent.predictors.onnxruntime.predictor import GpuPredictor, open_model  # noqa: E402
from tests.services.agent.predictors.onnx_nets import model, node, place  # noqa: E402
from tests.services.agent.predictors.onnx_nets import opened as opened_net  # noqa: E402
from tests.services.agent.predictors.onnxruntime.test_predictor import request  # noqa: E402

NAME, BATCH, SHAPE = "efficientnet_lite0", 4, (3, 224, 224)
TOLERANCE = 0.05
"""The largest difference of a logit: products in TF32 round to 10 bits."""
PAGES, PINNED, ON_DEVICE = 1, 2, 3
"""Kinds of memory in CUPTI's records (CUpti_ActivityMemoryKind)."""
TO_DEVICE, FROM_DEVICE = 1, 2
"""Kinds of copies there (CUpti_ActivityMemcpyKind)."""


@pytest.fixture(autouse=True, scope="module")
def gpu() -> None:
    """Skip where there is no GPU, or ONNX Runtime has no code for one."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("NO GPU: there is no nvidia-smi")
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        pytest.skip("NO GPU: this ONNX Runtime is built for CPUs")


@pytest.fixture(scope="module")
def on_gpu(gpu: None) -> Iterator[Predictor]:
    predictor = open_model(request(NAME, BATCH, device="gpu"))
    yield predictor
    predictor.close()


@pytest.fixture(scope="module")
def on_cpu() -> Iterator[Predictor]:
    predictor = open_model(request(NAME, BATCH))
    yield predictor
    predictor.close()


def batch(seed: int = 1) -> dict[str, Any]:
    """Return a batch on pages of its own, as a session's slots are."""
    array = page_aligned((BATCH, *SHAPE), "float32")
    array[...] = np.random.default_rng(seed).standard_normal(array.shape, np.float32)
    return {"images": array}


def test_where_it_runs_is_said(on_gpu: Predictor) -> None:
    opened = on_gpu.opened
    assert (opened.device, opened.provider) == ("gpu", "CUDAExecutionProvider")
    assert opened.precision == "float32 (tf32 allowed)"


def test_every_batch_of_a_slot_has_its_own_answer(on_gpu: Predictor, on_cpu: Predictor) -> None:
    inputs, answers = batch(), []
    for seed in range(3):
        inputs["images"][...] = batch(seed)["images"]
        answers.append(on_gpu.predict(inputs)["logits"].copy())
        assert np.allclose(answers[-1], on_cpu.predict(batch(seed))["logits"], atol=TOLERANCE)
    assert not any(np.allclose(one, next_one, atol=0.5) for one, next_one in pairwise(answers))


def copies_of(predictor: Predictor, inputs: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    """Return the copies of a predict call by CUPTI: kind, memory from and to, bytes."""
    cupti: Any = pytest.importorskip("cupti.cupti")
    from services.agent.collectors.cupti.collector import Subscription

    class CopiesOnly(Subscription):
        """Notes the kinds of memory too."""

        def _copy(self, record: Any) -> None:
            kind, source, target = record.copy_kind, record.src_kind, record.dst_kind
            seen.append((int(kind), int(source), int(target), int(record.bytes)))

    seen: list[tuple[int, int, int, int]] = []
    subscription = CopiesOnly(cupti)
    subscription.enable()
    predictor.predict(inputs)
    subscription.wait()
    subscription.take()
    return seen


def test_no_copy_goes_through_pageable_memory(on_gpu: Predictor) -> None:
    inputs = batch()
    answer = on_gpu.predict(inputs)["logits"]
    assert on_gpu.opened.host_memory == on_gpu.opened.output_memory == LOCKED
    copies = copies_of(on_gpu, inputs)
    assert (TO_DEVICE, PINNED, ON_DEVICE, inputs["images"].nbytes) in copies
    assert (FROM_DEVICE, ON_DEVICE, PINNED, answer.nbytes) in copies
    assert PAGES not in {kind for _, source, target, _ in copies for kind in (source, target)}


def test_outputs_of_free_shapes_return_into_page_locked_memory(tmp_path: Path) -> None:
    free = [place(name, ("n", "m")) for name in ("x", "y")]
    inputs = {"x": page_aligned((2, 1000), "float32")}
    inputs["x"][...] = 3
    body = model([node("Relu", "x", "y")], free[:1], free[1:])
    with opened_net(tmp_path, body, inputs, ["y"], provider="cuda") as predictor:
        answer = predictor.predict(inputs)["y"]
        assert np.array_equal(answer, inputs["x"])
        assert predictor.opened.output_memory == LOCKED
        copies = copies_of(predictor, inputs)
    assert (FROM_DEVICE, ON_DEVICE, PINNED, answer.nbytes) in copies


def test_arrays_that_cannot_be_locked_are_predicted_and_said(on_cpu: Predictor) -> None:
    predictor = open_model(request(NAME, BATCH, device="gpu"))
    inputs = {"images": batch()["images"].copy()}
    answer = predictor.predict(inputs)["logits"]
    assert np.allclose(answer, on_cpu.predict(batch())["logits"], atol=TOLERANCE)
    assert predictor.opened.host_memory == PAGEABLE
    assert "shares its pages" in predictor.opened.memory_reason
    predictor.close()


def test_the_parts_of_a_call_follow_each_other_within_it(on_gpu: Predictor) -> None:
    assert isinstance(on_gpu, GpuPredictor)
    inputs = batch()
    plain = on_gpu.predict(inputs)["logits"].copy()
    for _ in range(3):
        began_ns = now_ns()
        outputs, parts = on_gpu.predict_parts(inputs)
        ended_ns = now_ns()
    assert np.allclose(outputs["logits"], plain, atol=1e-3)
    assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
    assert sum(part.duration_ns for part in parts) <= ended_ns - began_ns
    assert min(part.duration_ns for part in parts) > 0


def test_layers_say_which_provider_ran_them(on_gpu: Predictor) -> None:
    assert isinstance(on_gpu, LayerSource)
    inputs = batch()
    capture = on_gpu.layers([inputs])
    capture.predict(inputs)
    (layers,) = capture.close()
    providers = [json.loads(layer.attributes)["provider"] for layer in layers]
    assert set(providers) == {"CUDAExecutionProvider"}
    assert any("kernel launches" in note for note in capture.notes)


def determinant() -> bytes:
    """Return a model (2, 8, 8) to (2,): Relu `bent`, Det `det`, which CUDA lacks."""
    nodes = [node("Relu", "x", "r", "bent"), node("Det", "r", "y", "det")]
    return model(nodes, [place("x", (2, 8, 8))], [place("y", (2,))])


def test_nodes_that_fall_back_to_the_cpu_are_named(tmp_path: Path) -> None:
    inputs = {"x": page_aligned((2, 8, 8), "float32")}
    inputs["x"][...] = np.eye(8) * 2
    with opened_net(tmp_path, determinant(), inputs, ["y"], provider="cuda") as predictor:
        assert np.allclose(predictor.predict(inputs)["y"], 2.0**8)
        capture = predictor.layers([inputs])
        capture.predict(inputs)
        capture.close()
    (note,) = [note for note in capture.notes if "CPUExecutionProvider" in note]
    assert note.endswith("not on CUDAExecutionProvider: det")
