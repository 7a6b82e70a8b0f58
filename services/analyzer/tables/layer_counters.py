"""Counters by layer (A12): FLOP, DRAM reads and writes of each layer's kernels."""

from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import side_by_side
from services.analyzer.tables.kernel_sums import (
    NO_COUNTERS,
    kernel_doubts,
    no_kernels,
    run_named,
    telling,
    traced_beside,
)
from services.analyzer.tables.kernels_by_layer import layer_rows
from services.analyzer.tables.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.tables.table import Analysis, in_percent, made, real, share, text, whole


def layer_counters(frames: Frames) -> Table:
    """Return a row a layer whose kernels were counted, the first layer among them."""
    traced = traced_beside(frames)
    names = [column.name for column in ANALYSIS.columns]
    rows = [
        {name: row[name] for name in names}
        for each in traced
        for row in layer_rows(each)
        if any(row[name] is not None for name in ("flops", "dram_read_bytes", "dram_write_bytes"))
    ]
    verdict = _verdict(rows) if rows else NO_COUNTERS if traced else no_kernels(frames)
    return made(ANALYSIS, rows, verdict, kernel_doubts(frames, traced))


def _verdict(rows: list[dict[str, Any]]) -> str:
    first = telling(rows)
    told: list[str] = []
    for name, what in (("flops", "FLOP"), ("dram_read_bytes", "DRAM reads")):
        known = [row for row in first if row[name] is not None]
        if known:
            top = max(known, key=lambda row: row[name])
            part = share(top[name], sum(row[name] for row in known))
            where = f"layer {top['name']}" if top["layer"] is not None else "no known layer"
            are = "" if told else " are"
            told.append(f"most {what}{are} in {where} ({in_percent(part)})")
    return (
        f"Of what {many(len(first), 'layer')} {verb(len(first), 'does', 'do')} in "
        f"{run_named(first[0])}, {', '.join(told)}."
    )


ANALYSIS = Analysis(
    name="layer_counters",
    id="A12",
    title="Counters by layer (A12)",
    source=(
        "XSP A12: FLOP, bytes read from and written to DRAM, summed over a layer's kernels, mean "
        "over the queries that were counted. Counters of a replay are no samples: no interval."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        whole("layer", "The layer's index; null: of kernels that belong to no known layer."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        whole("queries", "Queries it is over."),
        real("flops", "Floating-point operations a query, 2 a multiply-add.", "FLOP"),
        real("dram_read_bytes", "Bytes read from DRAM a query.", "By"),
        real("dram_write_bytes", "Bytes written to DRAM a query.", "By"),
        real("occupancy", "Achieved occupancy, weighted by latency.", "%"),
        real("counted", "Share of the time whose kernels have all counters.", "1"),
    ),
    compute=layer_counters,
    chart=side_by_side(
        ("layer", "Layer"),
        {
            "flops": "FLOP a query",
            "dram_read_bytes": "DRAM reads a query (bytes)",
            "dram_write_bytes": "DRAM writes a query (bytes)",
        },
    ),
)
