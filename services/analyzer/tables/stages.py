"""Stages: the thirds of a model, with their share of its time, memory, FLOP and bytes."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, grouped_bars
from services.analyzer.building.layer_work import (
    KERNELS,
    TIME_OF_COLUMN,
    LayerWork,
    work_warnings,
    works_of,
)
from services.analyzer.building.margins import UNKNOWN, trimmed_margins
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    run_cells,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import no_layers

STAGES = ("beginning", "middle", "end")
QUANTITIES = ("time", "memory_bytes", "flops", "moved_bytes")
_QUANTITY_NAMES = ("latency", "memory", "FLOP", "memory access")


def stages(frames: Frames) -> Table:
    """Return a row for each stage: the amounts of its layers, and the quantities it dominates."""
    works = works_of(frames)
    rows = [row for work in works for row in _stage_rows(work)]
    verdict = _verdict(rows, works[0]) if rows else no_layers(frames)
    return make_table(ANALYSIS, rows, verdict, list(work_warnings(frames, works)))


def _verdict(rows: Sequence[dict[str, Any]], work: LayerWork) -> str:
    """Return in which stage of the first run each quantity is largest."""
    run = rows[0]["run"]
    latency = "time to launch" if work.is_launched else "latency"
    latency = "kernel latency" if work.time_of == KERNELS else latency
    dominated = [
        f"most {row['dominates'].replace('latency', latency)} is in the {row['stage']}"
        for row in rows[:3]
        if row["dominates"]
    ]
    slowest = leader(rows[:3], "time")
    question = f"which stage has most {latency}"
    if doubt := slowest.doubt(question, lambda row: str(row["stage"])):
        dominated.append(doubt)
    if not slowest.row["time"]:
        return f"Layers of {run} took no time."
    return f"In {run}, {'; '.join(dominated)}."


def _stage_rows(work: LayerWork) -> list[dict[str, Any]]:
    """Return a row for each third of the layers that ran in one run, in the order of `STAGES`."""
    ran = work.layers
    count = ran.height
    amounts = ran.with_columns(
        (pl.int_range(pl.len()) * 3 // max(count, 1)).alias("third"),
        (pl.col("bytes_read") + pl.col("bytes_written")).alias("moved_bytes"),
    )
    thirds = amounts.select("place", "third")
    spent = work.times.join(thirds, on="place").group_by("third", "query", maintain_order=True)
    times = trimmed_margins(spent.agg(pl.col("time_ns").sum()), ["third"], "time_ns")
    rows: list[dict[str, Any]] = []
    for number, stage in enumerate(STAGES):
        part = amounts.filter(pl.col("third") == number)
        sums: dict[str, Any] = times.get(number, UNKNOWN).cells("time")
        for name in QUANTITIES[1:]:
            # None where nothing is known.
            sums[name] = float(part[name].sum()) if part[name].count() else None
        places = part["place"]
        cells = {
            **run_cells(work.run.row),
            "stage": stage,
            "layers": part.height,
            "queries": work.queries,
            "first": places.min(),
            "last": places.max(),
            **sums,
            "time_of": work.time_of,
        }
        rows.append(cells)
    dominated: list[list[str]] = [[] for _ in rows]
    for quantity, name in zip(QUANTITIES, _QUANTITY_NAMES, strict=True):
        known_amounts = [row[quantity] for row in rows if row[quantity] is not None]
        for row in rows:
            row[f"share_of_{quantity.removesuffix('_bytes')}"] = share(
                row[quantity], sum(known_amounts)
            )
        if known_amounts and max(known_amounts) > 0:
            dominant = next(
                at for at, row in enumerate(rows) if row[quantity] == max(known_amounts)
            )
            # Only times have intervals: the other amounts follow from shapes.
            if quantity != "time" or not leader(rows, "time").rivals:
                dominated[dominant].append(name)
    return [
        row | {"dominates": ", ".join(names)} for row, names in zip(rows, dominated, strict=True)
    ]


ANALYSIS = Analysis(
    name="stages",
    title="Stages of a model",
    source=(
        "XSP IV: layers in execution order, divided into thirds by their index, and the third that "
        "dominates each quantity. Time is the trimmed mean of the layers' sum per query, by kernel "
        "time where kernels were traced; memory, FLOP and bytes are those of the shapes."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("stage", "The third: beginning, middle or end."),
        int_column("layers", "Layers in the stage."),
        int_column("queries", "Queries measured."),
        int_column("first", "Position of its first layer."),
        int_column("last", "Position of its last layer."),
        *estimate_columns("time", "Trimmed mean of its layers' summed time per query."),
        float_column("memory_bytes", "Bytes that its layers allocate, where known.", "By"),
        float_column("flops", "Floating-point operations of its layers' shapes per call.", "FLOP"),
        float_column("moved_bytes", "Bytes that its layers read and write, by their shapes.", "By"),
        float_column("share_of_time", "Share of all stages' time.", "1"),
        float_column("share_of_memory", "Share of all stages' memory.", "1"),
        float_column("share_of_flops", "Share of all stages' FLOP.", "1"),
        float_column("share_of_moved", "Share of all stages' bytes read and written.", "1"),
        text_column(
            "dominates",
            "The quantities of which the stage has the most; latency where its interval is apart.",
        ),
        TIME_OF_COLUMN,
    ),
    compute=stages,
    chart=grouped_bars(
        ("stage", "Stage"),
        {
            "share_of_time": "time",
            "share_of_memory": "memory",
            "share_of_flops": "FLOP",
            "share_of_moved": "memory access",
        },
        Axis("", "Share of the model", "share"),
        "layers",
    ),
)
