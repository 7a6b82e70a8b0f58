"""topk: the likeliest classes with their labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from services.agent.steps import operator_of
from tests.services.agent.steps.applying import apply


def test_the_best_comes_first_with_its_label() -> None:
    step = Step(operator="topk", parameters={"k": 2, "labels": "names"})
    named = operator_of(step, lambda _: ("cat", "dog", "eel")).apply
    ((first, second),) = named(np.array([[0.1, 0.2, 0.7]], np.float32))
    assert (first["index"], first["label"]) == (2, "eel")
    assert (second["label"], round(second["probability"], 3)) == ("dog", 0.2)


def test_ties_go_to_the_lower_index() -> None:
    ((first, second),) = apply("topk", np.ones((1, 4), np.float32), k=2)
    assert (first["index"], second["index"]) == (0, 1)


def test_there_are_no_more_than_there_are_classes() -> None:
    ((first, second),) = apply("topk", np.array([[0.4, 0.6]], np.float32), k=5)
    assert (first["index"], second["index"]) == (1, 0)


def test_the_papers_argsort_is_topk() -> None:
    assert len(apply("argsort", np.ones((2, 9), np.float32))[1]) == 5


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        (np.array([[0, 9, 240, 0]], np.uint8), [2, 1]),
        (np.array([[-128, 9, 127, 0]], np.int8), [2, 1]),
        (np.array([[-128, -128, -127, -128]], np.int8), [2, 0]),
        (np.array([[0, 1, 0, 1]], np.bool_), [1, 3]),
        (np.array([[0, 2**63, 1, 0]], np.uint64), [1, 2]),
    ],
)
def test_whole_numbers_are_ranked_too(scores: np.ndarray, best: list[int]) -> None:
    (features,) = apply("topk", scores, k=2)
    assert [each["index"] for each in features] == best
    assert features[0]["probability"] == float(scores[0, best[0]])


@pytest.mark.parametrize("labels", [("cat", "dog"), ("cat", "dog", "eel", "fox"), ()])
def test_labels_that_are_not_one_a_class_are_refused(labels: tuple[str, ...]) -> None:
    named = operator_of(Step(operator="topk", parameters={"labels": "names"}), lambda _: labels)
    said = f"label file names has {len(labels)} labels, but the model's output has 3 classes"
    with pytest.raises(ValueError, match=said):
        named.apply(np.ones((1, 3), np.float32))


VALUES = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
KINDS = st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"])


@given(KINDS, st.integers(1, 4), st.integers(1, 12), st.integers(1, 13), st.data())
def test_the_answers_are_those_of_a_stable_sort(
    kind: str, samples: int, classes: int, count: int, data: st.DataObject
) -> None:
    # Few different values: ties within the best, at their end, and NaN among them.
    elements = VALUES if kind.startswith("float") else None
    scores = data.draw(arrays(kind, (samples, classes), elements=elements))
    step = Step(operator="topk", parameters={"k": count})
    assert str(apply("topk", scores, k=count)) == str(earlier_step(step)(scores))
