"""Layer latency by type (A6): the time of all layers of a type together."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.grouped import trimmed
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import NO_LAYERS, layer_times, predict_ns
from services.analyzer.tables.stacks import depth_doubts, layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_percent,
    made,
    ranked,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    whole,
)


def layer_types(frames: Frames) -> Table:
    """Return a row a type and run, most time first in a run."""
    rows = [row for run in layered_runs(frames) for row in _rows(run)]
    verdict = NO_LAYERS
    if rows:
        most = rows[0]
        verdict = (
            f"{most['type']} takes {in_percent(most['share_of_layers'])} of the layers' time "
            f"in {most['run']}, with {most['layers']} layers."
        )
    return made(ANALYSIS, rows, verdict, [*trace_doubts(frames), *depth_doubts(frames)])


def _rows(run: Run) -> list[dict[str, Any]]:
    times = layer_times(run).with_columns(pl.col("type").fill_null(""))
    summed = times.group_by("type", "query", maintain_order=True).agg(pl.col("time_ns").sum())
    counts = dict(times.unique("place").group_by("type").len().iter_rows())
    whole_ns = predict_ns(run)
    rows = [
        {
            **run_cells(run.row),
            "type": kind,
            "layers": counts[kind],
            "queries": queries,
            "time": time,
            "time_low": low,
            "time_high": high,
            "share": share(time, whole_ns),
        }
        for kind, queries, time, low, high in trimmed(summed, ["type"], "time_ns").iter_rows()
    ]
    return ranked(rows, "share_of_layers")


ANALYSIS = Analysis(
    name="layer_types",
    id="A6",
    title="Layers by type: latency (A6)",
    source=(
        "XSP A6: trimmed mean over queries of the summed spans of a type's layers, interval by "
        "winsorised variance (Tukey and McLaughlin 1963)."
    ),
    columns=(
        *RUN_COLUMNS,
        text("type", "The layers' type."),
        whole("layers", "Layers of it."),
        whole("queries", "Queries they served."),
        *estimate("time", "Trimmed mean of their time a query."),
        real("share_of_layers", "Share of the types' summed trimmed means.", "1"),
        real("share", "Share of predict's trimmed mean in the same run.", "1"),
    ),
    compute=layer_types,
    chart=pie(("time", "Time a query (ns)"), "type"),
)
