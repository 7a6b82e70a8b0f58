"""Layer types: how many layers of each there are (A5) and their time together (A6)."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.layers import NO_LAYERS, layer_times, layered_runs, predict_ns
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
    trimmed_cells,
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
    return made(ANALYSIS, rows, verdict, trace_doubts(frames))


def _rows(run: Run) -> list[dict[str, Any]]:
    times = layer_times(run).with_columns(pl.col("type").fill_null(""))
    summed = times.group_by("type", "query", maintain_order=True).agg(pl.col("time_ns").sum())
    counts = dict(times.unique("place").group_by("type").len().iter_rows())
    whole_ns = predict_ns(run)
    rows = []
    for (kind,), part in summed.group_by("type", maintain_order=True):
        time = trimmed_cells("time", part["time_ns"].to_numpy())
        rows.append(
            {
                **run_cells(run.row),
                "type": str(kind),
                "layers": counts[kind],
                "queries": part.height,
                **time,
                "share": share(time["time"], whole_ns),
            }
        )
    return ranked(rows, "share_of_layers")


ANALYSIS = Analysis(
    name="layer_types",
    title="Layers by type (A5, A6)",
    source="XSP A5 and A6: trimmed mean over queries of the summed spans of a type's layers.",
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
)
