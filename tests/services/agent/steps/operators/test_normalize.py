"""normalize: pixels to numbers around nought."""

import numpy as np

from tests.services.agent.steps.applying import apply

PIXELS = np.array([[[127, 255, 0]]], np.uint8)


def test_it_is_exact() -> None:
    result = apply("normalize", PIXELS, mean=127.0, scale=128.0)
    assert (result.dtype, result.tolist()) == (np.float32, [[[0.0, 1.0, -0.9921875]]])


def test_channels_have_numbers_of_their_own() -> None:
    result = apply("normalize", PIXELS, mean=[127, 0, 0], rescale=[1, 255, 1])
    assert result.tolist() == [[[0.0, 1.0, 0.0]]]


def test_without_parameters_only_the_type_changes() -> None:
    result = apply("normalize", PIXELS)
    assert (result.dtype, result.tolist()) == (np.float32, PIXELS.tolist())


def test_a_factor_comes_first_as_in_pytorch() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)
    mean, scale = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    found = apply("normalize", pixels, mean=mean, scale=scale, rescale_factor=1 / 255)
    assert np.allclose(found, (pixels / 255 - mean) / scale, atol=2e-6)
