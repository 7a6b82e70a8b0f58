"""Layer latency by type (A6): the time of all layers of a type together."""

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.layer_work import own_work
from services.analyzer.building.stacks import (
    depth_warnings,
    launch_warnings,
    launched_runs,
    layered_runs,
    stacks_with_serialised,
)
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    format_share,
    make_table,
    trace_warnings,
)
from services.analyzer.building.type_sums import time_columns, time_rows
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import no_layers


def layer_types(frames: Frames) -> Table:
    """Return a row for each run and type, longest time first in a run."""
    rows = []
    for run in layered_runs(frames):
        work = own_work(run)
        types = work.layers["type"].unique(maintain_order=True)
        numbered = types.to_frame("name").with_row_index("number")
        layers = work.layers.join(numbered, left_on="type", right_on="name")
        of_place = layers.select("place", pl.col("number").alias("type"))
        rows += time_rows(work, of_place, "type", types.to_list())
    verdict = no_layers(frames)
    if rows:
        top = rows[0]
        is_launched = top["run"] in launched_runs(frames)
        total_time = "the time to launch" if is_launched else "the layers' time"
        verdict = (
            f"{top['type'] or 'An unknown type'} takes {format_share(top['share_of_layers'])} of "
            f"{total_time} in {top['run']}, with {many(top['layers'], 'layer')}."
        )
    caveats = [
        *trace_warnings(frames),
        *depth_warnings(frames),
        *launch_warnings(stacks_with_serialised(frames)),
    ]
    return make_table(ANALYSIS, rows, verdict, caveats)


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
        *time_columns("type", "Type of the layers."),
    ),
    compute=layer_types,
    chart=ranked(
        ("type", "Type"), Axis("time", "Time per query", "ns"), "layers", "share", color="type"
    ),
)
