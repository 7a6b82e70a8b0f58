"""JAX on a GPU: large inputs and outputs go through page-locked memory, with the same answers."""

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.clock import now_ns
from schemas.manifest import Assets, ModelManifest
from services.agent.predictors import (
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    OpenRequest,
    PartsSource,
    Predictor,
    predictor_named,
)
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, page_aligned


@pytest.fixture(autouse=True)
def gpu() -> None:
    """Skip where JAX sees no GPU; not on import, which would start JAX in other tests' process."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("NO GPU: there is no nvidia-smi")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("NO GPU: JAX sees none")


SHAPE = (256, 1024, 3)


def doubled(seed: int = 0) -> Any:
    """Return a model that doubles its input."""
    return lambda x: x * 2


def opened(shape: Sequence[int] = SHAPE) -> Predictor:
    manifest = ModelManifest.model_validate(
        {
            "name": "doubled",
            "version": "1.0.0",
            "framework": {"name": "jax"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, *shape]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
            "model": Assets(builder="tests.gpu.test_jax.doubled", weights="random"),
        }
    )
    request = OpenRequest(manifest, None, b"", 4, "gpu", {}, builders=("tests.gpu",))  # type: ignore[arg-type]
    return predictor_named("jax")(request)


def test_large_tensors_are_copied_through_page_locked_memory() -> None:
    predictor = opened()
    array = page_aligned((4, *SHAPE), "float32")
    inputs = {"x": array}
    for value in (1.0, 2.0):
        array[...] = value
        (answer,) = predictor.predict(inputs).values()
        assert answer.nbytes > 1 << 20
        assert np.array_equal(answer, array * 2)
    assert predictor.opened.host_memory == LOCKED
    assert np.array_equal(answer, array * 2)
    predictor.close()


def is_page_locked(array: Any) -> bool:
    """Return whether CUDA knows an array's memory as the host's own, page-locked."""
    runtime: Any = pytest.importorskip("cuda.bindings.runtime")
    error, attributes = runtime.cudaPointerGetAttributes(array.ctypes.data)
    assert error == runtime.cudaError_t.cudaSuccess
    return bool(attributes.type == runtime.cudaMemoryType.cudaMemoryTypeHost)


@pytest.mark.parametrize("shape", [(1,), SHAPE], ids=["16 bytes", "12 MB"])
def test_outputs_of_any_size_return_into_page_locked_memory(shape: Sequence[int]) -> None:
    predictor = opened(shape)
    inputs = {"x": np.ones((4, *shape), np.float32)}
    (first,) = predictor.predict(inputs).values()
    (answer,) = predictor.predict({"x": inputs["x"] * 3}).values()
    assert predictor.opened.output_memory == LOCKED
    assert is_page_locked(answer)
    assert not is_page_locked(inputs["x"])
    assert (first.max(), answer.max()) == (2, 6)
    predictor.close()


def test_arrays_that_cannot_be_locked_are_predicted_and_said() -> None:
    predictor = opened()
    array = np.ones((4, *SHAPE), np.float32)
    (answer,) = predictor.predict({"x": array}).values()
    assert np.array_equal(answer, array * 2)
    assert predictor.opened.host_memory == PAGEABLE
    predictor.close()


def test_the_parts_of_a_call_follow_each_other_within_it() -> None:
    predictor = opened()
    assert isinstance(predictor, PartsSource)
    inputs = {"x": page_aligned((4, *SHAPE), "float32")}
    inputs["x"][...] = 3
    for _ in range(3):
        began_ns = now_ns()
        outputs, parts = predictor.predict_parts(inputs)
        ended_ns = now_ns()
    (answer,) = outputs.values()
    assert np.array_equal(answer, inputs["x"] * 2)
    assert [part.name for part in parts] == [COPY_IN, COMPUTE, COPY_OUT]
    assert sum(part.duration_ns for part in parts) <= ended_ns - began_ns
    assert min(part.duration_ns for part in parts) > 0
    predictor.close()
