"""TensorRT: a clear refusal where there is none, and its memory and copies with a stand-in."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from services.agent.errors import PackageMissing
from services.agent.host.announcing import installed_runtimes
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, OpenRequest, predictor_named
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, page_aligned
from tests.services.agent.builders import model_named
from tests.services.agent.predictors.tensorrt_fakes import Runtime, tensorrt_of

MODULE = "services.agent.predictors.tensorrt"
pytestmark = pytest.mark.skipif(find_spec("tensorrt") is not None, reason="TensorRT is installed")


def test_without_tensorrt_it_says_so_and_is_not_offered() -> None:
    with pytest.raises(PackageMissing, match="tensorrt"):
        predictor_named("tensorrt")
    assert list(installed_runtimes(("tensorrt",), ())) == []


@pytest.fixture(params=[False, True], ids=["locks", "refuses"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Let a stand-in take the place of TensorRT and of CUDA's runtime."""
    fake: Any = Runtime(refuses_locks=request.param)
    bindings: Any = ModuleType("cuda.bindings")
    bindings.runtime = fake
    modules = {"cuda": ModuleType("cuda"), "cuda.bindings": bindings, "cuda.bindings.runtime": fake}
    for name, module in {**modules, "tensorrt": tensorrt_of(fake)}.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield fake
    sys.modules.pop(MODULE, None)


def opened() -> Any:
    """Open the engine, as `predict` and `predict_parts` need it."""
    model = model_named("identity")
    return predictor_named("tensorrt")(OpenRequest(model, Path(), b"engine", 2, "gpu"))


def batch() -> dict[str, Any]:
    array = page_aligned((2, 3), "float32")
    array[...] = np.arange(6).reshape(2, 3)
    return {"x": array}


def test_the_kind_of_its_memory_is_that_of_its_arrays(runtime: Runtime) -> None:
    predictor, inputs = opened(), batch()
    answer = predictor.predict(inputs)["y"]
    assert np.array_equal(answer, 2 * inputs["x"])
    kind = PAGEABLE if runtime.refuses_locks else LOCKED
    assert (predictor.opened.host_memory, predictor.opened.output_memory) == (kind, kind)
    assert ("cudaErrorMemoryAllocation" in predictor.opened.memory_reason) is runtime.refuses_locks
    predictor.close()
    assert not runtime.locked
    assert not runtime.buffers


def test_a_call_is_divided_by_waiting_for_each_part(runtime: Runtime) -> None:
    predictor, inputs = opened(), batch()
    predictor.predict(inputs)
    assert runtime.waits[-1] == ["in", "engine", "out"]
    outputs, parts = predictor.predict_parts(inputs)
    assert np.array_equal(outputs["y"], 2 * inputs["x"])
    assert runtime.waits[-3:] == [["in"], ["engine"], ["out"]]
    assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
    predictor.close()
