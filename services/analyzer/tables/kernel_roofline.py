"""Kernel roofline (A9): each kernel's intensity and throughput below its device's roof.

Without counters, kernels that are alone in their layer, with what its shapes tell.
"""

from typing import Any

from mlscope.counts import be, many, verb
from schemas.analysis import Table
from services.analyzer.ceilings import roof_notes
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import roofline
from services.analyzer.tables.kernel_sums import (
    NO_COUNTERS,
    Traced,
    kernel_doubts,
    no_kernels,
    traced_of,
)
from services.analyzer.tables.kernels import kernel_rows
from services.analyzer.tables.stacks import STACK_COLUMNS
from services.analyzer.tables.static_points import above_roof, kernel_points
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    made,
    real,
    share,
    text,
    truth,
    whole,
)


def kernel_roofline(frames: Frames) -> Table:
    """Return a row a kernel that has an intensity, most time first."""
    traced = traced_of(frames)
    rows = [row for each in traced for row in _rows(each)]
    verdict = _verdict(rows) if rows else NO_COUNTERS if traced else no_kernels(frames)
    doubts = kernel_doubts(frames, traced)
    for each in traced:
        mine = [row for row in rows if row["run"] == each.run.row.run]
        if mine and not each.counted.has_counters:
            doubts.append(_left_out(each, len(mine)))
    told = {row["run"] for row in rows}
    roofs = roof_notes(each.run.row for each in traced if each.run.row.run in told)
    return made(ANALYSIS, rows, verdict, [*doubts, *roofs, *above_roof(rows)])


def _left_out(traced: Traced, shown: int) -> str:
    every = len(kernel_rows(traced))
    return (
        f"{traced.run.row.run}: nobody counted; {shown} of {many(every, 'kernel')} "
        f"{be(shown)} alone in a layer whose shapes tell its work, the others are not shown"
    )


def _verdict(rows: list[dict[str, Any]]) -> str:
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    judged = [row for row in first if row["memory_bound"] is not None]
    how = "" if first[0]["source"] == "counters" else " (as shapes tell, not as counted)"
    if not judged:
        return (
            f"{many(len(first), 'kernel')} {verb(len(first), 'has', 'have')} an intensity, and the "
            "roof of their device is unknown."
        )
    bound = [row for row in judged if row["memory_bound"]]
    part = share(sum(row["time"] for row in bound), sum(row["time"] for row in judged))
    return (
        f"{len(bound)} of {many(len(judged), 'kernel')} {be(len(bound))} memory-bound{how} in "
        f"{first[0]['run']}, {in_percent(part)} of their time."
    )


def _rows(traced: Traced) -> list[dict[str, Any]]:
    names = [column.name for column in ANALYSIS.columns]
    found, source = kernel_rows(traced), "counters"
    if not traced.counted.has_counters:
        found, source = kernel_points(traced, found), "static"
    told = {"source": source, "ridge": traced.ceilings.ideal_intensity}
    return [
        {**{k: v for k, v in row.items() if k in names}, **told, "of_roof": of_roof(row)}
        for row in found
        if row["intensity"] is not None
    ]


def of_roof(row: dict[str, Any]) -> float | None:
    """Return the share of what the device attains at a row's intensity."""
    return share(row["throughput"], row["roof"])


ANALYSIS = Analysis(
    name="kernel_roofline",
    id="A9",
    title="Roofline of kernels (A9)",
    source=(
        "XSP A9; the roof is min(peak, bandwidth x intensity) (Williams, Waterman and Patterson "
        "2009), of ceilings measured once on the device, else of its datasheet. Without counters "
        "FLOP and bytes are those of the layer's shapes, where one kernel does all of it."
    ),
    columns=(
        *STACK_COLUMNS,
        whole("layer", "Index of its layer; null where none is known."),
        text("layer_name", "That layer's name."),
        text("name", "The kernel's name."),
        whole("nth", "Which kernel of this name in its layer, from 0."),
        whole("queries", "Queries it is over."),
        *estimate("time", "Trimmed mean of its time a query."),
        text("source", "counters, or static: as the shapes of its layer tell."),
        real("intensity", "FLOP over bytes read and written.", "FLOP/By"),
        real("throughput", "FLOP over its time.", "FLOP/s"),
        real("roof", "What its device attains at this intensity.", "FLOP/s"),
        real("of_roof", "Throughput over the roof.", "1"),
        real("ridge", "The ideal intensity: peak over bandwidth.", "FLOP/By"),
        truth("memory_bound", "Whether intensity is below the ideal one; null where unknown."),
    ),
    compute=kernel_roofline,
    chart=roofline("name", "layer_name", "time", "of_roof"),
)
