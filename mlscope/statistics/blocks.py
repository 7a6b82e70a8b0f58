"""Blocks of a measurement: how sure the mean of a few of them is, and of their differences."""

import math

import numpy as np
from numpy.typing import ArrayLike

from mlscope.statistics.intervals import Interval

# Student's t at 97.5 % by degrees of freedom from 1; beyond 30 the normal's 1.96 is within 4 %.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_975(freedom: int) -> float:
    """Return Student's t at 97.5 % for 1 or more degrees of freedom."""
    return _T[freedom - 1] if freedom <= len(_T) else 1.96


def blocks_interval(values: ArrayLike) -> Interval:
    """Return the 95 % interval of the mean of what blocks gave: mean -+ t(n - 1) s / sqrt(n).

    Blocks are apart in time, so their medians, and differences of two runs' blocks that
    interleave, may be taken as independent. Fewer than two have no interval.
    """
    given = np.asarray(values, dtype=np.float64)
    if given.size < 2:
        return Interval(None, None, 0.95, "too few blocks")
    half = student_975(given.size - 1) * float(np.std(given, ddof=1)) / math.sqrt(given.size)
    mean = float(np.mean(given))
    return Interval(mean - half, mean + half, 0.95, "Student's t over blocks")
