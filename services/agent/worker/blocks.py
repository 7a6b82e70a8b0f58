"""The stop rule of leveled measurement: whether another block follows, from block medians. Pure."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from mlscope.statistics.blocks import student_975
from schemas.request import Blocks
from schemas.run import BlockStatistics


def block_statistics(block: int, service_ns: Sequence[int]) -> BlockStatistics:
    """Return a block's number of answered queries and the median of their service times (ns)."""
    median_ns = round(median(service_ns)) if service_ns else 0
    return BlockStatistics(block=block, queries=len(service_ns), median_ns=median_ns)


def relative_interval(medians: Sequence[float]) -> float:
    """Return the width of the 95 % interval of the block medians' mean, relative to that mean.

    2 t(0.975, n - 1) s / (sqrt(n) mean), at least 0: blocks are apart in time, so their medians,
    unlike the queries of one block, may be taken as independent. Infinite below two blocks.
    """
    if len(medians) < 2:
        return math.inf
    mean = fmean(medians)
    if mean <= 0:
        return math.inf
    t = student_975(len(medians) - 1)
    return 2 * t * stdev(medians) / math.sqrt(len(medians)) / mean


def stop_reason(rule: Blocks, medians: Sequence[float], elapsed_s: float = 0.0) -> str:
    """Return why a run's measurement ends after blocks with these `medians`; '' to go on.

    One of `least`, `interval`, `most`, `budget` of the `rule`. `elapsed_s` is the time since the
    first block of the group began. The budget is checked last: it ends only what nothing else
    does, and never before `least`.
    """
    if len(medians) < rule.least:
        return ""
    if rule.interval == 0 and not rule.budget_s:
        return "least"
    if relative_interval(medians) < rule.interval:
        return "interval"
    if len(medians) >= rule.most:
        return "most"
    return "budget" if rule.budget_s and elapsed_s >= rule.budget_s else ""


def needs_another_block(
    rule: Blocks, runs: Sequence[Sequence[float]], elapsed_s: float = 0.0
) -> bool:
    """Return whether a group goes on under a `rule`, given the medians of each of its `runs`.

    Blocks interleave, so all runs of a group get as many. `elapsed_s` as in `stop_reason`.
    """
    return any(not stop_reason(rule, medians, elapsed_s) for medians in runs)


def stop_caveat(rule: Blocks, medians: Sequence[float], reason: str) -> str:
    """Return the caveat of blocks that stopped before the `rule`'s interval was reached, or ''.

    `medians` are the blocks', `reason` that of `stop_reason`.
    """
    if not rule.interval or reason not in ("most", "budget"):
        return ""
    bound = "the most allowed" if reason == "most" else f"its budget of {rule.budget_s:g} s spent"
    count = f"{len(medians)} {'block' if len(medians) == 1 else 'blocks'}"
    width = relative_interval(medians)
    interval = (
        f"an interval {_percent(width)} of it wide" if math.isfinite(width) else "no interval"
    )
    return (
        f"ended at {count}, {bound}: the median has {interval}, "
        f"{_percent(rule.interval)} was requested"
    )


def _percent(share: float) -> str:
    """Return a share in percent, below one percent with two significant digits."""
    return f"{share:.1%}" if share >= 0.01 else f"{share * 100:.2g}%"
