"""boxes, masks, and which of them are left."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.earlier_steps import earlier_suppressed
from mlscope.accuracy.shapes import Mask, pixels_of
from services.agent.errors import BadParameter
from services.agent.steps.suppression import overlaps, suppressed
from tests.services.agent.steps.applying import made

SEEDS = st.integers(0, 2**32 - 1)
BOXES = np.array([[[0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60], [0, 0, 10, 10]]], np.float32)
SCORES = np.array([[0.8, 0.9, 0.3, 0.7]], np.float32)
CLASSES = np.array([[1, 1, 0, 2]])


def some_boxes(seed: int, count: int = 30) -> Any:
    """Return boxes, scores and classes."""
    random = np.random.default_rng(seed)
    low = random.random((count, 2)) * 10
    return (
        np.hstack([low, low + random.random((count, 2)) * 6]),
        random.random(count),
        random.integers(0, 3, count),
    )


@given(SEEDS)
def test_overlaps_and_suppression_are_torchvision_s(seed: int) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is None:
        pytest.skip("torchvision's operators are built for a torch with CUDA")
    ops = pytest.importorskip("torchvision.ops")
    boxes, scores, classes = some_boxes(seed)
    tensor = torch.from_numpy(boxes)
    assert np.allclose(overlaps(boxes, boxes), ops.box_iou(tensor, tensor).numpy(), atol=1e-6)
    expected = ops.batched_nms(tensor, torch.from_numpy(scores), torch.from_numpy(classes), 0.4)
    assert suppressed(boxes, scores, classes, 0.4).tolist() == expected.tolist()


@given(SEEDS, st.floats(0.05, 0.95))
def test_what_stays_does_not_overlap_and_what_goes_does(seed: int, threshold: float) -> None:
    boxes, scores, classes = some_boxes(seed)
    kept = suppressed(boxes, scores, classes, threshold)
    conflict = (overlaps(boxes, boxes) > threshold) & (classes[:, None] == classes)
    better = scores[None] > scores[:, None]
    assert not (conflict & better)[np.ix_(kept, kept)].any()
    gone = np.setdiff1d(np.arange(len(boxes)), kept)
    assert (conflict & better)[np.ix_(gone, kept)].any(axis=1).all()


@given(SEEDS, st.floats(0, 1), st.integers(0, 40))
def test_suppression_is_the_earlier_one_as_far_as_it_goes(
    seed: int, threshold: float, count: int
) -> None:
    boxes, scores, classes = some_boxes(seed)
    scores = np.round(scores, 1)  # equal scores
    boxes[::7] = np.nan
    expected = earlier_suppressed(boxes, scores, classes, threshold)
    assert np.array_equal(suppressed(boxes, scores, classes, threshold), expected)
    assert np.array_equal(
        suppressed(boxes, scores, classes, threshold, max_count=count), expected[:count]
    )


def test_boxes_are_chosen_by_score_and_overlap() -> None:
    step = made(
        "boxes", ("sky", "cat", "dog"), scores="s", classes="c", labels="l", iou=0.5, score=0.5
    )
    assert step.extra_outputs == ("s", "c")
    (found,) = step.apply(BOXES, SCORES, CLASSES)
    assert [(each["label"], round(each["probability"], 2)) for each in found] == [
        ("cat", 0.9),
        ("dog", 0.7),
    ]
    assert [found[0][side] for side in ("xmin", "ymin", "xmax", "ymax")] == [1, 0, 11, 10]
    assert json.dumps(found)


def test_the_best_class_of_a_box_is_its_own() -> None:
    scores = np.array([[[0.9, 0.1, 0.2], [0.9, 0.6, 0.3]]])
    step = made("boxes", scores="s", first_class=1, most=1)
    (found,) = step.apply(BOXES[:, :2], scores)
    assert [(each["index"], each["probability"]) for each in found] == [(1, 0.6)]


def test_a_count_says_how_many_boxes_are_meant() -> None:
    step = made("boxes", scores="s", classes="c", count="n")
    (found,) = step.apply(BOXES, SCORES, CLASSES, np.array([2]))
    assert [each["xmin"] for each in found] == [1, 0]


@pytest.mark.parametrize(
    ("form", "box"),
    [
        ("yxyx", [2, 1, 4, 3]),
        ("xywh", [1, 2, 2, 2]),
        ("cxcywh", [2, 3, 2, 2]),
        ("xyxy", [1, 2, 3, 4]),
    ],
)
def test_every_format_becomes_corners(form: str, box: list[float]) -> None:
    step = made("boxes", scores="s", format=form)
    ((feature,),) = step.apply(np.array([[box]]), np.ones((1, 1)))
    assert [feature[side] for side in ("xmin", "ymin", "xmax", "ymax")] == [1, 2, 3, 4]


def test_samples_may_have_boxes_of_their_own_number() -> None:
    step = made("boxes", scores="s", classes="c")
    found = step.apply(
        [BOXES[0], BOXES[0][:0]], [SCORES[0], SCORES[0][:0]], [CLASSES[0], CLASSES[0][:0]]
    )
    assert [len(each) for each in found] == [4, 0]


def test_scores_are_needed_and_nan_is_none() -> None:
    with pytest.raises(BadParameter, match="scores must be the layer_name"):
        made("boxes")
    (found,) = made("boxes", scores="s").apply(BOXES, np.full((1, 4), np.nan))
    assert found == []


@given(SEEDS)
def test_masks_are_coco_s_run_lengths(seed: int) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    pixels = np.random.default_rng(seed).random((1, 1, 5, 7))
    ((feature,),) = made("masks", scores="s").apply(pixels, np.ones((1, 1)))
    mask = feature["mask"]
    packed = coco.frPyObjects(mask, *mask["size"])
    assert coco.area(packed) == (pixels >= 0.5).sum()
    assert np.array_equal(pixels_of(Mask(5, 7, tuple(mask["counts"]))), pixels[0, 0] >= 0.5)
