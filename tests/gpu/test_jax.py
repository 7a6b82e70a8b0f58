"""JAX on a GPU: large inputs and outputs go through page-locked memory, with the same answers."""

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from schemas.manifest import Assets, ModelManifest  # noqa: E402
from services.agent.predictors import OpenRequest, Predictor, predictor_named  # noqa: E402
from services.agent.predictors.page_locking import LOCKED, PAGEABLE, page_aligned  # noqa: E402

pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="NO GPU: JAX sees none")

SHAPE = (256, 1024, 3)


def doubled(seed: int = 0) -> Any:
    """Return a model that doubles its input."""
    return lambda x: x * 2


def opened() -> Predictor:
    manifest = ModelManifest.model_validate(
        {
            "name": "doubled",
            "version": "1.0.0",
            "framework": {"name": "jax"},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, *SHAPE]}],
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


def test_arrays_that_cannot_be_locked_are_predicted_and_said() -> None:
    predictor = opened()
    array = np.ones((4, *SHAPE), np.float32)
    (answer,) = predictor.predict({"x": array}).values()
    assert np.array_equal(answer, array * 2)
    assert predictor.opened.host_memory == PAGEABLE
    predictor.close()
