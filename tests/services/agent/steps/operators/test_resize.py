"""resize: pixels to another size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from services.agent.errors import BadParameter
from tests.services.agent.steps.applying import apply

SIDES = st.integers(1, 40)


@pytest.mark.parametrize("dimensions", [5, [5, 5], [3, 5, 5]])
def test_sizes_come_in_three_forms(dimensions: Any) -> None:
    assert apply("resize", np.zeros((4, 6, 3), np.uint8), dimensions=dimensions).shape == (5, 5, 3)


@given(SIDES, SIDES, SIDES, SIDES)
def test_keeping_the_ratio_covers_the_wanted_size_and_no_more(
    height: int, width: int, wanted_height: int, wanted_width: int
) -> None:
    pixels = np.zeros((height, width, 3), np.uint8)
    wanted = [wanted_height, wanted_width]
    kept = apply("resize", pixels, dimensions=wanted, keep_aspect_ratio=True)
    assert kept.shape[0] >= wanted_height
    assert kept.shape[1] >= wanted_width
    assert kept.shape[0] == wanted_height or kept.shape[1] == wanted_width


def test_nearest_invents_no_value() -> None:
    pixels = np.array([[[0] * 3, [200] * 3]], np.uint8)
    grown = apply("resize", pixels, dimensions=[2, 8], method="nearest")
    assert set(np.unique(grown)) == {0, 200}


def test_bilinear_goes_in_between() -> None:
    pixels = np.array([[[0] * 3, [200] * 3]], np.uint8)
    grown = apply("resize", pixels, dimensions=[1, 8])
    assert np.all(np.diff(grown[0, :, 0].astype(int)) >= 0)
    assert len(np.unique(grown)) > 2


@given(SIDES, SIDES, st.integers(1, 50))
def test_the_longer_side_gets_the_greatest_dimension(height: int, width: int, most: int) -> None:
    kept = apply("resize", np.zeros((height, width, 3), np.uint8), max_dimension=most)
    assert max(kept.shape[:2]) == most
    assert abs(kept.shape[0] * width - kept.shape[1] * height) <= max(height, width)


@pytest.mark.parametrize(
    "method", ["nearest", "bilinear", "bicubic", "area", "box", "hamming", "lanczos"]
)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_method_is_pillow_s(method: str, channels: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (13, 17, channels), np.uint8)
    filter_ = Image.Resampling[method.replace("area", "box").upper()]
    found = apply("resize", pixels, dimensions=[7, 23], method=method)
    plane = Image.fromarray(pixels[:, :, 0]).resize((23, 7), filter_)
    assert found.shape == (7, 23, channels)
    # Pillow multiplies by alpha before it filters four channels, and divides after.
    if channels != 4:
        assert np.array_equal(found[:, :, 0], np.asarray(plane))


def test_area_is_the_mean_of_whole_blocks() -> None:
    pixels = np.random.default_rng(1).random((8, 12, 2)).astype(np.float32)
    found = apply("resize", pixels, dimensions=[4, 6], method="area")
    assert np.allclose(found, pixels.reshape(4, 2, 6, 2, 2).mean(axis=(1, 3)), atol=1e-6)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 256))
def test_the_longer_side_is_torchvision_s(height: int, width: int, side: int) -> None:
    # torchvision.transforms.functional._compute_resized_output_size: int(size * long / short)
    pixels = np.zeros((height, width, 1), np.uint8)
    kept = apply("resize", pixels, dimensions=side, keep_aspect_ratio=True, method="nearest")
    short, long = sorted((height, width))
    assert sorted(kept.shape[:2]) == [side, side * long // short]


@pytest.mark.parametrize("size", [(5, 7), (20, 31), (13, 17), (1, 40)])
def test_without_a_filter_it_is_scikit_image_s(size: tuple[int, int]) -> None:
    transform = pytest.importorskip("skimage.transform")
    pixels = np.random.default_rng(1).random((13, 17, 3), np.float32) * 255
    wanted = transform.resize(pixels, size, order=1, mode="edge", anti_aliasing=False)
    found = apply("resize", pixels, dimensions=list(size), antialias=False)
    assert np.abs(found - wanted).max() < 1e-4
    whole = apply(
        "resize", np.rint(pixels).astype(np.uint8), dimensions=list(size), antialias=False
    )
    assert whole.dtype == np.uint8
    assert np.abs(whole - wanted).max() <= 1.01


def test_a_picture_keeps_its_pixels_at_its_own_size_without_a_filter() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 6, 4), np.uint8)
    assert np.array_equal(apply("resize", pixels, dimensions=[5, 6], antialias=False), pixels)


def test_only_what_has_no_filter_goes_without() -> None:
    with pytest.raises(BadParameter, match="antialias must be true with bicubic"):
        apply("resize", None, dimensions=4, method="bicubic", antialias=False)
    pixels = np.random.default_rng(1).integers(0, 256, (9, 9, 3), np.uint8)
    found = [
        apply("resize", pixels, dimensions=4, method="nearest", antialias=each)
        for each in (True, False)
    ]
    assert np.array_equal(*found)


def test_a_size_is_needed_once() -> None:
    for parameters in ({}, {"dimensions": 4, "max_dimension": 4}):
        with pytest.raises(BadParameter, match="dimensions must be given, or else max_dimension"):
            apply("resize", None, **parameters)


@pytest.mark.parametrize(
    ("size", "expected"), [((30, 100), (48, 160)), ((30, 400), (24, 320)), ((96, 640), (48, 320))]
)
def test_inside_is_as_large_as_the_dimensions_let_it_be(
    size: tuple[int, int], expected: tuple[int, int]
) -> None:
    pixels = np.zeros((*size, 3), np.uint8)
    sides = {"dimensions": [3, 48, 320], "keep_aspect_ratio": True}
    assert apply("resize", pixels, **sides, fit="inside").shape == (*expected, 3)
