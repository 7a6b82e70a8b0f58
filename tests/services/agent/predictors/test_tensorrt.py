"""TensorRT where there is none: a clear refusal. With one and a GPU nothing is verified yet."""

from importlib.util import find_spec

import pytest

from services.agent.errors import PackageMissing
from services.agent.host.announcing import installed_runtimes
from services.agent.predictors import predictor_named


@pytest.mark.skipif(find_spec("tensorrt") is not None, reason="TensorRT is installed")
def test_without_tensorrt_it_says_so_and_is_not_offered() -> None:
    with pytest.raises(PackageMissing, match="tensorrt"):
        predictor_named("tensorrt")
    assert list(installed_runtimes(("tensorrt",), ())) == []
