"""PyTorch on a GPU: the answers of the CPU, graphs, precisions, and nothing left behind."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from mlscope.tracing.clock import now_ns
from services.agent.errors import BadOption
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, Predictor, Tensors
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, page_aligned
from services.agent.predictors.pytorch.gpu import GpuPredictor
from services.agent.predictors.pytorch.predictor import open_model
from tests.services.agent.predictors.pytorch.test_predictor import (
    batch,
    manifest,
    plain,
    request,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none")


@pytest.fixture
def opened() -> Iterator[Predictor]:
    predictor = open_model(request(device="gpu"))
    yield predictor
    predictor.close()


def test_a_gpu_answers_as_the_cpu_does(opened: Predictor) -> None:
    for seed in range(3):
        inputs = batch(seed=seed)
        assert np.allclose(opened.predict(inputs)["scores"], plain(inputs), atol=1e-5)


def test_where_it_runs_is_said(opened: Predictor) -> None:
    told = opened.opened
    assert (told.device, told.precision) == ("gpu", "float32")
    assert told.provider == torch.cuda.get_device_name(0)
    assert told.device_memory_bytes > 0


def test_a_graph_answers_alike_whatever_array_it_is_given() -> None:
    predictor = open_model(request(device="gpu", options={"graphs": True}))
    for seed in (5, 6, 5):
        inputs = batch(seed=seed)
        assert np.allclose(predictor.predict(inputs)["scores"], plain(inputs), atol=1e-5)
    predictor.close()


@pytest.mark.filterwarnings("ignore")
def test_quantized_layers_are_refused() -> None:
    with pytest.raises(BadOption, match="quantized layers only for CPUs"):
        open_model(request(manifest("quantized"), device="gpu"))


@pytest.mark.parametrize(
    ("options", "precision", "tolerance"),
    [
        ({"precision": "bfloat16"}, "bfloat16", 5e-2),
        ({"precision": "float16"}, "float16", 5e-3),
        ({"allow_tf32": True}, "float32 (tf32 allowed)", 5e-3),
        ({"channels_last": True}, "float32", 1e-5),
        ({"compile": "default"}, "float32", 1e-4),
    ],
)
def test_each_option_is_near_and_is_said(
    options: dict[str, Any], precision: str, tolerance: float
) -> None:
    predictor = open_model(request(device="gpu", options=options))
    assert predictor.opened.precision == precision
    answer = predictor.predict(batch())["scores"]
    assert np.allclose(answer, plain(batch()), atol=tolerance)
    predictor.close()


def aligned_batch(seed: int = 1) -> dict[str, Any]:
    """Return a batch whose arrays lie on pages of their own, as a session's do."""
    arrays = {}
    for name, values in batch(seed=seed).items():
        arrays[name] = page_aligned(values.shape, str(values.dtype))
        arrays[name][...] = values
    return arrays


def copies_seen(opened: Predictor, inputs: Tensors) -> str:
    """Return the names of the copies that PyTorch's profiler sees in a predict call."""
    with torch.profiler.profile(acc_events=True) as profile:
        opened.predict(inputs)
        torch.cuda.synchronize()
    assert profile.profiler is not None
    events = profile.profiler.kineto_results.events()
    return " ".join(event.name() for event in events if "Memcpy" in event.name())


def test_no_copy_goes_through_pageable_memory(opened: Predictor) -> None:
    inputs = aligned_batch()
    opened.predict(inputs)
    assert opened.opened.host_memory == opened.opened.output_memory == LOCKED
    copies = copies_seen(opened, inputs)
    assert "Pinned -> Device" in copies
    assert "Device -> Pinned" in copies
    assert "Pageable" not in copies


def test_arrays_that_cannot_be_locked_are_predicted_and_said(opened: Predictor) -> None:
    inputs = batch()
    assert np.allclose(opened.predict(inputs)["scores"], plain(inputs), atol=1e-5)
    assert opened.opened.host_memory == PAGEABLE


@pytest.mark.parametrize("options", [{}, {"graphs": True}, {"compile": "default"}])
def test_overlapped_calls_answer_as_those_one_by_one_do(options: dict[str, Any]) -> None:
    predictor = open_model(request(device="gpu", options=options))
    assert isinstance(predictor, GpuPredictor)
    batches = [aligned_batch(seed) for seed in range(3)]
    waiting = [predictor.begin(batches[0])]
    for number in range(1, 12):
        waiting.append(predictor.begin(batches[number % 3]))
        answer = waiting.pop(0).wait()["scores"]
        assert np.allclose(answer, plain(batches[(number - 1) % 3]), atol=1e-4), number
    waiting.pop().wait()
    # One batch may be under way twice: its second call has memory of its own.
    first, second = predictor.begin(batches[0]), predictor.begin(batches[0])
    assert np.array_equal(first.wait()["scores"], second.wait()["scores"])
    predictor.close()


def test_inputs_on_the_device_are_those_that_were_held(opened: Predictor) -> None:
    predictor = open_model(request(device="gpu", options={"inputs": "device"}))
    assert isinstance(predictor, GpuPredictor)
    assert predictor.holds_inputs
    inputs, first = aligned_batch(1), plain(batch(seed=1))
    predictor.hold(inputs)
    inputs["x"][...] = batch(seed=2)["x"]
    assert np.allclose(predictor.predict(inputs)["scores"], first, atol=1e-5)
    assert not predictor.is_held_unchanged(inputs)
    assert "Pinned -> Device" not in copies_seen(predictor, inputs)
    predictor.hold(inputs)
    assert np.allclose(predictor.predict(inputs)["scores"], plain(inputs), atol=1e-5)
    assert predictor.is_held_unchanged(inputs)
    predictor.close()


def test_the_parts_of_a_call_follow_each_other_within_it(opened: Predictor) -> None:
    assert isinstance(opened, GpuPredictor)
    inputs = aligned_batch()
    for _ in range(3):
        began_ns = now_ns()
        outputs, parts = opened.predict_parts(inputs)
        ended_ns = now_ns()
    assert np.allclose(outputs["scores"], plain(inputs), atol=1e-5)
    assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
    for part, later in pairwise(parts):
        assert abs(part.start_ns + part.duration_ns - later.start_ns) <= 2_000
    # The GPU's clock and the host's are joined at the end, when the host has seen the last event.
    assert parts[0].start_ns >= began_ns - 50_000
    assert parts[-1].start_ns + parts[-1].duration_ns <= ended_ns


def test_predicting_ends_when_the_gpu_has_ended(opened: Predictor) -> None:
    opened.predict(batch())
    assert torch.cuda.current_stream().query()


def test_closing_gives_the_memory_back() -> None:
    before = torch.cuda.memory_reserved()
    predictor = open_model(request(device="gpu"))
    predictor.predict(batch())
    predictor.close()
    assert torch.cuda.memory_reserved() <= before
