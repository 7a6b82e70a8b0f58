"""Layer type distribution (A5): how many layers of each type a model has."""

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.stacks import layered_runs
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    float_column,
    format_share,
    int_column,
    make_table,
    text_column,
    trace_warnings,
)
from services.analyzer.building.type_sums import count_rows
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of, no_layers


def type_distribution(frames: Frames) -> Table:
    """Return a row for each run and type, the most frequent first in a run."""
    ran = (pl.col("queries") > 0).sum().alias("ran")
    runs = layered_runs(frames)
    rows = [row for run in runs for row in count_rows(run, layers_of(run), "layers", ran)]
    verdict = no_layers(frames)
    if rows:
        largest = rows[0]
        kinds = sum(row["run"] == largest["run"] for row in rows)
        verdict = (
            f"{many(largest['layers'], 'layer')} {'is' if largest['layers'] == 1 else 'are'} "
            f"{largest['type'] or 'of unknown type'}, {format_share(largest['share'])} of all in "
            f"{largest['run']}, which has {many(kinds, 'type')}."
        )
    return make_table(ANALYSIS, rows, verdict, trace_warnings(frames))


ANALYSIS = Analysis(
    name="type_distribution",
    id="A5",
    title="Layers by type: how many (A5)",
    source="XSP A5: layers by type, each layer once, by the graph: no interval.",
    columns=(
        *RUN_COLUMNS,
        text_column("type", "Type of the layers."),
        int_column("layers", "Layers of the type."),
        int_column("ran", "Layers of the type that some query ran."),
        float_column("share", "Share of all layers.", "1"),
    ),
    compute=type_distribution,
    chart=ranked(("type", "Type"), Axis("layers", "Layers"), color="type", has_interval=False),
)
