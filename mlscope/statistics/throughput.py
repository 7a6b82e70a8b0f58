"""Samples a second with an interval, and the batch size worth having."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.errors import NoValues
from mlscope.statistics.intervals import Interval
from mlscope.statistics.values import require, require_probability

#: groups of consecutive queries whose rates are taken as independent, and the fewest queries in one
GROUPS, LEAST_IN_GROUP = 20, 2
GAIN = 0.05


@dataclass(frozen=True)
class Throughput:
    """Samples a second over a whole run, and how sure that is."""

    rate_hz: float
    samples: int
    interval: Interval


@dataclass(frozen=True)
class OptimalBatch:
    """The batch size chosen and why; `settled` is False where more batch sizes could change it."""

    batch_size: int
    settled: bool
    reason: str


def throughput(
    began_ns: int, ended_ns: ArrayLike, sizes: ArrayLike, confidence: float = 0.95
) -> Throughput:
    """Divide samples answered by the time from the start to the last answer.

    Takes int64 [queries] of when each query ended and how many samples it carried, in any order.
    The interval is by batch means: up to 20 groups of consecutive answers, so that what follows
    closely may depend on each other; ratio estimator (Cochran 1977, 6.3) with Student's t. Fewer
    than 10 queries have none.
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
    group_samples = np.diff(np.concatenate([[0], np.cumsum(carried)])[edges])
    group_s = np.diff(np.concatenate([[0.0], ends_s])[edges])
    residuals = group_samples - rate_hz * group_s
    error = math.sqrt(float((residuals**2).sum()) * groups / (groups - 1)) / float(ends_s[-1])
    reach = student_quantile((1.0 + confidence) / 2.0, groups - 1) * error
    low, high = max(0.0, rate_hz - reach), rate_hz + reach
    return Throughput(rate_hz, samples, Interval(low, high, confidence, "batch means"))


def optimal_batch(throughput_by_batch: Mapping[int, float], gain: float = GAIN) -> OptimalBatch:
    """Double the batch until doubling no longer raises throughput by more than `gain` (XSP III-D).

    The smallest batch size whose double was measured too and is not more than `gain` better.
    Only such pairs count: where none is flat, the largest size that a pair reaches, unsettled.
    """
    if not throughput_by_batch:
        raise NoValues
    sizes = sorted(throughput_by_batch)
    slowest = min(throughput_by_batch.values())
    require("throughput", slowest, slowest > 0.0, "above 0")
    pairs = [size for size in sizes if 2 * size in throughput_by_batch]
    for size in pairs:
        raised = throughput_by_batch[2 * size] / throughput_by_batch[size] - 1.0
        # 1.05 / 1 - 1 is 0.050000000000000044, and exactly 5 % is not more than 5 %.
        if raised <= gain + 1e-12:
            missing = _first_gap(sizes[0], size, throughput_by_batch)
            reason = f"doubling to {2 * size} changes throughput by {raised:+.1%}"
            reason += f"; {missing} was not measured" if missing else ""
            return OptimalBatch(size, not missing, reason)
    if not pairs:
        reason = "no batch size was measured together with its double"
        return OptimalBatch(max(sizes, key=throughput_by_batch.__getitem__), False, reason)
    largest = 2 * pairs[-1]
    reason = f"every doubling up to {largest} pays; {2 * largest} was not measured"
    return OptimalBatch(largest, False, reason)


def _first_gap(smallest: int, chosen: int, measured: Mapping[int, float]) -> int:
    """Find the first power-of-two multiple of `smallest` below `chosen` not measured, or 0."""
    size = smallest
    while size < chosen:
        if size not in measured:
            return size
        size *= 2
    return 0
