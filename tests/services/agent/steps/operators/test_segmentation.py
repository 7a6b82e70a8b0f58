"""segmentation: a map of classes."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from tests.services.agent.steps.applying import apply, made


def pixels_of(feature: dict[str, Any]) -> Any:
    """Return the map that a feature's runs describe."""
    values, lengths = zip(*feature["runs"], strict=True)
    return np.repeat(values, lengths).reshape(feature["size"])


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_the_map_is_the_best_class_of_each_pixel(classes: int, h: int, w: int, seed: int) -> None:
    scores = np.random.default_rng(seed).random((2, classes + 1, h, w))
    for values, layout in ((scores, "NCHW"), (np.moveaxis(scores, 1, -1), "NHWC")):
        found = apply("segmentation", values, data_layout=layout)
        assert np.array_equal(pixels_of(found[1][0]), scores[1].argmax(axis=0))
        assert sum(each["pixels"] for each in found[0][0]["classes"]) == h * w


def test_classes_are_counted_most_first_with_labels() -> None:
    values = np.array([[[0, 1, 1], [1, 2, 0]]])
    ((feature,),) = made("segmentation", ("sky", "sea", "sun"), labels="l").apply(values)
    assert [(each["label"], each["pixels"]) for each in feature["classes"]] == [
        ("sea", 3),
        ("sky", 2),
        ("sun", 1),
    ]
    assert json.dumps(feature)


def test_what_is_no_map_is_no_good() -> None:
    with pytest.raises(ValueError, match="is not a map of pixels"):
        apply("segmentation", np.zeros((1, 5)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((1, 3, 2, 2)), "l has 2 labels, but the model's output has 3 classes"),
        (np.array([[[0, 2]]]), "l has 2 labels, but the model's output has class 2"),
        (np.array([[[0, -1]]]), "l has 2 labels, but the model's output has class -1"),
    ],
    ids=["scores", "class", "negative"],
)
def test_labels_that_do_not_fit_are_refused(values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made("segmentation", ("sky", "sea"), labels="l").apply(values)


FEW_VALUES = st.sampled_from([0.0, -0.0, 1.0, -2.0, np.inf, np.nan])


@given(st.sampled_from(["NCHW", "NHWC"]), st.data())
def test_scores_are_answered_as_by_numpy_s_argmax(layout: str, data: st.DataObject) -> None:
    shape = data.draw(st.tuples(*[st.integers(2, 5)] * 4))
    scores = data.draw(arrays("float32", shape, elements=FEW_VALUES))
    step = Step(operator="segmentation", parameters={"data_layout": layout})
    assert apply("segmentation", scores, data_layout=layout) == earlier_step(step)(scores)


@given(st.lists(st.tuples(st.integers(-3, 400), st.integers(1, 40)), min_size=1, max_size=30))
def test_every_run_is_listed_however_long_and_whatever_its_class(
    runs: list[tuple[int, int]],
) -> None:
    values = np.repeat(*np.array(runs).T)[np.newaxis, np.newaxis]
    step = Step(operator="segmentation")
    assert apply("segmentation", values) == earlier_step(step)(values)


@pytest.mark.parametrize("classes", [255, 256, 257])
def test_many_classes_are_told_apart(classes: int) -> None:
    scores = np.random.default_rng(1).integers(0, 9, (1, classes, 7, 9)).astype(np.int16)
    scores[0, -1, 3, 3] = 99
    step = Step(operator="segmentation")
    assert apply("segmentation", scores) == earlier_step(step)(scores)
