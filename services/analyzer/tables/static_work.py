"""Static work: FLOP and bytes of each layer as its shapes tell, before anything runs."""

from typing import Any

import polars as pl

from mlscope.client.quantities import shown
from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.stacks import layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    whole,
)


def static_work(frames: Frames) -> Table:
    """Return a row a layer whose FLOP or bytes are known."""
    runs = list(layered_runs(frames))
    rows = [row for run in runs for row in _rows(run)]
    notes = [note for run in runs if rows and (note := _note(run))]
    verdict = _verdict(rows) if runs else no_layers(frames)
    return made(ANALYSIS, rows, verdict, [*trace_doubts(frames), *notes])


def _note(run: Run) -> str:
    missing = layers_of(run)["flops"].null_count()
    return f"{run.row.run}: {many(missing, 'layer')} of unknown FLOP" if missing else ""


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No layer says its FLOP or bytes."
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    flops = sum(row["flops"] or 0 for row in first)
    moved = sum(row["moved_bytes"] or 0 for row in first)
    size = first[0]["batch_size"]
    return (
        f"Layers of {first[0]['run']} compute {shown(flops, 'FLOP')} (2 a multiply-add) and move "
        f"at least {shown(moved, 'By')} a query of {many(size, 'sample')}."
    )


def _rows(run: Run) -> list[dict[str, Any]]:
    calls = pl.col("spans") / pl.col("queries")
    known = layers_of(run).filter(
        (pl.col("queries") > 0) & pl.any_horizontal(pl.col("flops", "bytes_read").is_not_null())
    )
    found = known.select(
        pl.col("place").alias("index"),
        "name",
        "type",
        "shape",
        calls.alias("calls"),
        (pl.col("flops") * calls).alias("flops"),
        (pl.col("bytes_read") * calls).alias("read_bytes"),
        (pl.col("bytes_written") * calls).alias("written_bytes"),
    ).with_columns((pl.col("read_bytes") + pl.col("written_bytes")).alias("moved_bytes"))
    total = float(found["flops"].sum())
    return [
        {
            **run_cells(run.row),
            **row,
            "intensity": share(row["flops"], row["moved_bytes"]),
            "share": share(row["flops"], total),
        }
        for row in found.to_dicts()
    ]


ANALYSIS = Analysis(
    name="static_work",
    title="FLOP and bytes as shapes tell",
    source=(
        "From layers' shapes: FLOP are 2 a multiply-add; bytes are every input, weight and output "
        "moved once, of a table only the rows taken: a lower bound of what DRAM moves without "
        "caches. Computed, not measured."
    ),
    columns=(
        *RUN_COLUMNS,
        whole("index", "Place in execution order, from 0."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        text("shape", "Shape of its output."),
        real("calls", "Calls of it a query.", "1"),
        real("flops", "Floating-point operations a query, 2 a multiply-add.", "FLOP"),
        real("read_bytes", "Bytes of its inputs and weights a query.", "By"),
        real("written_bytes", "Bytes of its outputs a query.", "By"),
        real("moved_bytes", "Both.", "By"),
        real("intensity", "FLOP over bytes.", "FLOP/By"),
        real("share", "Share of all layers' FLOP.", "1"),
    ),
    compute=static_work,
    chart=bars(("index", "Layer"), ("flops", "FLOP a query"), "name", "type"),
)
