"""The limit up to which evaluations of one subject differ."""

from math import exp, log, sqrt

import numpy as np
import pytest

from mlscope.statistics import Estimate, OutOfRange, certain_change, repeat_limit


def test_the_limit_is_t_times_the_root_of_two_of_the_spread_of_logarithms() -> None:
    # ln is -0.1, 0 and 0.1: s is 0.1; Student's t at 97.5% with 2 degrees of freedom is 4.303.
    limit = repeat_limit(("m", exp(value)) for value in (-0.1, 0.0, 0.1))
    assert limit == pytest.approx(exp(4.3027 * sqrt(2) * 0.1) - 1, rel=1e-4)


def test_subjects_have_their_own_mean_and_one_spread() -> None:
    pooled = repeat_limit([("a", 1.0), ("a", 1.1), ("b", 100.0), ("b", 110.0)])
    # Two differences of ln 1.1 have a spread of ln 1.1 / √2, with 2 degrees of freedom.
    assert pooled == pytest.approx(exp(4.3027 * log(1.1)) - 1, rel=1e-4)
    assert repeat_limit([("a", 1.0), ("a", 1.1), ("b", 100.0)]) is None
    with pytest.raises(OutOfRange, match="figure"):
        repeat_limit([("a", 0.0)])


def test_two_further_evaluations_differ_by_more_in_one_of_twenty() -> None:
    drawn = np.exp(np.random.default_rng(7).normal(0.0, 0.05, (400, 6)))
    beyond = [
        max(a / b, b / a) - 1 > (repeat_limit(("m", figure) for figure in others) or 0.0)
        for a, b, *others in drawn.tolist()
    ]
    assert 0.03 <= np.mean(beyond) <= 0.07


def test_a_change_within_the_drift_is_not_certain() -> None:
    before, now = Estimate(10.0, 9.9, 10.1), Estimate(12.0, 11.9, 12.1)
    changes = [certain_change(*pair, 0.25) for pair in ((before, now), (now, before))]
    assert changes == [0.0, 0.0]
    assert certain_change(before, now, 0.15) == pytest.approx(0.2)
    assert certain_change(now, before, 0.15) == pytest.approx(-1 / 6)
