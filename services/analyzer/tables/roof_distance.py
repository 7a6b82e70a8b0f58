"""Distance from the roof: how much faster the device could do a model's work, layer by layer."""

from typing import Any

from schemas.analysis import Table
from services.analyzer.ceilings import Ceilings, ceilings_of
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import NO_LAYERS, predict_ns
from services.analyzer.tables.layer_roofline import layer_points
from services.analyzer.tables.stacks import STACK_COLUMNS, Stack, stacks_of
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_ms,
    made,
    real,
    share,
    text,
    trace_doubts,
    whole,
)

MODEL = "(all layers)"
_SUMMED = ("time", "flops", "bytes", "least_time", "datasheet_time")


def roof_distance(frames: Frames) -> Table:
    """Return a row a layer and one of all: its time, and the least that the roof allows."""
    stacks = list(stacks_of(frames))
    points = layer_points(frames)
    rows: list[dict[str, Any]] = []
    for stack in stacks:
        run = stack.traced or stack.layered
        if run is not None:
            mine = [each for each in points if each["run"] == run.row.run]
            rows += _rows(stack, run, mine)
    verdict = _verdict(rows, stacks)
    return made(ANALYSIS, rows, verdict, trace_doubts(frames))


def _verdict(rows: list[dict[str, Any]], stacks: list[Stack]) -> str:
    if not rows:
        if not any(stack.layered or stack.traced for stack in stacks):
            return NO_LAYERS
        return "The roof of no device is known, or no layer says FLOP and bytes."
    whole_ = next(row for row in rows if row["name"] == MODEL)
    layers = [row for row in rows if row["run"] == whole_["run"] and row["name"] != MODEL]
    most = max(layers, key=lambda row: row["lost"])
    return (
        f"Predict of {whole_['run']} takes {in_ms(whole_['time'])}, {whole_['times']:.3g} times "
        f"what the roof allows; most is lost in {most['name']}, {in_ms(most['lost'])}."
    )


def _rows(stack: Stack, run: Run, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ceilings = ceilings_of(run.row)
    rows = [_row(stack, run, ceilings, point) for point in points]
    told = [row for row in rows if row is not None]
    return [_model(stack, run, told), *told] if told else []


def _row(
    stack: Stack, run: Run, ceilings: Ceilings, point: dict[str, Any]
) -> dict[str, Any] | None:
    """Return a layer's row: least time = max(FLOP / peak, bytes / bandwidth)."""
    least = _least_ns(point, ceilings.peak, ceilings.bandwidth)
    if least is None:
        return None
    sheet = _least_ns(point, ceilings.datasheet_peak, ceilings.datasheet_bandwidth)
    names = ("layer", "name", "type", "queries", "time", "time_low", "time_high", "source")
    return {
        **stack.cells(run),
        **{name: point[name] for name in (*names, "flops", "bytes")},
        **_distance(point["time"], least, sheet),
        "roof_kind": ceilings.kind,
    }


def _least_ns(point: dict[str, Any], peak: float | None, bandwidth: float | None) -> float | None:
    if peak is None or bandwidth is None:
        return None
    return float(1e9 * max(point["flops"] / peak, point["bytes"] / bandwidth))


def _distance(time: float, least: float, sheet: float | None) -> dict[str, Any]:
    return {
        "least_time": least,
        "lost": time - least,
        "of_roof": share(least, time),
        "times": share(time, least),
        "datasheet_time": sheet,
        "of_datasheet": share(sheet, time),
    }


def _model(stack: Stack, run: Run, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return predict's time beside the sums of all layers that say FLOP; without an interval."""
    sums = {
        name: sum(row[name] for row in rows) if all(row[name] is not None for row in rows) else None
        for name in _SUMMED
    }
    # Layers that say no FLOP, and what lies between layers, take their time too.
    sums["time"] = predict_ns(run) or sums["time"]
    time, least, sheet = (sums[name] for name in ("time", "least_time", "datasheet_time"))
    assert time is not None
    assert least is not None
    return {
        **stack.cells(run),
        **dict.fromkeys(("layer", "time_low", "time_high")),
        "name": MODEL,
        "type": "",
        "queries": min(row["queries"] for row in rows),
        "source": rows[0]["source"],
        "roof_kind": rows[0]["roof_kind"],
        **{name: sums[name] for name in ("time", "flops", "bytes")},
        **_distance(time, least, sheet),
    }


ANALYSIS = Analysis(
    name="roof_distance",
    title="Distance from the roof",
    source=(
        "Least time = max(FLOP / peak, bytes / bandwidth) (Williams, Waterman and Patterson 2009) "
        "by ceilings measured once on the device; the datasheet's beside. FLOP and bytes are "
        "counted where there are counters, else as shapes tell."
    ),
    columns=(
        *STACK_COLUMNS,
        whole("layer", "The layer's index; null: of predict, all layers and between."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        whole("queries", "Queries that its time is over."),
        *estimate("time", "Its time a query: its kernels', without such its own."),
        text("source", "counters, or static: as shapes tell."),
        real("flops", "Floating-point operations a query.", "FLOP"),
        real("bytes", "Bytes read and written a query.", "By"),
        real("least_time", "The least time that the roof allows."),
        real("lost", "Time above that."),
        real("of_roof", "Least time over time.", "1"),
        real("times", "Time over least time.", "1"),
        text("roof_kind", "measured, or datasheet."),
        real("datasheet_time", "The least time that the datasheet allows."),
        real("of_datasheet", "That over time.", "1"),
    ),
    compute=roof_distance,
    chart=bars(("layer", "Layer"), ("lost", "Time above the roof's (ns)"), "name", "of_roof"),
)
