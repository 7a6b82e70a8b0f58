"""mIoU pools the pixels of all images and leaves ignored ones out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.accuracy import (
    PixelCounts,
    ShapesDiffer,
    UnknownLabel,
    Unusable,
    class_ious,
    count_pixels,
    mean_iou,
    mean_iou_of_images,
    pixel_accuracy,
)
from tests.importing_later import imported_later

sklearn_metrics = imported_later("sklearn.metrics")


def test_agrees_with_scikit_learn_over_all_images() -> None:
    random = np.random.default_rng(3)
    labels, predicted = random.integers(0, 5, (2, 3, 20, 30))
    pixels = PixelCounts.none(5)
    for one, other in zip(predicted, labels, strict=True):
        pixels += count_pixels(one, other, 5)
    wanted = sklearn_metrics.jaccard_score(labels.ravel(), predicted.ravel(), average=None)
    assert class_ious(pixels) == pytest.approx(wanted.tolist())
    assert mean_iou(pixels).value == pytest.approx(wanted.mean())
    assert pixel_accuracy(pixels).value == pytest.approx((labels == predicted).mean())
    assert (pixels.images, mean_iou(pixels).n) == (3, 1800)


def test_golden_values_by_hand() -> None:
    pixels = count_pixels([[0, 0, 1], [1, 2, 0]], [[0, 1, 1], [1, 255, 0]], 4)
    assert class_ious(pixels) == [2 / 3, 2 / 3, None, None]
    found = mean_iou(pixels)
    assert found.value == pytest.approx(2 / 3)
    assert (found.n, found.excluded) == (5, 1)
    assert found.caveats[0] == "2 classes have no pixels and are left out of the mean"
    assert pixel_accuracy(pixels).value == 4 / 5


def test_a_class_that_is_predicted_alone_is_in_the_mean() -> None:
    assert mean_iou(count_pixels([[0, 1]], [[0, 0]], 2)).value == 1 / 4


def test_ignored_pixels_may_be_predicted_as_anything() -> None:
    first = count_pixels([[0, 9]], [[0, 255]], 2)
    assert (first.counts.sum(), first.excluded) == (1, 1)
    assert count_pixels([[0, 1]], [[0, 0]], 2, ignore=None).excluded == 0
    assert count_pixels([[0, 1]], [[0, 0]], 2, ignore=0).excluded == 2


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_bounds_symmetry_and_names_of_classes(seed: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    one, other = random.integers(0, classes, (2, 6, 7))
    first, second = count_pixels(one, other, classes), count_pixels(other, one, classes)
    assert class_ious(first) == class_ious(second)
    found = mean_iou(first).value
    assert found is not None
    assert 0.0 <= found <= 1.0
    order = random.permutation(classes)
    assert mean_iou(count_pixels(order[one], order[other], classes)).value == pytest.approx(found)
    assert mean_iou(count_pixels(one, one, classes)).value == 1.0


def test_refuses_maps_that_do_not_fit() -> None:
    with pytest.raises(ShapesDiffer):
        count_pixels([[0]], [[0, 1]], 2)
    for predicted, labels in (([[2, 0]], [[0, 0]]), ([[0, 0]], [[-1, 0]]), ([[0.5, 0]], [[0, 0]])):
        with pytest.raises(UnknownLabel, match="pixel 0"):
            count_pixels(predicted, labels, 2)
    with pytest.raises(ShapesDiffer):
        _ = PixelCounts.none(2) + PixelCounts.none(3)


def test_no_labelled_pixel_has_no_value() -> None:
    pixels = count_pixels([[0]], [[255]], 2)
    assert mean_iou(pixels).value is None
    assert pixel_accuracy(pixels).value is None
    assert pixel_accuracy(pixels).excluded == 1


def test_over_images_the_values_are_those_of_all_pixels_together() -> None:
    random = np.random.default_rng(5)
    pairs = random.integers(0, 3, (6, 2, 8, 8))
    images = [count_pixels(one, other, 3) for one, other in pairs]
    whole = sum(images[1:], images[0])
    expected = (mean_iou(whole), pixel_accuracy(whole))
    for found, wanted in zip(mean_iou_of_images(images, 200), expected, strict=True):
        assert (found.name, found.value, found.n) == (wanted.name, wanted.value, wanted.n)
        assert found.interval is not None
        assert found.interval.low is not None
        assert found.interval.high is not None
        assert found.value is not None
        assert found.interval.low <= found.value <= found.interval.high
        assert "images" in found.interval.method
        assert found.caveats == ()


def test_the_interval_is_as_wide_as_the_images_differ() -> None:
    right, wrong = count_pixels([[0, 1]], [[0, 1]], 2), count_pixels([[1, 0]], [[0, 1]], 2)
    alike, _ = mean_iou_of_images([right] * 4, 100)
    apart, _ = mean_iou_of_images([right, wrong] * 2, 100)
    assert alike.interval is not None
    assert apart.interval is not None
    assert (alike.interval.low, alike.interval.high) == (1.0, 1.0)
    assert apart.interval.low == 0.0
    assert apart.interval.high is not None
    assert apart.interval.high > 0.5


def test_one_image_has_no_interval_and_none_no_value() -> None:
    found, _ = mean_iou_of_images([count_pixels([[0]], [[0]], 2)], 100)
    assert (found.value, found.interval) == (1.0, None)
    assert any("no interval" in each for each in found.caveats)
    with pytest.raises(Unusable):
        mean_iou_of_images([], 100)
