"""sigmoid: probabilities each by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
