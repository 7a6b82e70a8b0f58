"""What a benchmark says of a claim is no more than its intervals let it."""

import numpy as np
import pytest

from benchmarks.predict import WANTED_US, Over

ALIKE = Over(0.0, -2.0, 3.0)
"""What two calls of a kind differ by."""


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-5.0, WANTED_US, "holds"),
        (4.0, WANTED_US + 0.1, "cannot be told here"),
        (WANTED_US + 2.9, 90.0, "cannot be told here"),
        (WANTED_US + 3.1, 90.0, "MISSED"),
    ],
)
def test_a_claim_is_judged_by_both_ends(low: float, high: float, said: str) -> None:
    assert Over((low + high) / 2, low, high).verdict(ALIKE) == said


def test_too_few_differences_decide_nothing() -> None:
    over = Over.of(np.array([1.0, 2.0, 1.5]))
    assert (over.median_us, over.verdict(ALIKE)) == (1.5, "cannot be told here")


def test_many_differences_have_an_interval_around_their_median() -> None:
    over = Over.of(np.arange(101.0))
    assert over.low_us < over.median_us == 50 < over.high_us
