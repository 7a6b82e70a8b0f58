"""PyTorch on a GPU: the answers of the CPU, graphs, precisions, and nothing left behind."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from services.agent.predictors import Predictor
from services.agent.predictors.pytorch.predictor import open_model
from tests.services.agent.predictors.pytorch.test_predictor import batch, plain, request

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


def test_predicting_ends_when_the_gpu_has_ended(opened: Predictor) -> None:
    opened.predict(batch())
    assert torch.cuda.current_stream().query()


def test_closing_gives_the_memory_back() -> None:
    before = torch.cuda.memory_reserved()
    predictor = open_model(request(device="gpu"))
    predictor.predict(batch())
    predictor.close()
    assert torch.cuda.memory_reserved() <= before
