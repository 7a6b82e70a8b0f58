"""Layer type distribution (A5): how many layers of each type a model has."""

from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.stacks import layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    real,
    text,
    trace_doubts,
    whole,
)
from services.analyzer.tables.type_sums import count_rows


def type_distribution(frames: Frames) -> Table:
    """Return a row a type, the most frequent first in a run."""
    rows = [row for run in layered_runs(frames) for row in _rows(run)]
    verdict = no_layers(frames)
    if rows:
        most = rows[0]
        kinds = sum(row["run"] == most["run"] for row in rows)
        verdict = (
            f"{many(most['layers'], 'layer')} {'is' if most['layers'] == 1 else 'are'} "
            f"{most['type'] or 'of unknown type'}, "
            f"{in_percent(most['share'])} of all in {most['run']}, which has {many(kinds, 'type')}."
        )
    return made(ANALYSIS, rows, verdict, trace_doubts(frames))


def _rows(run: Run) -> list[dict[str, Any]]:
    return count_rows(run, layers_of(run), "layers", (pl.col("queries") > 0).sum().alias("ran"))


ANALYSIS = Analysis(
    name="type_distribution",
    id="A5",
    title="Layers by type: how many (A5)",
    source="XSP A5: layers by type, each layer once. A count of the graph: no interval.",
    columns=(
        *RUN_COLUMNS,
        text("type", "The layers' type."),
        whole("layers", "Layers of it."),
        whole("ran", "Those of them that some query ran."),
        real("share", "Share of all layers.", "1"),
    ),
    compute=type_distribution,
    chart=pie(("layers", "Layers"), "type"),
)
