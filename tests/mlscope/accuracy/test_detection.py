"""Average precision is pycocotools' to the last digits, whatever the images hold."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mlscope.accuracy import (
    DetectedShapes,
    NotANumber,
    ShapesDiffer,
    TrueShapes,
    Unusable,
    average_precision,
    detection,
    mask_of,
)
from mlscope.accuracy.detection import _curve, _Curves, _mean_of_defined
from mlscope.accuracy.shapes import pixels_of
from tests.thoroughness import examples

NAMES = ["AP", "AP50", "AP75", "APsmall", "APmedium", "APlarge"]
NAMES += ["AR1", "AR10", "AR100", "ARsmall", "ARmedium", "ARlarge"]
Images = list[tuple[TrueShapes, DetectedShapes]]


def _images(seed: int, *, most: int, images: int = 4, classes: int = 3) -> Images:
    """Make boxes of all sizes, found with errors, some twice, some not, scores with ties."""
    random, made = np.random.default_rng(seed), []
    for _ in range(images):
        count = int(random.integers(0, most + 1))
        sides = np.exp(random.uniform(1.0, 5.5, (count, 2)))
        true = np.round(np.concatenate([random.uniform(0, 300, (count, 2)), sides], axis=1))
        labels, crowd = random.integers(0, classes, count), random.random(count) < 0.15
        truth = TrueShapes.of(true, labels, crowd, np.round(sides.prod(axis=1) * 0.8))
        again = random.integers(0, count, 2 * count) if count else np.zeros(0, int)
        seen = np.round(
            true[again] + random.normal(0, 0.06, (len(again), 4)) * sides[again][:, [0, 1, 0, 1]]
        )
        seen[:, 2:] = np.maximum(seen[:, 2:], 1.0)
        wrong = random.random(len(again)) < 0.2
        guessed = np.where(wrong, random.integers(0, classes + 1, len(again)), labels[again])
        made.append(
            (truth, DetectedShapes.of(seen, guessed, np.round(random.random(len(again)), 1)))
        )
    return made


def _masked(images: Images) -> Images:
    """Boxes as masks of 40 x 50 pixels, with a corner missing."""

    def masks(boxes: Any) -> Any:
        tables = []
        for x, y, width, height in (np.asarray(boxes) / 8).astype(int):
            table = np.zeros((40, 50), bool)
            table[max(y, 0) : y + height + 1, max(x, 0) : x + width + 1] = True
            table[max(y, 0), max(x, 0) : x + 2] = False
            tables.append(mask_of(table))
        return tables

    return [
        (
            TrueShapes.of(masks(truth.shapes), truth.classes, truth.crowd),
            DetectedShapes.of(masks(found.shapes), found.classes, found.scores),
        )
        for truth, found in images
    ]


def _shape(shape: Any) -> dict[str, Any]:
    if isinstance(shape, np.ndarray):
        return {"bbox": shape.tolist()}
    return {"segmentation": coco_masks.encode(np.asfortranarray(pixels_of(shape).astype(np.uint8)))}


def _official(images: Images, kind: str) -> tuple[NDArray[np.float64], dict[int, float]]:
    """Ask COCOeval for the twelve numbers and each class's AP; -1 where undefined."""
    truths: list[dict[str, Any]] = []
    founds: list[dict[str, Any]] = []
    for at, (truth, found) in enumerate(images):
        for shape, label, crowd, area in zip(
            truth.shapes, truth.classes, truth.crowd, truth.areas, strict=True
        ):
            one: dict[str, Any] = {"id": len(truths) + 1, "image_id": at, "category_id": int(label)}
            truths.append(one | _shape(shape) | {"iscrowd": int(crowd), "area": float(area)})
        for shape, label, score in zip(found.shapes, found.classes, found.scores, strict=True):
            one = {"image_id": at, "category_id": int(label), "score": float(score)}
            founds.append(one | _shape(shape))
    labels = sorted({one["category_id"] for one in truths + founds})
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = {
            "info": {},
            "images": [{"id": at, "height": 40, "width": 50} for at in range(len(images))],
            "categories": [{"id": label} for label in labels],
            "annotations": truths,
        }
        known.createIndex()
        judge = COCOeval(known, known.loadRes(founds), kind)
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    precision = judge.eval["precision"][:, :, :, 0, 2]
    by_class = {
        label: precision[:, :, row].mean() if (precision[:, :, row] > -1).any() else -1.0
        for row, label in enumerate(labels)
    }
    return judge.stats, by_class


def _agree(images: Images, kind: str) -> None:
    ours = average_precision(*map(list, zip(*images, strict=True)))
    stats, by_class = _official(images, kind)
    assert list(ours.outcomes) == NAMES
    values = [-1.0 if one.value is None else one.value for one in ours.outcomes.values()]
    assert values == pytest.approx(stats.tolist(), rel=1e-12, abs=1e-12)
    found = {
        label: -1.0 if one.value is None else one.value for label, one in ours.by_class.items()
    }
    assert found == pytest.approx(by_class, rel=1e-12, abs=1e-12)


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_boxes_agree_with_pycocotools(seed: int, most: int) -> None:
    images = _images(seed, most=most)
    if any(len(found.scores) for _, found in images):
        _agree(images, "bbox")


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1))
def test_masks_agree_with_pycocotools(seed: int) -> None:
    images = _masked(_images(seed, most=6))
    if any(len(found.scores) for _, found in images):
        _agree(images, "segm")


def test_more_than_a_hundred_found_in_an_image() -> None:
    _agree(_images(3, most=160, images=3, classes=2), "bbox")


def test_a_perfect_answer_is_one_and_an_empty_one_zero() -> None:
    truths = [truth for truth, _ in _images(5, most=9)]
    truths = [TrueShapes.of(one.shapes, one.classes) for one in truths]
    same = [DetectedShapes.of(one.shapes, one.classes, np.ones(len(one.classes))) for one in truths]
    found = average_precision(truths, same).outcomes
    assert found["AP"].value == pytest.approx(1.0)
    assert found["AR100"].value == 1.0
    assert found["AP"].n == sum(len(one.classes) for one in truths)
    empty = average_precision(truths, [DetectedShapes.of([], [], []) for _ in truths]).outcomes
    assert empty["AP"].value == empty["AR100"].value == 0.0


def _in_a_row(true: list[int], found: list[int]) -> Images:
    """Boxes of 100 x 100 starting at these x, the surest found first."""
    boxes = [[[x, 0, 100, 100] for x in starts] for starts in (true, found)]
    scores = np.arange(len(found), 0, -1)
    return [
        (
            TrueShapes.of(boxes[0], [1] * len(true)),
            DetectedShapes.of(boxes[1], [1] * len(found), scores),
        )
    ]


def test_each_takes_the_true_shape_it_overlaps_most() -> None:
    # Were the first near enough taken, nothing would be left for the second found.
    images = _in_a_row([20, 40], [40, 0])
    _agree(images, "bbox")
    found = average_precision([images[0][0]], [images[0][1]]).outcomes
    assert found["AP50"].value == pytest.approx(1.0)


def test_of_equal_overlaps_the_last_is_taken_as_officially() -> None:
    images = _in_a_row([0, 40], [20, 60])
    _agree(images, "bbox")
    found = average_precision([images[0][0]], [images[0][1]]).outcomes
    assert found["AP50"].value == pytest.approx(51 / 101)


def test_golden_values_by_hand() -> None:
    # Two true boxes of 100 x 100. The surest found is 82% of the first: right for .50 to .80.
    # Then a false alarm, then the second exactly. Thresholds to .80: precision 1 up to recall .5
    # (51 of 101 points), 2/3 beyond (50). From .85 on: 1/3 up to recall .5, 0 beyond.
    truth = TrueShapes.of([[0, 0, 100, 100], [200, 0, 100, 100]], [1, 1])
    found = DetectedShapes.of(
        [[0, 0, 82, 100], [400, 0, 50, 50], [200, 0, 100, 100]], [1, 1, 1], [3, 2, 1]
    )
    ours = average_precision([truth], [found])
    high, low = (51 + 50 * 2 / 3) / 101, 51 / 3 / 101
    values = [ours.outcomes[name].value for name in ("AP", "AP50", "AR100", "AR1")]
    recalls = (7 * 1.0 + 3 * 0.5) / 10, 7 * 0.5 / 10
    assert values == pytest.approx([(7 * high + 3 * low) / 10, high, *recalls])
    assert ours.outcomes["APsmall"].value is None
    assert ours.by_class[1].value == ours.outcomes["AP"].value


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 9.0))
def test_scores_count_by_order_alone_and_all_numbers_are_shares(seed: int, factor: float) -> None:
    truths, founds = zip(*_images(seed, most=5), strict=True)
    scaled = [DetectedShapes.of(one.shapes, one.classes, one.scores * factor - 3) for one in founds]
    first, second = average_precision(truths, founds), average_precision(truths, scaled)
    for name, one in first.outcomes.items():
        assert one.value == second.outcomes[name].value
        assert one.value is None or 0.0 <= one.value <= 1.0


def test_a_class_that_is_only_found_has_no_value_and_costs_nothing() -> None:
    truth = TrueShapes.of([[0, 0, 50, 50]], [1])
    found = DetectedShapes.of([[0, 0, 50, 50], [0, 0, 50, 50]], [1, 7], [0.9, 0.8])
    ours = average_precision([truth], [found])
    assert ours.outcomes["AP"].value == pytest.approx(1.0)
    assert ours.by_class[7].value is None
    assert ours.by_class[7].caveats == ("no true shape to judge",)


def test_refuses_what_it_cannot_judge() -> None:
    truth, found = TrueShapes.of([[0, 0, 5, 5]], [1]), DetectedShapes.of([[0, 0, 5, 5]], [1], [0.5])
    with pytest.raises(ShapesDiffer):
        average_precision([truth], [])
    with pytest.raises(NotANumber) as raised:
        average_precision([truth, truth], [found, DetectedShapes.of([[0, 0, 5, 5]], [1], [np.nan])])
    assert raised.value.sample == 1
    with pytest.raises(NotANumber):
        average_precision([truth], [DetectedShapes.of([[0, np.inf, 5, 5]], [1], [1])])
    with pytest.raises(Unusable, match="image 0"):
        average_precision([truth], [DetectedShapes.of([[9, 9, -5, 5]], [1], [1])])
    many = DetectedShapes.of([[0, 0, 5, 5]] * 5000, range(5000), [1] * 5000)
    with pytest.raises(Unusable, match="number of classes is 5000"):
        average_precision([truth], [many])
    with pytest.raises(ShapesDiffer):
        TrueShapes.of([[0, 0, 5, 5]], [1, 2])
    with pytest.raises(ShapesDiffer):
        DetectedShapes.of([[0, 0, 5, 5]], [1], [])


def test_no_images_have_no_numbers() -> None:
    found = average_precision([], [])
    assert {one.value for one in found.outcomes.values()} == {None}
    assert found.by_class == {}


def test_draws_give_an_interval_around_the_same_values() -> None:
    images = _images(11, most=6, images=12)
    truths, found = zip(*images, strict=True)
    plain, drawn = average_precision(truths, found), average_precision(truths, found, draws=100)
    for name, outcome in drawn.outcomes.items():
        assert outcome.value == plain.outcomes[name].value
        if name in ("AP", "AP50", "AP75"):
            assert outcome.interval is not None
            assert outcome.value is not None
            assert outcome.interval.low is not None
            assert outcome.interval.high is not None
            assert outcome.interval.low < outcome.value < outcome.interval.high
            assert outcome.caveats == ()
        else:
            assert outcome.interval is None


@pytest.mark.parametrize("seed", range(5))
def test_an_image_drawn_twice_counts_as_two(seed: int) -> None:
    images = _images(seed, most=5, images=4)
    times = np.array([2, 0, 1, 1])
    curves = _Curves.of(images)
    precisions = [_curve(one, times[one.images])[0] for one in curves.ranked]
    drawn = _mean_of_defined(np.concatenate([curve.ravel() for curve in precisions]))
    repeated = [image for image, n in zip(images, times, strict=True) for _ in range(n)]
    wanted = average_precision(*map(list, zip(*repeated, strict=True))).outcomes["AP"].value
    # Within equal scores an image's own shapes and those of its twin may change places.
    assert drawn == pytest.approx(wanted, abs=0.02)


def test_perfect_answers_stay_perfect_in_every_draw() -> None:
    boxes = [[0.0, 0.0, 40.0, 40.0]]
    truths = [TrueShapes.of(boxes, [0])] * 3
    found = [DetectedShapes.of(boxes, [0], [0.9])] * 3
    interval = average_precision(truths, found, draws=50).outcomes["AP"].interval
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx([1.0, 1.0])


def test_too_many_shapes_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "MOST_DRAWN", 10)
    truths, found = zip(*_images(1, most=6), strict=True)
    outcome = average_precision(truths, found, draws=100).outcomes["AP"]
    assert (outcome.interval, outcome.caveats) == (None, (detection.TOO_MANY,))
