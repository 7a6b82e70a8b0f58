"""sigmoid: probabilities each by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from tests.services.agent.steps.applying import apply

SCORES = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 9)),
    elements=st.floats(-500, 500, width=32),
)


@given(SCORES)
def test_it_is_the_logistic_function(
    scores: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    found = apply("sigmoid", scores)
    assert found.dtype == np.float32
    assert np.allclose(found, 1 / (1 + np.exp(-scores.astype(np.float64))), atol=1e-6)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.bool_])
def test_whole_numbers_are_scores_too(kind: type) -> None:
    scores: np.ndarray = np.array([[0, 1, 3, 127], [-128, -2, 0, 5]], np.int16).astype(kind)
    found = apply("sigmoid", scores)
    assert np.allclose(found, 1 / (1 + np.exp(-scores.astype(np.float64))), atol=1e-6)


@given(SCORES)
def test_it_is_the_earlier_one_in_every_bit(scores: np.ndarray) -> None:
    kept = scores.copy()
    assert np.array_equal(apply("sigmoid", scores), earlier_step(Step(operator="sigmoid"))(scores))
    assert np.array_equal(scores, kept)
