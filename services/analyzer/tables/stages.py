"""Stages: in which third of a model its time, memory, FLOP and bytes lie."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import heat
from services.analyzer.tables.layer_frames import no_layers
from services.analyzer.tables.layer_work import (
    KERNELS,
    TIME_OF_COLUMN,
    LayerWork,
    work_doubts,
    works_of,
)
from services.analyzer.tables.margins import UNKNOWN, trimmed_margins
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    made,
    real,
    run_cells,
    share,
    text,
    whole,
)

STAGES = ("beginning", "middle", "end")
QUANTITIES = ("time", "memory_bytes", "flops", "moved_bytes")
_SAID = ("latency", "memory", "FLOP", "memory access")


def stages(frames: Frames) -> Table:
    """Return a row a stage: what its layers take, and which quantities it dominates."""
    works = works_of(frames)
    rows = [row for work in works for row in _rows(work)]
    verdict = _verdict(rows[:3], works[0]) if rows else no_layers(frames)
    return made(ANALYSIS, rows, verdict, list(work_doubts(frames, works)))


def _verdict(rows: list[dict[str, Any]], work: LayerWork) -> str:
    latency = "latency"
    if work.time_of == KERNELS:
        latency = "kernels' latency"
    elif work.is_launched:
        latency = "launching"
    told = [
        f"{row['dominates'].replace('latency', latency)} in the {row['stage']}"
        for row in rows
        if row["dominates"]
    ]
    if not told:
        return f"Layers of {rows[0]['run']} took no time."
    return f"Where most lies in {rows[0]['run']}: {'; '.join(told)}."


def _rows(work: LayerWork) -> list[dict[str, Any]]:
    ran = work.layers
    count = ran.height
    amounts = ran.with_columns(
        (pl.int_range(pl.len()) * 3 // max(count, 1)).alias("third"),
        (pl.col("bytes_read") + pl.col("bytes_written")).alias("moved_bytes"),
    )
    thirds = amounts.select("place", "third")
    spent = work.times.join(thirds, on="place").group_by("third", "query")
    times = trimmed_margins(spent.agg(pl.col("time_ns").sum()), ["third"], "time_ns")
    found = []
    for number, stage in enumerate(STAGES):
        part = amounts.filter(pl.col("third") == number)
        sums = times.get(number, UNKNOWN).cells("time")
        sums |= {name: _sum(part[name]) for name in QUANTITIES[1:]}
        places = part["place"]
        ends = {"first": places.min(), "last": places.max()}
        found.append(
            {
                **run_cells(work.run.row),
                "stage": stage,
                "layers": part.height,
                "queries": work.queries,
                **ends,
                **sums,
                "time_of": work.time_of,
            }
        )
    return [row | _shares(row, found) for row in found]


def _sum(values: pl.Series) -> float | None:
    """Return a sum, None where nothing is known."""
    return float(values.sum()) if values.count() else None


def _shares(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    most = []
    for name, said in zip(QUANTITIES, _SAID, strict=True):
        known = [each[name] for each in rows if each[name] is not None]
        cells[f"share_of_{name.removesuffix('_bytes')}"] = share(row[name], sum(known))
        first = next((each for each in rows if known and each[name] == max(known)), None)
        if first is row and max(known) > 0:
            most.append(said)
    return cells | {"dominates": ", ".join(most)}


ANALYSIS = Analysis(
    name="stages",
    title="Stages of a model",
    source=(
        "XSP IV: layers by index in execution order in thirds, and the third that dominates each "
        "quantity. Time is the trimmed mean of the layers' sum a query, by their kernels where "
        "these were traced; memory, FLOP and bytes as shapes tell."
    ),
    columns=(
        *RUN_COLUMNS,
        text("stage", "beginning, middle or end."),
        whole("layers", "Layers in it."),
        whole("queries", "Queries that its time is over."),
        whole("first", "Place of its first layer."),
        whole("last", "Place of its last layer."),
        *estimate("time", "Trimmed mean of its layers' summed time a query."),
        real("memory_bytes", "Bytes that its layers allocate, where they say so.", "By"),
        real("flops", "Floating-point operations of its layers' shapes, a call.", "FLOP"),
        real("moved_bytes", "Bytes that its layers read and write, as shapes tell.", "By"),
        real("share_of_time", "Share of all stages' time.", "1"),
        real("share_of_memory", "Share of all stages' memory.", "1"),
        real("share_of_flops", "Share of all stages' FLOP.", "1"),
        real("share_of_moved", "Share of all stages' bytes read and written.", "1"),
        text("dominates", "Of which quantities it has most."),
        TIME_OF_COLUMN,
    ),
    compute=stages,
    chart=heat(("stage", "Stage"), ("run", "Run"), ("share_of_time", "Share of time")),
)
