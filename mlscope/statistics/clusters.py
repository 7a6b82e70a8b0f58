"""How much wider an interval is where values of one block of a measurement are alike.

Intervals of independent values do not cover a host that drifts from block to block. The design
effect does: the variance of a mean from the spread of the blocks' sums (Hansen, Hurwitz and Madow
1953, "ultimate clusters"), over the one of independent values (Kish 1965, 8.2). A percentile is the
mean of what lies below it (Woodruff 1952).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from mlscope.statistics.blocks import student_975
from mlscope.statistics.intervals import Interval
from mlscope.statistics.summary import TRIM, percentile, trimmed_count
from mlscope.statistics.values import sorted_values

LEAST_BLOCKS = 3
"""Fewer show the spread of blocks too badly: Student's t of two is six times the normal's."""
_NORMAL_975 = 1.96


def blocks_widening(values: ArrayLike, blocks: ArrayLike) -> float:
    """Return the factor by which an interval of the mean of `values` is to be wider, at least 1.

    `blocks`, of the same shape, says to which block a value belongs. The factor is the root of the
    design effect where that is above 1. Where equal blocks would exceed it in less than 5%, it is
    the blocks' spread that counts, with Student's t by their number in place of the normal's. The
    factor is 1 with fewer than `LEAST_BLOCKS`.
    """
    effect, count = _design_effect(values, blocks)
    if effect <= 1.0:
        return 1.0
    student = student_975(count - 1) / _NORMAL_975 if effect > _most_by_chance(count) else 1.0
    return math.sqrt(effect) * student


def differ_beyond_chance(values: ArrayLike, blocks: ArrayLike) -> bool:
    """Return whether some `blocks` have larger `values` than others, which chance rarely brings.

    `blocks` are as for `blocks_widening`. Equal blocks are said to differ in about 5%, however wide
    their values spread (Kruskal and Wallis 1952: the design effect of ranks).
    """
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    effect, count = _design_effect(ranks, blocks)
    return effect > 1.0 and effect > _most_by_chance(count)


def _design_effect(values: ArrayLike, blocks: ArrayLike) -> tuple[float, int]:
    """Return the design effect of `blocks` on the mean of `values`, and how many blocks there are.

    It is 0 where the blocks are too few to show it, or no larger than one value.
    """
    numbers = np.asarray(values, np.float64)
    _, places = np.unique(np.asarray(blocks), return_inverse=True)
    count = int(places.max()) + 1 if places.size else 0
    if count < LEAST_BLOCKS or numbers.size <= count:
        return 0.0, count
    deviations = numbers - numbers.mean()
    alone = numbers.size / (numbers.size - 1) * float((deviations**2).sum())
    sums = np.bincount(places, weights=deviations)
    together = count / (count - 1) * float((sums**2).sum())
    return (together / alone if together > alone else 0.0), count


def _most_by_chance(count: int) -> float:
    """Return the design effect that this number of equal blocks, 2 or more, exceeds in 5%.

    It is that of chi-squared over its degrees of freedom (Wilson and Hilferty 1931).
    """
    variance = 2 / (9 * (count - 1))
    return (1 - variance + 1.645 * math.sqrt(variance)) ** 3


def trimmed_widening(values: ArrayLike, blocks: ArrayLike, fraction: float = TRIM) -> float:
    """Return `blocks_widening` for the mean of `values` without the `fraction` at each end.

    `blocks` are as there. Values beyond the trimmed ends count as these ends (winsorised).
    """
    rising = sorted_values(values)
    dropped = trimmed_count(rising.size, fraction)
    winsorised = np.clip(values, rising[dropped], rising[rising.size - 1 - dropped])
    return blocks_widening(winsorised, blocks)


def percentile_widening(values: ArrayLike, p: float, blocks: ArrayLike) -> float:
    """Return `blocks_widening` for the percentile `p` of `values`; `blocks` are as there."""
    numbers = np.asarray(values)
    return blocks_widening(numbers <= percentile(numbers, p), blocks)


def widened(interval: Interval, value: float, factor: float) -> Interval:
    """Return an interval of a `value` that reaches `factor` times as far to each side.

    Below a positive value as a ratio, so that its low end is not negative: that of a time is none.
    """
    if factor == 1.0:
        return interval
    low = interval.low
    if low is not None:
        is_positive = 0 <= low <= value and value > 0
        low = value * (low / value) ** factor if is_positive else value - factor * (value - low)
    high = None if interval.high is None else value + factor * (interval.high - value)
    return Interval(low, high, interval.confidence, f"{interval.method}, blocks differ")
