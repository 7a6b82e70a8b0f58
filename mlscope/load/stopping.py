"""The stop rule of leveled measurement: whether another block follows. Pure."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from mlscope.counts import many
from mlscope.statistics.blocks import student_975
from schemas.request import Blocks
from schemas.run import ENDED_EARLY, BlockStatistics

LEAST_OF_RESULT = 3
"""The fewest blocks after which a result counts as known: fewer do not show the host's drift."""

OVERLOAD = "overload"
"""The reason of a load that ends because its queries come faster than they are answered."""


def block_statistics(block: int, service_ns: Sequence[int]) -> BlockStatistics:
    """Return a block's number of answered queries and the median of their service times (ns)."""
    median_ns = round(median(service_ns)) if service_ns else 0
    return BlockStatistics(block=block, queries=len(service_ns), median_ns=median_ns)


def relative_interval(medians: Sequence[float]) -> float:
    """Return the width of the 95% interval of the block medians' mean, relative to that mean.

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


def stop_reason(
    rule: Blocks, medians: Sequence[float], elapsed_s: float = 0.0, missing: str = ""
) -> str:
    """Return why a run's measurement ends after blocks with these `medians`; '' to go on.

    One of `least`, `interval`, `most`, `budget` of the `rule`. `elapsed_s` is the time since the
    first block of the group began. The budget is checked last: it ends only what nothing else
    does, and never before `least`. For a rule of the result, `missing` says what the result still
    lacks, '' for nothing.
    """
    if len(medians) < rule.least:
        return ""
    if rule.interval == 0 and not rule.budget_s:
        return "least"
    if rule.of == "result":
        is_known = len(medians) >= LEAST_OF_RESULT and not missing
    else:
        is_known = relative_interval(medians) < rule.interval
    if is_known:
        return "interval"
    if len(medians) >= rule.most:
        return "most"
    return "budget" if rule.budget_s and elapsed_s >= rule.budget_s else ""


def stop_caveat(
    rule: Blocks, medians: Sequence[float], reason: str, missing: str = "", extent: str = ""
) -> str:
    """Return the caveat of blocks that stopped before the `rule`'s interval was reached, or ''.

    `medians` are the blocks', `reason` that of `stop_reason` or `OVERLOAD`, `missing` as there.
    `extent` says how much was measured, '' for the number of blocks.
    """
    bounds = {
        "most": "the most allowed",
        "budget": f"its budget of {rule.budget_s:g} s spent",
        OVERLOAD: "because its answers did not keep up",
    }
    if not rule.interval or reason not in bounds:
        return ""
    bound = bounds[reason]
    count = extent or many(len(medians), "block")
    if rule.of == "result":
        return f"{ENDED_EARLY} {count}, {bound}: {missing}" if missing else ""
    width = relative_interval(medians)
    precision = (
        f"the interval of the median is {_percent(width)} of its value wide"
        if math.isfinite(width)
        else "the median has no interval"
    )
    return f"{ENDED_EARLY} {count}, {bound}: {precision}; {_percent(rule.interval)} was requested"


def _percent(share: float) -> str:
    """Return a share in percent, below one percent with two significant digits."""
    return f"{share:.1%}" if share >= 0.01 else f"{share * 100:.2g}%"
