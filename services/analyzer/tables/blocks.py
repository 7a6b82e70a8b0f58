"""Latency by block of a run; comparisons of versions pair the blocks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, series
from services.analyzer.building.grouped import trimmed
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    run_cells,
    run_warnings,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames


def blocks(frames: Frames) -> Table:
    """Return a row for each run and block with answered queries."""
    rows = []
    medians: dict[str, list[float]] = defaultdict(list)
    for run in frames.measured:
        answered = run.answered.with_columns(pl.Series("ns", run.latency_ns, pl.Int64))
        starts = dict(
            answered.group_by("block", maintain_order=True)
            .agg(pl.col("issued_ns").min())
            .iter_rows()
        )
        origin = min(starts.values(), default=0)
        for row in trimmed(answered, ["block"], "ns").to_dicts():
            cells = {
                **run_cells(run.row),
                "agent": run.row.agent,
                "variant": run.row.variant,
                "block": row["block"],
                "began": starts[row["block"]] - origin,
                "count": row["n"],
                "trimmed_mean": row["mid"],
                "trimmed_mean_low": row["low"],
                "trimmed_mean_high": row["high"],
                "median": row["median"],
            }
            rows.append(cells)
            medians[run.row.run].append(row["median"])
    spreads = {
        name: share(float(np.ptp(values)), float(np.median(values))) or 0.0
        for name, values in medians.items()
        if len(values) > 1
    }
    if not spreads:
        # A chart over blocks needs two of them.
        table = make_table(ANALYSIS, rows, _in_one_block(medians), run_warnings(frames))
        return table.model_copy(update={"chart": None})
    widest = max(spreads, key=lambda name: spreads[name])
    runs = (
        f"blocks differ most in {widest}" if len(spreads) > 1 else f"the blocks of {widest} differ"
    )
    verdict = (
        f"Medians of {runs}: the range is "
        f"{format_share(spreads[widest])} of their median, over "
        f"{many(len(medians[widest]), 'block')}."
    )
    return make_table(ANALYSIS, rows, verdict, run_warnings(frames))


def _in_one_block(medians: Mapping[str, Sequence[float]]) -> str:
    """Return the verdict on runs of one block each, by the median (ns) of that block."""
    if not medians:
        return "No run was measured in several blocks."
    longest = max(medians, key=lambda name: medians[name][0])
    (median,) = medians[longest]
    if len(medians) == 1:
        return f"{longest} was measured in one block: its median is {format_time(median)}."
    return (
        "Each run was measured in one block: the longest median is "
        f"{format_time(median)}, of {longest}."
    )


ANALYSIS = Analysis(
    name="blocks",
    title="Latency by block",
    source=(
        "MLModelScope's trimmed mean of each block; intervals by winsorised variance (Tukey and "
        "McLaughlin 1963). The blocks of a session's runs are interleaved."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column(
            "variant", "Variant of the process: serialised, counters, cold; empty for a plain one."
        ),
        int_column("block", "Number of the block, the same in all runs of its session."),
        float_column("began", "Time from the run's first query to the block's first query."),
        int_column("count", "Queries answered in the block."),
        *estimate_columns("trimmed_mean", "Mean without the lowest and highest 20%."),
        float_column("median", "Median."),
    ),
    compute=blocks,
    chart=series(
        ("block", "Block"), Axis("trimmed_mean", "Latency", "ns"), "run", "count", "median"
    ),
)
