"""Images drawn anew: the bootstrap that SciPy does, and nothing where nothing can be drawn."""

import math

import numpy as np
from numpy.typing import NDArray

from mlscope.accuracy.resampling import image_interval
from tests.importing_later import imported_later

scipy_stats = imported_later("scipy.stats")

VALUES = np.random.default_rng(2).normal(5.0, 2.0, 40)


def _mean(times: NDArray[np.int64]) -> list[float]:
    return [float(times @ VALUES / times.sum())]


def test_it_is_the_percentile_bootstrap() -> None:
    (found,) = image_interval(_mean, VALUES.size, 4000) or []
    wanted = scipy_stats.bootstrap((VALUES,), np.mean, method="percentile", n_resamples=4000, rng=3)
    assert found.low is not None
    assert found.high is not None
    assert abs(found.low - wanted.confidence_interval.low) < 0.05
    assert abs(found.high - wanted.confidence_interval.high) < 0.05


def test_the_same_images_give_the_same_interval() -> None:
    assert image_interval(_mean, 40, 50) == image_interval(_mean, 40, 50)


def test_each_draw_has_as_many_images() -> None:
    seen: list[int] = []

    def drawn(times: NDArray[np.int64]) -> list[float]:
        seen.append(int(times.sum()))
        return [0.0]

    image_interval(drawn, 7, 20)
    assert seen == [7] * 20


def test_a_single_image_has_none_and_what_is_never_defined_no_ends() -> None:
    assert image_interval(lambda _: [1.0], 1, 10) is None
    (found,) = image_interval(lambda _: [math.nan], 5, 10) or []
    assert (found.low, found.high) == (None, None)
