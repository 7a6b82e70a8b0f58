"""softmax: scores to probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from tests.services.agent.steps.applying import apply

SCORES = hnp.arrays(np.float32, (3, 7), elements=st.floats(-1e4, 1e4, width=32))


@given(SCORES)
def test_rows_add_up_to_one_in_the_same_order(scores: np.ndarray) -> None:
    probabilities = apply("softmax", scores)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    best = scores.argmax(axis=1)
    assert np.array_equal(probabilities[range(3), best], probabilities.max(axis=1))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.bool_, np.float16])
def test_whole_numbers_are_scores_too(kind: type) -> None:
    scores: np.ndarray = np.array([[0, 1, 3, 127]]).astype(kind)
    found = apply("softmax", scores)
    expected = special.softmax(scores.astype(np.float64), axis=1)
    assert np.allclose(found, expected, atol=1e-6)


@given(SCORES)
def test_it_is_scipy_s(scores: np.ndarray) -> None:
    assert np.allclose(apply("softmax", scores), special.softmax(scores, axis=1), atol=1e-6)


@given(SCORES)
def test_it_is_the_earlier_one_in_every_bit(scores: np.ndarray) -> None:
    kept = scores.copy()
    assert np.array_equal(apply("softmax", scores), earlier_step(Step(operator="softmax"))(scores))
    assert np.array_equal(scores, kept)
