"""Top-k counts what argsort would, says what ties decide, and never guesses a label."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.accuracy import (
    NotANumber,
    ShapesDiffer,
    UnknownLabel,
    Unusable,
    confusion,
    top_k,
    top_k_of_admissible,
    top_k_of_ranked,
)
from mlscope.statistics import wilson
from tests.importing_later import imported_later

sklearn_metrics = imported_later("sklearn.metrics")

SCORES = [[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.2, 0.3, 0.5]]


def test_counts_labels_among_the_highest() -> None:
    first = top_k(SCORES, [1, 2, 0], 1)
    assert (first.name, first.value, first.n) == ("top-1", 1 / 3, 3)
    assert first.interval == wilson(1, 3)
    assert top_k(SCORES, [1, 2, 0], 2).value == 2 / 3


@pytest.mark.parametrize("k", [1, 3, 5])
def test_agrees_with_scikit_learn(k: int) -> None:
    random = np.random.default_rng(k)
    scores, labels = random.normal(size=(200, 12)), random.integers(0, 12, 200)
    wanted = sklearn_metrics.top_k_accuracy_score(labels, scores, k=k, labels=range(12))
    assert top_k(scores, labels.tolist(), k).value == pytest.approx(wanted, abs=0)


def test_unlabelled_samples_are_excluded_and_counted() -> None:
    found = top_k(SCORES, [1, None, None], 1)
    assert (found.value, found.n, found.excluded) == (1.0, 1, 2)
    nothing = top_k(SCORES, [None, None, None], 1)
    assert (nothing.value, nothing.n, nothing.excluded) == (None, 0, 3)


def test_equal_scores_rank_by_class_and_a_caveat_says_what_they_decide() -> None:
    found = top_k([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], [0, 1, 0], 1)
    assert found.value == 2 / 3
    assert found.caveats == ("ties decide 2 samples: 0.333333 to 1",)
    assert top_k([[0.5, 0.5, 0.0]], [1], 2).caveats == ()


def test_as_many_as_there_are_classes_is_said_to_count_everything() -> None:
    found = top_k(SCORES, [0, 0, 0], 3)
    assert found.value == 1.0
    assert "every sample is a hit" in found.caveats[0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_more_places_never_hit_less_and_any_order_of_classes_hits_the_same(
    seed: int, k: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.permutation(40).reshape(8, 5).astype(float)
    labels = random.integers(0, 5, 8)
    found, more = top_k(scores, labels.tolist(), k), top_k(scores, labels.tolist(), k + 1)
    assert found.value is not None
    assert more.value is not None
    assert 0.0 <= found.value <= more.value <= 1.0
    order = random.permutation(5)
    moved = top_k(scores[:, order], np.argsort(order)[labels].tolist(), k)
    assert moved.value == found.value
    assert top_k(np.exp(scores / 10), labels.tolist(), k).value == found.value


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(NotANumber) as broken:
        top_k([[0.1, 0.2], [0.1, math.nan]], [0, None], 1)
    assert broken.value.sample == 1


def test_a_label_that_is_no_class_is_refused() -> None:
    with pytest.raises(UnknownLabel) as unknown:
        top_k([[0.1, 0.2], [0.1, 0.2]], [None, 2], 1)
    assert (unknown.value.sample, unknown.value.label, unknown.value.classes) == (1, 2, 2)
    with pytest.raises(UnknownLabel):
        top_k([[0.1, 0.2]], [-1], 1)


def test_shapes_that_do_not_fit_are_refused() -> None:
    for k in (0, 3):
        with pytest.raises(Unusable):
            top_k([[0.1, 0.2]], [0], k)
    with pytest.raises(ShapesDiffer):
        top_k([[0.1, 0.2]], [0, 1], 1)
    with pytest.raises(ShapesDiffer):
        top_k([0.1, 0.2], [0, 1], 1)


def test_ranked_lists_count_as_scores_do() -> None:
    random = np.random.default_rng(4)
    scores, labels = random.normal(size=(50, 9)), random.integers(0, 9, 50).tolist()
    labels[7] = None
    ranked = np.argsort(-scores, axis=1)[:, :5].tolist()
    found, wanted = top_k_of_ranked(ranked, labels, 5), top_k(scores, labels, 5)
    assert (found.value, found.n, found.excluded) == (wanted.value, 49, 1)


def test_a_ranked_list_that_is_too_short_is_refused_where_it_matters() -> None:
    with pytest.raises(Unusable, match="sample 0"):
        top_k_of_ranked([[3, 1]], [2], 5)
    assert top_k_of_ranked([[3, 1]], [None], 5).value is None
    with pytest.raises(Unusable):
        top_k_of_ranked([[3]], [3], 0)
    with pytest.raises(ShapesDiffer):
        top_k_of_ranked([[3]], [3, 4], 1)


def test_confusion_agrees_with_scikit_learn() -> None:
    random = np.random.default_rng(8)
    predicted, labels = random.integers(0, 4, 99), random.integers(0, 4, 99)
    found = confusion(predicted.tolist(), labels.tolist(), 4)
    assert np.array_equal(found.counts, sklearn_metrics.confusion_matrix(labels, predicted))
    precision, recall, f1, _ = sklearn_metrics.precision_recall_fscore_support(labels, predicted)
    for label in range(4):
        assert found.precision(label) == pytest.approx(precision[label])
        assert found.recall(label) == pytest.approx(recall[label])
        assert found.f1(label) == pytest.approx(f1[label])
    assert found.accuracy().value == pytest.approx((predicted == labels).mean())


def test_confusion_of_classes_that_are_nowhere_has_no_ratio() -> None:
    found = confusion([0, 0, 1], [0, 1, None], 3)
    assert found.counts.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert found.excluded == found.accuracy().excluded == 1
    assert (found.precision(1), found.recall(2), found.f1(2)) == (None, None, None)
    assert found.false_positive_rate(0) == 1.0
    assert found.false_positive_rate(1) == 0.0
    assert confusion([0, 0], [0, 0], 1).false_positive_rate(0) is None


def test_confusion_refuses_classes_it_does_not_know() -> None:
    with pytest.raises(UnknownLabel) as raised:
        confusion([0, 3], [None, 1], 3)
    assert (raised.value.sample, raised.value.label) == (1, 3)
    with pytest.raises(ShapesDiffer):
        confusion([0], [0, 1], 2)


def test_any_admissible_class_is_right() -> None:
    ranked = [["lynx", "tabby"], ["cup", "mug"], ["dog", "cat"]]
    truths = [{"tabby", "tiger cat"}, {"cup"}, set()]
    first, both = (top_k_of_admissible(ranked, truths, k) for k in (1, 2))
    assert (first.value, first.n, first.excluded) == (0.5, 2, 1)
    assert both.value == 1.0


def test_a_list_too_short_says_nothing_of_what_would_have_followed() -> None:
    with pytest.raises(Unusable) as raised:
        top_k_of_admissible([["cat"], ["dog"]], [set(), {"cat"}], 2)
    assert "sample 1" in str(raised.value)
    assert top_k_of_admissible([["cat"], ["dog", "cat"]], [set(), {"cat"}], 2).value == 1.0
