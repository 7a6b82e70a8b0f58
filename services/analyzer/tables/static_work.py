"""Static work: FLOP and bytes of each layer by its shapes, before anything runs."""

from typing import Any

import polars as pl

from mlscope.counts import many
from mlscope.quantities import shown
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.stacks import layered_runs
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    float_column,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    share,
    text_column,
    trace_warnings,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of, no_layers


def static_work(frames: Frames) -> Table:
    """Return a row for each layer with known FLOP or bytes."""
    runs = list(layered_runs(frames))
    rows: list[dict[str, Any]] = []
    calls = pl.col("spans") / pl.col("queries")
    for run in runs:
        is_known = pl.any_horizontal(pl.col("flops", "bytes_read").is_not_null())
        layers = layers_of(run).filter((pl.col("queries") > 0) & is_known)
        work = layers.select(
            pl.col("place").alias("index"),
            "node",
            "name",
            "type",
            "shape",
            calls.alias("calls"),
            (pl.col("flops") * calls).alias("flops"),
            (pl.col("bytes_read") * calls).alias("read_bytes"),
            (pl.col("bytes_written") * calls).alias("written_bytes"),
        ).with_columns((pl.col("read_bytes") + pl.col("written_bytes")).alias("moved_bytes"))
        total = float(work["flops"].sum())
        for row in work.to_dicts():
            shares = {
                "intensity": share(row["flops"], row["moved_bytes"]),
                "share": share(row["flops"], total),
            }
            rows.append({**run_cells(run.row), **row, **shares})
    caveats = trace_warnings(frames)
    for run in runs if rows else ():
        if missing := layers_of(run)["flops"].null_count():
            caveats.append(f"{run.row.run}: {many(missing, 'layer')} of unknown FLOP")
    verdict = _verdict(rows) if runs else no_layers(frames)
    return make_table(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "The FLOP and bytes of no layer are known."
    first = of_first_run(rows)
    flops = sum(row["flops"] or 0 for row in first)
    moved = sum(row["moved_bytes"] or 0 for row in first)
    size = first[0]["batch_size"]
    return (
        f"Layers of {first[0]['run']} compute {shown(flops, 'FLOP')} (a multiply-add is 2) and "
        f"move at least {shown(moved, 'By')} per query of {many(size, 'sample')}."
    )


ANALYSIS = Analysis(
    name="static_work",
    title="FLOP and bytes by the layers' shapes",
    source=(
        "From layers' shapes: a multiply-add is 2 FLOP; bytes are every input, weight and output "
        "moved once, of a lookup table only the rows read: a lower bound of the bytes that DRAM "
        "moves without caches. Computed, not measured."
    ),
    columns=(
        *RUN_COLUMNS,
        int_column("index", "Position in execution order, from 0."),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        text_column("shape", "Shape of the layer's output."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        float_column("calls", "Calls of the layer per query.", "1"),
        float_column("flops", "Floating-point operations per query; a multiply-add is 2.", "FLOP"),
        float_column("read_bytes", "Bytes of its inputs and weights per query.", "By"),
        float_column("written_bytes", "Bytes of its outputs per query.", "By"),
        float_column("moved_bytes", "Sum of the bytes read and written.", "By"),
        float_column("intensity", "Arithmetic intensity: FLOP per byte.", "FLOP/By"),
        float_column("share", "Share of all layers' FLOP.", "1"),
    ),
    compute=static_work,
    chart=layer_bars(Axis("flops", "FLOP per query", "FLOP"), "name", has_interval=False),
)
