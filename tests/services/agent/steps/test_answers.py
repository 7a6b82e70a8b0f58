"""softmax and topk: scores to labelled classes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.manifest import Step
from services.agent.steps import operator_of

SCORES = hnp.arrays(np.float32, (3, 7), elements=st.floats(-1e4, 1e4, width=32))


@given(SCORES)
def test_softmax_rows_add_up_to_one_in_the_same_order(scores: np.ndarray) -> None:
    probabilities = operator_of(Step(operator="softmax"), lambda _: ()).apply(scores)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    best = scores.argmax(axis=1)
    assert np.array_equal(probabilities[range(3), best], probabilities.max(axis=1))


def test_topk_names_the_best_first() -> None:
    step = Step(operator="topk", parameters={"k": 2, "labels": "names"})
    apply = operator_of(step, lambda _: ("cat", "dog")).apply
    ((first, second),) = apply(np.array([[0.1, 0.2, 0.7]], np.float32))
    assert (first["index"], first["label"]) == (2, "")
    assert (second["label"], round(second["probability"], 3)) == ("dog", 0.2)


def test_ties_go_to_the_lower_index() -> None:
    apply = operator_of(Step(operator="topk", parameters={"k": 2}), lambda _: ()).apply
    ((first, second),) = apply(np.ones((1, 4), np.float32))
    assert (first["index"], second["index"]) == (0, 1)


def test_the_papers_argsort_is_topk() -> None:
    operator = operator_of(Step(operator="argsort"), lambda _: ())
    assert len(operator.apply(np.ones((2, 9), np.float32))[1]) == 5
