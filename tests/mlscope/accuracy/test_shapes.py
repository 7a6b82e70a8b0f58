"""Overlaps are pycocotools', and masks survive being coded."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from pycocotools import mask as coco

from mlscope.accuracy import (
    Mask,
    ShapesDiffer,
    Unusable,
    boxes_of_corners,
    decompressed,
    map_of_runs,
    mask_of,
    overlaps,
)
from mlscope.accuracy.shapes import areas, as_shapes, pixels_of

pixels = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=20))
boxes = st.lists(
    st.tuples(*[st.floats(-50, 50)] * 2, *[st.just(0.0) | st.floats(1e-3, 60)] * 2),
    min_size=1,
    max_size=6,
)


@given(pixels)
def test_a_mask_survives_being_coded(table: NDArray[np.bool_]) -> None:
    mask = mask_of(table)
    assert np.array_equal(pixels_of(mask), table)
    assert areas([mask])[0] == table.sum()


@given(pixels)
def test_masks_are_coded_as_pycocotools_does(table: NDArray[np.bool_]) -> None:
    coded = coco.encode(np.asfortranarray(table.astype(np.uint8)))
    assert decompressed(coded["counts"].decode(), *table.shape) == mask_of(table)


def test_long_runs_are_decompressed() -> None:
    table = np.zeros((700, 900), np.uint8)
    table[3:650, 5:20], table[100:, 800:] = 1, 1
    coded = coco.encode(np.asfortranarray(table))
    assert decompressed(coded["counts"].decode(), 700, 900) == mask_of(table)


def test_masks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapesDiffer):
        Mask(2, 2, (1, 2))
    with pytest.raises(ShapesDiffer):
        Mask(2, 2, (5, -1))
    with pytest.raises(ShapesDiffer):
        mask_of([1, 0])
    for text in ("\x01", "p", "o" * 1_000_000):
        with pytest.raises(Unusable):
            decompressed(text, 2, 2)
    with pytest.raises(ShapesDiffer, match="size of masks"):
        overlaps([mask_of([[1, 0]])], [mask_of([[1], [0]])])


@given(boxes, boxes, st.integers(0, 63))
def test_box_overlaps_are_pycocotools(
    found: list[tuple[float, ...]], true: list[tuple[float, ...]], bits: int
) -> None:
    crowd = [bits >> at & 1 for at in range(len(true))]
    one, other = np.array(found), np.array(true)
    ours = overlaps(one, other, crowd)
    with np.errstate(all="ignore"):
        theirs = coco.iou(one, other, crowd)
    assert np.allclose(ours, np.nan_to_num(theirs), rtol=1e-12, atol=0)
    assert ours.min() >= 0.0


@given(st.data())
def test_mask_overlaps_are_pycocotools(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=2, max_dims=2, max_side=12))
    tables = data.draw(st.lists(arrays(bool, shape), min_size=2, max_size=6))
    crowd = [at % 2 for at in range(len(tables))]
    coded = [coco.encode(np.asfortranarray(table.astype(np.uint8))) for table in tables]
    masks = [mask_of(table) for table in tables]
    theirs = np.nan_to_num(coco.iou(coded, coded, crowd))
    assert np.allclose(overlaps(masks, masks, crowd), theirs, rtol=1e-12, atol=0)


@given(boxes, boxes)
def test_overlap_is_symmetric_and_whole_with_itself(
    found: list[tuple[float, ...]], true: list[tuple[float, ...]]
) -> None:
    one, other = np.array(found), np.array(true)
    assert np.allclose(overlaps(one, other), overlaps(other, one).T, atol=1e-12)
    own = np.diagonal(overlaps(one, one))
    assert np.allclose(own[(one[:, 2:] > 1e-3).all(axis=1)], 1.0, atol=1e-6)
    assert overlaps(one, other).max() <= 1.0 + 1e-6


def test_boxes_apart_do_not_overlap_even_diagonally() -> None:
    # The product of two negative sides is positive: unclamped, these would overlap.
    assert overlaps(as_shapes([[0, 0, 1, 1]]), as_shapes([[5, 5, 1, 1]]))[0, 0] == 0.0


def test_empty_sides() -> None:
    assert overlaps(as_shapes([]), as_shapes([[0, 0, 1, 1]])).shape == (0, 1)
    assert overlaps(as_shapes([[3, 3, 0, 0]]), as_shapes([[3, 3, 0, 0]]))[0, 0] == 0.0
    assert overlaps([mask_of([[0, 0]])], [mask_of([[0, 0]])])[0, 0] == 0.0


def test_corners_become_boxes() -> None:
    assert boxes_of_corners([[10, 20, 40, 25]]).tolist() == [[10, 20, 30, 5]]
    assert boxes_of_corners([]).shape == (0, 4)
    with pytest.raises(ShapesDiffer):
        boxes_of_corners([1, 2, 3, 4])


def test_boxes_are_not_compared_with_masks() -> None:
    with pytest.raises(ShapesDiffer, match="boxes against masks"):
        overlaps(as_shapes([[0, 0, 1, 1]]), [mask_of([[1]])])


@pytest.mark.parametrize(
    ("runs", "size"),
    [
        ([[1, 10**11]], [1, 10**11]),
        ([[1, 10**11]], [2, 2]),
        ([[1, 2**62], [1, 2**62], [0, 2**63]], [0, 0]),
        ([[1, 5], [0, -1]], [2, 2]),
        ([[10**30, 4]], [2, 2]),
        ([[1, 4]], [-2, -2]),
    ],
    ids=["size", "run", "overflow", "negative", "class", "negative size"],
)
def test_runs_that_do_not_fit_are_refused_before_they_are_decoded(runs: Any, size: Any) -> None:
    with pytest.raises((ShapesDiffer, Unusable)):
        map_of_runs(runs, size)


def test_runs_are_rows_of_a_map() -> None:
    assert map_of_runs([[7, 4], [2, 2]], [2, 3]).tolist() == [[7, 7, 7], [7, 2, 2]]


def test_a_mask_of_any_size_is_refused() -> None:
    with pytest.raises(Unusable, match="1000000 x 1000000"):
        Mask(10**6, 10**6, (0, 10**12))
