"""AUC is the chance that a click scores above a non-click."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from mlscope.accuracy import NotANumber, ShapesDiffer, UnknownLabel, auc
from tests.importing_later import imported_later

sklearn_metrics = imported_later("sklearn.metrics")

SCORES = [0.1, 0.4, 0.35, 0.8, 0.4]
LABELS = [0, 0, 1, 1, 1]


def _ends(scores: ArrayLike, labels: Sequence[int | None]) -> tuple[float, float]:
    found = auc(scores, labels).interval
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


@pytest.mark.parametrize("decimals", [1, 8])
def test_agrees_with_scikit_learn(decimals: int) -> None:
    random = np.random.default_rng(2)
    labels = random.integers(0, 2, 300)
    scores = np.round(random.normal(labels * 0.7), decimals)
    assert auc(scores, labels.tolist()).value == pytest.approx(
        sklearn_metrics.roc_auc_score(labels, scores)
    )


def test_counts_pairs_with_ties_as_half() -> None:
    # Pairs of clicks .35 .8 .4 above .1: 3; above .4: 0, 1 and a tie.
    assert auc(SCORES, LABELS).value == pytest.approx(4.5 / 6)


def test_interval_is_delong_s() -> None:
    # By hand: shares of non-clicks below each click .5 1 .75, of clicks above each non-click 1 .5.
    error = math.sqrt(0.0625 / 3 + 0.125 / 2)
    low, high = _ends(SCORES, LABELS)
    assert low == pytest.approx(0.75 - 1.959963984540054 * error)
    assert high == 1.0


def test_interval_covers_the_truth_as_often_as_said() -> None:
    random = np.random.default_rng(5)
    labels, truth, covered = [1] * 40 + [0] * 60, 0.7602499389065233, 0
    for _ in range(400):
        low, high = _ends(random.normal(np.array(labels) * 1.0), labels)
        covered += low <= truth <= high
    assert 0.91 <= covered / 400 <= 0.98


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 1)), min_size=4))
def test_swapped_classes_and_stretched_scores(pairs: list[tuple[int, int]]) -> None:
    scores, labels = [float(score) for score, _ in pairs], [label for _, label in pairs]
    found = auc(scores, labels).value
    if found is None:
        assert len(set(labels)) == 1
        return
    assert 0.0 <= found <= 1.0
    assert auc(scores, [1 - label for label in labels]).value == pytest.approx(1.0 - found)
    assert auc(np.exp(scores), labels).value == pytest.approx(found)


def test_unlabelled_samples_are_excluded_and_one_class_has_no_value() -> None:
    found = auc([*SCORES, 0.9, 0.2], [*LABELS, None, None])
    assert (found.value, found.n, found.excluded) == (auc(SCORES, LABELS).value, 5, 2)
    alone = auc([0.1, 0.2, 0.3], [1, 1, None])
    assert (alone.value, alone.n, alone.excluded) == (None, 2, 1)
    assert alone.caveats


def test_too_few_or_wholly_apart_samples_say_so() -> None:
    few = auc([0.1, 0.2, 0.3], [0, 1, 1])
    assert (few.value, few.interval) == (1.0, None)
    assert "too few" in few.caveats[0]
    apart = auc([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert apart.value == 1.0
    assert "no width" in apart.caveats[0]


def test_refuses_what_it_cannot_judge() -> None:
    with pytest.raises(NotANumber) as raised:
        auc([0.1, math.nan], [0, 1])
    assert raised.value.sample == 1
    with pytest.raises(UnknownLabel):
        auc([0.1, 0.2], [0, 2])
    with pytest.raises(ShapesDiffer):
        auc([0.1, 0.2], [0])
