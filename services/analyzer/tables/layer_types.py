"""Layer latency by type (A6): the time of all layers of a type together."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.grouped import trimmed
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import (
    NO_LAYERS,
    layer_times,
    layers_of,
    predict_ns,
)
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
    layers = layers_of(run).filter(pl.col("queries") > 0)
    kinds = layers.group_by("type", maintain_order=True).agg(pl.len().alias("layers"))
    numbered = kinds.with_row_index("kind")
    of_place = layers.select("place", "type").join(numbered, on="type").select("place", "kind")
    summed = (
        layer_times(run)
        .join(of_place, on="place")
        .group_by("kind", "query")
        .agg(pl.col("time_ns").sum())
    )
    whole_ns = predict_ns(run)
    rows = [
        {
            **run_cells(run.row),
            "type": kinds["type"][row["kind"]],
            "layers": kinds["layers"][row["kind"]],
            "queries": row["n"],
            "time": row["mid"],
            "time_low": row["low"],
            "time_high": row["high"],
            "share": share(row["mid"], whole_ns),
        }
        for row in trimmed(summed, ["kind"], "time_ns").to_dicts()
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
