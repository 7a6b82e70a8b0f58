"""Throughput in samples a second with its interval, and the optimal batch size."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.statistics.clusters import LEAST_BLOCKS
from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.errors import NoValues
from mlscope.statistics.intervals import Interval, ratio_interval
from mlscope.statistics.ranking import Estimate, best
from mlscope.statistics.values import require, require_probability

#: groups of consecutive queries whose rates count as independent, and the fewest queries in each
GROUPS, LEAST_IN_GROUP = 20, 2
#: what Student's t needs; where fewer groups would do, the interval is too narrow
LEAST_INDEPENDENT = 3.0
GAIN = 0.05
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Throughput:
    """The throughput of a run in samples a second, with its confidence interval."""

    rate_hz: float
    samples: int
    interval: Interval


@dataclass(frozen=True)
class OptimalBatch:
    """The optimal batch size and the reason; `settled` is False if other sizes could change it.

    `candidates` are the measured sizes that the intervals do not tell apart as the optimal one.
    """

    batch_size: int
    settled: bool
    reason: str
    candidates: tuple[int, ...] = ()

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether the intervals leave one candidate only."""
        return len(self.candidates) < 2


def throughput(
    began_ns: int,
    ended_ns: ArrayLike,
    sizes: ArrayLike,
    confidence: float = 0.95,
    blocks: ArrayLike | None = None,
) -> Throughput:
    """Return the samples answered divided by the time from `began_ns` to the last answer.

    `ended_ns` and `sizes` are int64 [queries]: the time each query ended and its number of samples,
    in any order. The interval uses batch means: up to 20 groups of consecutive answers, within
    which answers may depend on each other; ratio estimator (Cochran 1977, 6.3) with Student's t at
    `confidence`. `blocks` are those of the queries, one after the other in time: where three or
    more differ more than the groups let expect, they are the groups. Without as many, groups that
    depend on the ones before count as fewer. Fewer than 10 queries have no interval. Raises
    NoValues, OutOfRange.
    """
    require_probability("confidence", confidence)
    ended = np.asarray(ended_ns, np.int64).ravel()
    if ended.size == 0:
        raise NoValues
    order = np.argsort(ended, kind="stable")
    carried = np.broadcast_to(np.asarray(sizes, np.int64), ended.shape)[order]
    ends_s = (ended[order] - began_ns) * 1e-9
    require("elapsed_s", float(ends_s[-1]), ends_s[-1] > 0.0, "above 0")
    samples = int(carried.sum())
    rate_hz = samples / float(ends_s[-1])
    groups = min(GROUPS, ended.size // LEAST_IN_GROUP)
    if groups < 5:
        return Throughput(rate_hz, samples, Interval(None, None, confidence, "too few queries"))
    edges = np.linspace(0, ended.size, groups + 1).astype(np.int64)
    of_groups = _residuals(carried, ends_s, edges)
    ordered = np.broadcast_to(0 if blocks is None else blocks, ended.shape)[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if starts.size + 1 < LEAST_BLOCKS:
        reach = _reach(of_groups, _independent_groups(of_groups), confidence)
    else:
        of_blocks = _residuals(carried, ends_s, np.concatenate([[0], starts, [ended.size]]))
        both = (of_groups, of_blocks)
        reach = max(_reach(residuals, residuals.size, confidence) for residuals in both)
    reach /= float(ends_s[-1])
    low, high = max(0.0, rate_hz - reach), rate_hz + reach
    return Throughput(rate_hz, samples, Interval(low, high, confidence, "batch means"))


def _independent_groups(residuals: NDArray[np.floating[Any]]) -> float:
    """Return how many independent groups say as much as those with these `residuals`, in order.

    It is n (1 - r) / (1 + r) for the correlation r of each with the one before, if they depend on
    each other through it alone (Bayley and Hammersley 1946), and `LEAST_INDEPENDENT` or more. An
    estimate of r is (1 + 3 r) / n too low (Kendall 1954). It counts as 0 where it is not above
    that of independent groups by a standard error, 1 / sqrt(n).
    """
    count, squares = residuals.size, float((residuals**2).sum())
    if squares == 0.0:
        return float(count)
    estimate = float((residuals[1:] * residuals[:-1]).sum()) / squares
    if estimate <= 1.0 / math.sqrt(count) - 1.0 / count:
        return float(count)
    correlation = min(1.0, estimate + (1.0 + 3.0 * estimate) / count)
    return max(LEAST_INDEPENDENT, count * (1.0 - correlation) / (1.0 + correlation))


def _residuals(
    sizes: NDArray[np.int64], ends_s: NDArray[np.floating[Any]], edges: NDArray[np.int64]
) -> NDArray[np.floating[Any]]:
    """Return the samples of each group between `edges` above those of the whole run's rate."""
    group_samples = np.diff(np.concatenate([[0], np.cumsum(sizes)])[edges])
    group_s = np.diff(np.concatenate([[0.0], ends_s])[edges])
    return np.asarray(group_samples - float(sizes.sum()) / float(ends_s[-1]) * group_s)


def _reach(residuals: NDArray[np.floating[Any]], independent: float, confidence: float) -> float:
    """Return how far the interval of a run's samples reaches to each side.

    Of its groups, which have these `residuals`, so many are `independent`.
    """
    groups = residuals.size
    variance = float((residuals**2).sum()) * groups / (groups - 1) * groups / independent
    return student_quantile((1.0 + confidence) / 2.0, int(independent) - 1) * math.sqrt(variance)


def optimal_batch(
    throughput_by_batch: Mapping[int, Estimate | float], gain: float = GAIN
) -> OptimalBatch:
    """Return the batch size from which doubling gains at most `gain` throughput (XSP III-D).

    This is the smallest batch size whose double was also measured and is not more than `gain`
    better. `throughput_by_batch` is samples a second by batch size, a number for an estimate
    without an interval. If every measured doubling
    gains more, it is the largest size of a doubling, unsettled. A further size is a candidate where
    the intervals of the gains allow it to be the answer. Raises NoValues, OutOfRange.
    """
    if not throughput_by_batch:
        raise NoValues
    rates = {
        size: rate if isinstance(rate, Estimate) else Estimate(float(rate))
        for size, rate in throughput_by_batch.items()
    }
    sizes = sorted(rates)
    slowest = min(rate.value for rate in rates.values())
    require("throughput", slowest, slowest > 0.0, "above 0")
    pairs = [size for size in sizes if 2 * size in rates]
    candidates = _candidates(rates, pairs, gain)
    for size in pairs:
        raised = rates[2 * size].value / rates[size].value - 1.0
        # 1.05 / 1 - 1 is 0.050000000000000044, and exactly 5% is not more than 5%.
        if raised <= gain + _ROUNDING:
            # The first power-of-two multiple of the smallest size that was not measured, or 0.
            multiples = (sizes[0] << power for power in range(size.bit_length()))
            gaps = (m for m in multiples if m < size and m not in rates)
            missing = next(gaps, 0)
            reason = f"doubling to {2 * size} changes throughput by {raised:+.1%}"
            reason += f"; {missing} was not measured" if missing else ""
            return OptimalBatch(size, not missing, reason, candidates)
    if not pairs:
        reason = "no batch size was measured together with its double"
        fastest = best([rates[size] for size in sizes])
        candidates = tuple(sizes[place] for place in (fastest.place, *fastest.rivals))
        return OptimalBatch(candidates[0], False, reason, candidates)
    largest = 2 * pairs[-1]
    reason = f"every doubling up to {largest} pays; {2 * largest} was not measured"
    return OptimalBatch(largest, False, reason, candidates)


def _candidates(
    rates: Mapping[int, Estimate], pairs: Sequence[int], gain: float
) -> tuple[int, ...]:
    """Return the sizes that may be optimal: up to the first doubling that certainly does not pay.

    Sizes whose doubling certainly gains more than `gain` are left out.
    """
    candidates = []
    for size in pairs:
        interval = ratio_interval(rates[2 * size], rates[size])
        limit = 1.0 + gain + _ROUNDING
        if interval.low is None or interval.low <= limit:
            candidates.append(size)
        if interval.high is not None and interval.high <= limit:
            return tuple(candidates)
    return (*candidates, 2 * pairs[-1]) if pairs else ()
