"""Layer latency by type (A6): the time of all layers of a type together."""

from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import no_layers
from services.analyzer.tables.layer_work import own_work
from services.analyzer.tables.stacks import (
    depth_doubts,
    launch_doubts,
    launched_runs,
    layered_runs,
    stacks_beside,
)
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    trace_doubts,
)
from services.analyzer.tables.type_sums import time_columns, time_rows


def layer_types(frames: Frames) -> Table:
    """Return a row a type and run, most time first in a run."""
    rows = [row for run in layered_runs(frames) for row in _rows(run)]
    verdict = no_layers(frames)
    if rows:
        most = rows[0]
        of_what = (
            "what launching takes" if most["run"] in launched_runs(frames) else "the layers' time"
        )
        verdict = (
            f"{most['type'] or 'An unknown type'} takes {in_percent(most['share_of_layers'])} of "
            f"{of_what} in {most['run']}, with {many(most['layers'], 'layer')}."
        )
    doubts = [*trace_doubts(frames), *depth_doubts(frames), *launch_doubts(stacks_beside(frames))]
    return made(ANALYSIS, rows, verdict, doubts)


def _rows(run: Run) -> list[dict[str, Any]]:
    work = own_work(run)
    layers = work.layers
    types = layers["type"].unique(maintain_order=True)
    numbered = types.to_frame("name").with_row_index("type")
    of_place = layers.join(numbered, left_on="type", right_on="name", suffix="_number")
    return time_rows(
        work, of_place.select("place", pl.col("type_number").alias("type")), "type", types.to_list()
    )


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
        *time_columns("type", "The layers' type."),
    ),
    compute=layer_types,
    chart=pie(("time", "Time a query (ns)"), "type"),
)
