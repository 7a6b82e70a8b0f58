"""PSNR and SSIM are scikit-image's, on its own photographs and on noise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlscope.accuracy import (
    NotANumber,
    ShapesDiffer,
    Unusable,
    mean_psnr,
    mean_squared_error,
    mean_ssim,
    psnr,
    ssim,
)
from mlscope.accuracy.images import Window
from tests.importing_later import imported_later

data = imported_later("skimage.data")
reference = imported_later("skimage.metrics")
PAPER: dict[str, object] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
OPTIONS: list[tuple[Window, dict[str, object]]] = [("gaussian", PAPER), ("uniform", {})]


def _noisy(photo: NDArray[np.uint8]) -> NDArray[np.uint8]:
    noise = np.random.default_rng(1).normal(0, 12, photo.shape)
    return np.clip(photo + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("window", "options"), OPTIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_agrees_with_scikit_image(
    window: Window, options: dict[str, object], channels: int
) -> None:
    photo = data.camera()[::4, ::3] if channels == 1 else data.astronaut()[::4, ::3]
    noisy, axis = _noisy(photo), None if channels == 1 else 2
    wanted = reference.structural_similarity(
        photo, noisy, data_range=255, channel_axis=axis, **options
    )
    assert ssim(photo, noisy, 255, window) == pytest.approx(wanted, abs=1e-9)
    wanted = reference.peak_signal_noise_ratio(photo, noisy, data_range=255)
    assert psnr(photo, noisy, 255) == pytest.approx(wanted, rel=1e-12)


def test_golden_values_by_hand() -> None:
    black, grey = np.zeros((12, 12), np.uint8), np.full((12, 12), 255, np.uint8)
    assert mean_squared_error(black, grey) == mean_squared_error(grey, black) == 65025.0
    assert psnr(black, grey, 255) == pytest.approx(0.0)
    # Without variance only the means count: C1 / (255^2 + C1).
    assert ssim(black, grey, 255) == pytest.approx(2.55**2 / (255**2 + 2.55**2))
    assert psnr(black, grey, 2550) == pytest.approx(20.0)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian", "uniform"]))
def test_bounds_symmetry_and_scale(seed: int, window: Window) -> None:
    one, other = np.random.default_rng(seed).random((2, 13, 12, 2))
    found = ssim(one, other, 1.0, window)
    assert -1.0 <= found <= 1.0
    assert ssim(other, one, 1.0, window) == pytest.approx(found)
    assert ssim(one, one, 1.0, window) == pytest.approx(1.0)
    assert ssim(one * 255, other * 255, 255, window) == pytest.approx(found)
    assert psnr(one * 255, other * 255, 255) == pytest.approx(psnr(other, one, 1.0))


def test_equal_images_are_infinite_and_left_out_of_the_mean() -> None:
    one, other = np.zeros((12, 12)), np.full((12, 12), 0.1)
    assert math.isinf(psnr(one, one, 1.0))
    found = mean_psnr([one, one], [one, other], 1.0)
    assert found.value == pytest.approx(20.0)
    assert (found.n, found.excluded) == (1, 1)
    assert found.caveats == ("1 equal images have infinite PSNR and are left out of the mean",)
    assert mean_psnr([one], [one], 1.0).value is None


def test_means_of_images() -> None:
    images = np.random.default_rng(3).random((3, 2, 12, 12))
    found = mean_ssim(images[:, 0].tolist(), images[:, 1].tolist(), 1.0)
    wanted = [ssim(one, other, 1.0) for one, other in images]
    assert found.value == pytest.approx(sum(wanted) / 3)
    assert "gaussian window, peak 1" in found.method
    assert found.interval is not None


def test_refuses_what_it_cannot_compare() -> None:
    image = np.zeros((12, 12))
    with pytest.raises(ShapesDiffer):
        psnr(image, image[:, :3], 1.0)
    with pytest.raises(ShapesDiffer):
        psnr(np.zeros(4), np.zeros(4), 1.0)
    with pytest.raises(ShapesDiffer):
        mean_psnr([image], [], 1.0)
    with pytest.raises(NotANumber, match="second"):
        psnr(image, image + math.nan, 1.0)
    with pytest.raises(NotANumber) as raised:
        mean_ssim([image, image], [image, image + math.inf], 1.0)
    assert raised.value.sample == 1
    for peak in (0.0, -1.0, math.nan):
        with pytest.raises(Unusable):
            psnr(image, image, peak)
    with pytest.raises(Unusable, match="shortest side"):
        ssim(image[:10], image[:10], 1.0)
    with pytest.raises(Unusable, match="window"):
        ssim(image, image, 1.0, "square")  # type: ignore[arg-type]
