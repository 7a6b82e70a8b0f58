"""The stop rule of leveled measurement. Pure: block medians in, go on or not out."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from mlscope.statistics.blocks import student_975
from schemas.request import Blocks
from schemas.run import BlockStatistics


def block_statistics(block: int, service_ns: Sequence[int]) -> BlockStatistics:
    """Return a block's count of queries answered well and the median of their service times."""
    middle = round(median(service_ns)) if service_ns else 0
    return BlockStatistics(block=block, queries=len(service_ns), median_ns=middle)


def relative_interval(medians: Sequence[float]) -> float:
    """Return the width of the 95 % interval of the block medians' mean, relative to it.

    2 t(0.975, n - 1) s / (sqrt(n) mean): blocks are apart in time, so their medians, unlike
    the queries in one block, may be taken as independent. Infinite below two blocks.
    """
    if len(medians) < 2:
        return math.inf
    mean = fmean(medians)
    if mean <= 0:
        return math.inf
    t = student_975(len(medians) - 1)
    return 2 * t * stdev(medians) / math.sqrt(len(medians)) / mean


def settled(rule: Blocks, medians: Sequence[float]) -> bool:
    """Say whether one run's measurement may end after these blocks."""
    if len(medians) >= rule.most:
        return True
    if len(medians) < rule.least:
        return False
    return rule.interval == 0 or relative_interval(medians) < rule.interval


def another_block(rule: Blocks, runs: Sequence[Sequence[float]]) -> bool:
    """Say whether a group goes on: blocks interleave, so all its runs get as many."""
    return any(not settled(rule, medians) for medians in runs)
