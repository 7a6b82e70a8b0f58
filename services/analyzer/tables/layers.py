"""Layers: index, name, type, shape and time of each layer (A2, A3), in execution order."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from mlscope.statistics import trimmed_mean
from schemas.analysis import Table
from services.analyzer.frames import LAYER_LEVEL, PREDICT, Frames, Run
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_ms,
    in_percent,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    trimmed_cells,
    whole,
)

NO_LAYERS = "No run at level framework has layers."


def layers(frames: Frames) -> Table:
    """Return a row a layer, from runs whose deepest level is framework: only those tell."""
    rows = [row for run in layered_runs(frames) for row in _rows(run)]
    verdict = NO_LAYERS
    if rows:
        first = [row for row in rows if row["run"] == rows[0]["run"]]
        slowest = max(first, key=lambda row: row["time"])
        verdict = (
            f"The slowest of {len(first)} layers is {slowest['name']} "
            f"({slowest['type']}): {in_ms(slowest['time'])} a query, "
            f"{in_percent(slowest['share'])} of predict in {slowest['run']}."
        )
    return made(ANALYSIS, rows, verdict, trace_doubts(frames))


def layered_runs(frames: Frames) -> Iterator[Run]:
    """Yield the runs whose deepest level is framework."""
    return (run for run in frames.measured if run.row.level == LAYER_LEVEL)


def layer_times(run: Run) -> pl.DataFrame:
    """Return time by layer and query: layer, name, query, time_ns, spans, and the layer's nature.

    A layer is one index and name: layers of the same name stay apart, those without an index by
    which of them in their query they are. They come in the order in which they first began, which
    is `place`.
    """
    key = ["layer", "name", "ordinal"]
    spans = _ordered(run.spans_at(LAYER_LEVEL))
    order = spans.sort("start_ns").unique(key, keep="first", maintain_order=True)
    places = order.select(key).with_row_index("place")
    summed = spans.group_by(*key, "query", maintain_order=True).agg(
        pl.col("duration_ns").sum().alias("time_ns"), pl.len().alias("spans")
    )
    nature = ["layer", "name"]
    natures = run.layers.with_columns(pl.col("layer").fill_null(-1)).unique(nature, keep="first")
    return (
        summed.join(places, on=key)
        .join(natures, on=nature, how="left", maintain_order="left")
        .sort("place", "query")
    )


def _ordered(spans: pl.DataFrame) -> pl.DataFrame:
    """Add `ordinal`: which of its name in its query a span without layer index is, else 0."""
    if spans["layer"].null_count() == 0:
        return spans.with_columns(pl.lit(0, pl.UInt32).alias("ordinal"))
    nth = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "name", order_by="start_ns")
    return spans.with_columns(
        pl.when(pl.col("layer").is_null()).then(nth).otherwise(0).alias("ordinal"),
        pl.col("layer").fill_null(-1),
    )


def predict_ns(run: Run) -> float | None:
    """Return the trimmed mean of predict a query, in the same run."""
    values = run.operator_ns(PREDICT)
    return trimmed_mean(values) if len(values) else None


def _rows(run: Run) -> list[dict[str, Any]]:
    whole_ns = predict_ns(run)
    rows = []
    for (place, name), part in layer_times(run).group_by("place", "name", maintain_order=True):
        time = trimmed_cells("time", part["time_ns"].to_numpy())
        rows.append(
            {
                **run_cells(run.row),
                "index": place,
                "name": name,
                "node": part["layer"][0],
                "type": part["type"][0] or "",
                "shape": part["shape"][0] or "",
                "provider": part["provider"][0] or "",
                "original": part["original"][0] or "",
                "queries": part.height,
                "spans": int(part["spans"].sum()),
                **time,
                "share": share(time["time"], whole_ns),
            }
        )
    return rows


ANALYSIS = Analysis(
    name="layers",
    title="Layers (A2)",
    source=(
        "XSP A2 and A3: from runs whose deepest level is framework; trimmed mean over queries of a "
        "layer's summed spans. Predict holds the cost of tracing too."
    ),
    columns=(
        *RUN_COLUMNS,
        whole("index", "Place in execution order, from 0."),
        text("name", "The layer's name."),
        whole("node", "The framework's own number for it; -1 when it has none."),
        text("type", "Its type."),
        text("shape", "Shape of its output."),
        text("provider", "What executed it."),
        text("original", "The model's own nodes it stands for, JSON."),
        whole("queries", "Queries it served."),
        whole("spans", "Spans of it."),
        *estimate("time", "Trimmed mean of its time a query."),
        real("share", "Share of predict's trimmed mean in the same run.", "1"),
    ),
    compute=layers,
)
