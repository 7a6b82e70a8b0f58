"""Differences between runs of two trace levels, block by block, and whether they hold.

Blocks of the runs interleave, so the difference is that of paired blocks (XSP III-C). It does not
hold where records were dropped, where the deeper run was certainly faster, or where a part of a
query certainly costs more than the whole. "Certainly" is by intervals at 95%.
"""

import numpy as np
import polars as pl

from mlscope.statistics import Interval, blocks_interval, percentile_interval
from services.analyzer.building.side_by_side import are_side_by_side
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, PREDICT, Run

UNTIMED = ("counters", "cold")
"""Variants of runs without comparable times: profilers replay in them, or models are opened."""
BEYOND_WHOLE = "deeper tracing adds more to the part than to the whole: the levels disagree"


def predict_times(run: Run) -> pl.DataFrame:
    """Return query, block and ns of predict in each answered query."""
    return query_times(run.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == PREDICT))


def query_times(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the summed time of spans in each query: query, block, ns."""
    return spans.group_by("query", "block", maintain_order=True).agg(
        pl.col("duration_ns").sum().alias("ns")
    )


def paired_blocks(shallower: pl.DataFrame, deeper: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the medians of ns in blocks that both runs have: block, less, more, change.

    `shallower` and `deeper` have query, block and ns, and the further columns `by`, which group
    the result too. `change` is more - less.
    """
    medians = [
        times.group_by(*by, "block", maintain_order=True).agg(pl.col("ns").median().alias(name))
        for times, name in ((shallower, "less"), (deeper, "more"))
    ]
    both = medians[0].join(medians[1], on=[*by, "block"]).sort(*by, "block")
    return both.with_columns((pl.col("more") - pl.col("less")).alias("change"))


def level_difference(
    blocks: pl.DataFrame, shallower: pl.DataFrame, deeper: pl.DataFrame
) -> tuple[float, Interval]:
    """Return by how much ns is longer in the deeper run: the mean over `blocks`, and its interval.

    `blocks` are those of `paired_blocks`; with several, the interval is Student's t over blocks.
    With one block it is the difference of the medians of the `shallower` and `deeper` ns, and its
    interval spans the ends of both medians' intervals.
    """
    if blocks.height > 1:
        changes = blocks["change"].to_numpy()
        return float(np.mean(changes)), blocks_interval(changes)
    less_ns, more_ns = shallower["ns"].to_numpy(), deeper["ns"].to_numpy()
    of_less, of_more = percentile_interval(less_ns, 0.5), percentile_interval(more_ns, 0.5)
    low = high = None
    if of_more.low is not None and of_less.high is not None:
        low = of_more.low - of_less.high
    if of_more.high is not None and of_less.low is not None:
        high = of_more.high - of_less.low
    value = float(np.median(more_ns) - np.median(less_ns))
    return value, Interval(low, high, 0.95, "ends of both medians' intervals")


def most_predict_overhead(shallower: Run, deeper: Run) -> float | None:
    """Return the upper end of the overhead (ns) on predict; None without a common block."""
    own_times, deeper_times = predict_times(shallower), predict_times(deeper)
    blocks = paired_blocks(own_times, deeper_times)
    return level_difference(blocks, own_times, deeper_times)[1].high if blocks.height else None


def invalid_reason(runs: tuple[Run, ...], interval: Interval) -> str:
    """Return why a difference of runs does not hold, '' where it does."""
    incomplete = [run.row.run for run in runs if run.row.dropped_records or run.row.dropped_batches]
    if incomplete:
        return f"records were dropped in {', '.join(incomplete)}"
    if interval.high is not None and interval.high < 0:
        return "the deeper run was certainly faster: the levels disagree"
    return ""


def layers_invalid_reason(run: Run, outside: pl.DataFrame) -> str:
    """Return why the layers of a run do not hold, '' where they do.

    `outside` is the time of predict without them: query, block, ns.
    """
    if run.row.dropped_records:
        return "records were dropped"
    values = outside["ns"].to_numpy()
    if are_side_by_side(run) or not len(values):
        return ""
    medians = (
        outside.group_by("block", maintain_order=True).agg(pl.col("ns").median())["ns"].to_numpy()
    )
    is_several = len(medians) > 1
    interval = blocks_interval(medians) if is_several else percentile_interval(values, 0.5)
    if interval.high is None or interval.high >= 0:
        return ""
    return "layers sum up to more than the predict around them: the levels disagree"


def is_beyond(low: float | None, limit: float | None) -> bool:
    """Return whether a part's cost, at least `low`, is above the `limit` of its whole."""
    return low is not None and limit is not None and low > max(limit, 0.0)
