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


def ended_by(rule: Blocks, medians: Sequence[float], passed_s: float = 0.0) -> str:
    """Return what ends one run's measurement after these blocks, '' where nothing does.

    `least`, `interval`, `most` or `budget`; `passed_s` is since the first block of its group
    began. The budget comes last: it ends what nothing else does, and never before `least`.
    """
    if len(medians) < rule.least:
        return ""
    if rule.interval == 0 and not rule.budget_s:
        return "least"
    if relative_interval(medians) < rule.interval:
        return "interval"
    if len(medians) >= rule.most:
        return "most"
    return "budget" if rule.budget_s and passed_s >= rule.budget_s else ""


def another_block(rule: Blocks, runs: Sequence[Sequence[float]], passed_s: float = 0.0) -> bool:
    """Say whether a group goes on: blocks interleave, so all its runs get as many."""
    return any(not ended_by(rule, medians, passed_s) for medians in runs)


def ending_note(rule: Blocks, medians: Sequence[float], ended: str) -> str:
    """Return what a reader must know of blocks that ended before their interval was reached."""
    if not rule.interval or ended not in ("most", "budget"):
        return ""
    bound = "the most allowed" if ended == "most" else f"its budget of {rule.budget_s:g} s spent"
    count = f"{len(medians)} {'block' if len(medians) == 1 else 'blocks'}"
    width = relative_interval(medians)
    found = f"an interval {_percent(width)} of it wide" if math.isfinite(width) else "no interval"
    wanted = _percent(rule.interval)
    return f"ended at {count}, {bound}: the median has {found}, {wanted} was wanted"


def _percent(share: float) -> str:
    """Return a share as percent; below one with two digits, however many noughts come first."""
    return f"{share:.1%}" if share >= 0.01 else f"{share * 100:.2g}%"
