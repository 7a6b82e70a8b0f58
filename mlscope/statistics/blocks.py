"""The confidence interval of the mean over a few blocks of a measurement."""

import math

import numpy as np
from numpy.typing import ArrayLike

from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.intervals import Interval

# Student's t at 97.5% by degrees of freedom from 1.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_975(freedom: int) -> float:
    """Return Student's t quantile at 97.5%; `freedom` is the degrees of freedom, 1 or more."""
    return _T[freedom - 1] if freedom <= len(_T) else student_quantile(0.975, freedom)


def blocks_interval(values: ArrayLike) -> Interval:
    """Return the 95% interval of the mean of the blocks' values: mean -+ t(n - 1) s / sqrt(n).

    Blocks are separated in time, so their medians may be taken as independent, as may differences
    between interleaved blocks of two runs. Fewer than two values have no interval.
    """
    blocks = np.asarray(values, dtype=np.float64)
    if blocks.size < 2:
        return Interval(None, None, 0.95, "too few blocks")
    half = student_975(blocks.size - 1) * float(np.std(blocks, ddof=1)) / math.sqrt(blocks.size)
    mean = float(np.mean(blocks))
    return Interval(mean - half, mean + half, 0.95, "Student's t over blocks")
