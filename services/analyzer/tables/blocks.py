"""Blocks: latency by block of a run, which is what versions are paired by."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.grouped import trimmed
from services.analyzer.tables.charts import bars
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    estimate,
    in_percent,
    made,
    real,
    run_cells,
    share,
    text,
    whole,
)

_Cells = dict[str, Any]


def blocks(frames: Frames) -> Table:
    """Return a row a run and block with answered queries."""
    found = {run.row.run: list(_rows(run)) for run in frames.measured}
    rows = [row for own in found.values() for row in own]
    return made(ANALYSIS, rows, _verdict(found), doubts(frames))


def _verdict(found: Mapping[str, Sequence[_Cells]]) -> str:
    spreads = {run: _spread(rows) for run, rows in found.items() if len(rows) > 1}
    if not spreads:
        return "No run was measured in several blocks."
    run = max(spreads, key=lambda name: spreads[name])
    return (
        f"Medians of blocks differ most in {run}: from least to most by "
        f"{in_percent(spreads[run])} of their median, over {many(len(found[run]), 'block')}."
    )


def _spread(rows: Sequence[_Cells]) -> float:
    medians = np.array([row["median"] for row in rows])
    return share(float(np.ptp(medians)), float(np.median(medians))) or 0.0


def _rows(run: Run) -> Iterator[_Cells]:
    answered = run.answered.with_columns(pl.Series("ns", run.latency_ns, pl.Int64))
    begins = dict(answered.group_by("block").agg(pl.col("issued_ns").min()).iter_rows())
    origin = min(begins.values(), default=0)
    for row in trimmed(answered, ["block"], "ns").to_dicts():
        yield {
            **run_cells(run.row),
            "agent": run.row.agent,
            "variant": run.row.variant,
            "block": row["block"],
            "began": begins[row["block"]] - origin,
            "count": row["n"],
            "trimmed_mean": row["mid"],
            "trimmed_mean_low": row["low"],
            "trimmed_mean_high": row["high"],
            "median": row["median"],
        }


ANALYSIS = Analysis(
    name="blocks",
    title="Latency by block",
    source=(
        "MLModelScope's trimmed mean, of each block by itself; intervals by winsorised variance "
        "(Tukey and McLaughlin 1963). Blocks of a session's runs take turns."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        text("variant", "What was special about the process: serialised, counters, cold, nothing."),
        whole("block", "The block's number, the same in all runs of its session."),
        real("began", "When its first query was issued, since the run's first."),
        whole("count", "Queries answered in it."),
        *estimate("trimmed_mean", "Mean without the lowest and highest 20 %."),
        real("median", "Median."),
    ),
    compute=blocks,
    chart=bars(("block", "Block"), ("trimmed_mean", "Latency (ns)"), "count", "median"),
)
