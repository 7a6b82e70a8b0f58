"""The shipped model tiny-cnn, opened by OpenVINO."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.services.agent.predictors.onnxruntime.test_predictor import request as request_of

if TYPE_CHECKING:
    from services.agent.predictors.openvino.predictor import OpenVinoPredictor


@pytest.fixture
def tiny() -> "Iterator[OpenVinoPredictor]":
    from services.agent.predictors.openvino.predictor import open_model

    predictor = open_model(request_of(batch_size=2))
    yield predictor
    predictor.close()
