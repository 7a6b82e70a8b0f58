"""Shapes, texts and maps of two evaluations: alike as far as they are, sample by sample."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.accuracy import NotANumber, ShapesDiffer
from mlscope.accuracy.comparison import AGREEMENT
from mlscope.accuracy.likeness import (
    DIFFERENCE,
    EDITS,
    EQUAL,
    IOU,
    MATCHED,
    OVERLAP,
    PIXELS,
    Shape,
    compare_maps,
    compare_shapes,
    compare_texts,
)
from tests.importing_later import imported_later

sklearn_metrics = imported_later("sklearn.metrics")

BOX = (0.0, 0.0, 10.0, 10.0)
LATER = (0.0, 0.0, 10.0, 5.0)


def _cat(score: float = 0.9, box: tuple[float, ...] = BOX, name: str = "cat") -> Shape:
    return name, score, box


def test_shapes_of_one_class_that_overlap_are_the_same() -> None:
    found = compare_shapes({"a": [_cat(0.9)]}, {"a": [_cat(0.7, LATER), _cat(0.6, name="dog")]})
    told = found.by_sample["a"]
    assert told[MATCHED] == pytest.approx(2 / 3)
    assert told[OVERLAP] == pytest.approx(0.5)
    assert told[DIFFERENCE] == pytest.approx(0.2)
    assert told[AGREEMENT] == 1.0


def test_another_class_or_place_is_another_shape() -> None:
    away = _cat(0.9, (50.0, 50.0, 60.0, 60.0))
    for other in (_cat(name="dog"), away):
        told = compare_shapes({"a": [_cat()]}, {"a": [other]}).by_sample["a"]
        assert (told[MATCHED], told[OVERLAP], told[DIFFERENCE]) == (0.0, None, None)


def test_each_shape_is_matched_once() -> None:
    told = compare_shapes({"a": [_cat(0.9), _cat(0.8)]}, {"a": [_cat(0.5)]}).by_sample["a"]
    assert told[MATCHED] == pytest.approx(2 / 3)


def test_nothing_found_on_both_sides_is_alike() -> None:
    told = compare_shapes({"a": [], "b": [_cat()]}, {"a": [], "b": []}).by_sample
    assert (told["a"][MATCHED], told["b"][MATCHED]) == (1.0, 0.0)
    assert (told["a"][AGREEMENT], told["b"][AGREEMENT]) == (1.0, 0.0)


def test_a_box_that_is_no_number_is_named() -> None:
    with pytest.raises(NotANumber, match="sample a"):
        compare_shapes({"a": [_cat(box=(0.0, 0.0, math.nan, 1.0))]}, {"a": []})


def test_texts_are_compared_by_edits() -> None:
    found = compare_texts({"a": "kitten", "b": "same"}, {"a": "sitting", "b": "same", "c": "alone"})
    assert found.by_sample["a"][EDITS] == pytest.approx(3 / 6)
    assert found.outcomes[EQUAL].value == 0.5
    assert found.outcomes[AGREEMENT].excluded == 1
    assert compare_texts({"a": ""}, {"a": "xy"}).by_sample["a"][EDITS] == 2.0


@given(st.integers(0, 2**32 - 1))
def test_maps_agree_with_scikit_learn_and_with_themselves(seed: int) -> None:
    one, other = np.random.default_rng(seed).integers(0, 3, (2, 6, 5))
    told = compare_maps({"a": one}, {"a": other}).by_sample["a"]
    assert told[PIXELS] == pytest.approx((one == other).mean())
    classes = np.union1d(one, other)
    wanted = sklearn_metrics.jaccard_score(
        one.ravel(), other.ravel(), labels=classes, average="macro"
    )
    assert told[IOU] == pytest.approx(wanted)
    assert compare_maps({"a": one}, {"a": one}).by_sample["a"][IOU] == 1.0


def test_maps_of_other_sizes_are_named() -> None:
    with pytest.raises(ShapesDiffer, match="sample a"):
        compare_maps({"a": [[0]]}, {"a": [[0, 1]]})
