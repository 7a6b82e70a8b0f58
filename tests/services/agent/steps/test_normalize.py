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
