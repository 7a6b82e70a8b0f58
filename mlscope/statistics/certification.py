"""Certified tail percentiles: MLPerf's early stopping rule.

If t of n queries are above a bound, the bound is at least the percentile p with confidence c when
P(Binomial(n, 1 - p) <= t) <= 1 - c (LoadGen, early_stopping.cc, tolerance 0; c is 0.99 there).
"""

from functools import cache, lru_cache

from mlscope.statistics.distributions import binomial_cdf
from mlscope.statistics.values import require, require_probability

CONFIDENCE = 0.99


@lru_cache(maxsize=256)
def minimum_count(p: float, confidence: float = CONFIDENCE, above: int = 1) -> int:
    """Return the fewest queries that certify percentile `p` with `above` of them over the bound.

    `p` and `confidence` are in (0, 1). At a confidence of 0.99 and one query above, as LoadGen
    requires of latencies: 64 for p90, 662 for p99, 6,636 for p99.9; with none above, as it requires
    of a server's bound: 459 for p99. Raises OutOfRange.
    """
    require_probability("p", p)
    require_probability("confidence", confidence)
    require("above", above, above >= 0, "0 or more")
    low, high = above, above + 1
    while not _certifies(high, p, confidence, above):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _certifies(middle, p, confidence, above) else (middle, high)
    return high


def is_certified(p: float, count: int) -> bool:
    """Tell whether `count` queries certify their percentile `p`; a median needs no certificate."""
    return p <= 0.5 or count >= _least_count(p)


_least_count = cache(minimum_count)


def _certifies(count: int, p: float, confidence: float, above: int) -> bool:
    first, cdf = binomial_cdf(count, 1.0 - p)
    reached = 0.0 if above < first else float(cdf[min(above - first, cdf.size - 1)])
    return reached <= 1.0 - confidence
