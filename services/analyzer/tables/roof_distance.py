"""Distance from the roof: how much faster the device could do a model's work, layer by layer."""

import itertools
from collections.abc import Iterator
from typing import Any

from mlscope.client.quantities import number
from schemas.analysis import Table
from services.analyzer.ceilings import Ceilings, ceilings_of, roof_notes
from services.analyzer.frames import PREDICT, Frames, Run, RunRow
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import no_layers
from services.analyzer.tables.layer_roofline import layer_points
from services.analyzer.tables.stacks import STACK_COLUMNS, Stack, stacks_of
from services.analyzer.tables.static_points import WORK, above_roof, lacking_of, work_of
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_time,
    made,
    real,
    share,
    text,
    trace_doubts,
    trimmed_cells,
    whole,
)

MODEL = "(all layers)"
_SUMMED = ("time", "flops", "bytes", "least_time", "datasheet_time")


def roof_distance(frames: Frames) -> Table:
    """Return a row a layer and one of all: its time, and the least that the roof allows."""
    stacks = list(stacks_of(frames))
    points = layer_points(frames)
    groups: list[list[dict[str, Any]]] = []
    runs: list[RunRow] = []
    caveats = trace_doubts(frames)
    for stack in stacks:
        run = stack.traced or stack.layered
        if run is None:
            continue
        mine = [each for each in points if each["run"] == run.row.run]
        runs.append(run.row)
        caveats += _notes(stack, run, mine)
        if rows := _rows(stack, run, mine):
            groups.append(rows)
    caveats += [*roof_notes(runs), *above_roof(itertools.chain(*groups))]
    has_layers = any(stack.layered or stack.traced for stack in stacks)
    verdict = _verdict(groups[0] if groups else [], stacks) if has_layers else no_layers(frames)
    return made(ANALYSIS, itertools.chain(*groups), verdict, caveats)


def _notes(stack: Stack, run: Run, points: list[dict[str, Any]]) -> Iterator[str]:
    """Yield which layers' work is not in the model's least time, and whose times are none."""
    if stack.is_replay:
        yield f"{run.row.run}: its times are those of a replay for counters: no latencies"
    told = {point["layer"] for point in points}
    work = work_of(stack.layered) if stack.layered else []
    # What counters tell of a layer, its shapes need not.
    known = [each | dict.fromkeys(WORK, 0 if each["node"] in told else None) for each in work]
    if lacking := lacking_of(known):
        yield f"{run.row.run}: {lacking}: they add nothing to the model's least time"


def _verdict(rows: list[dict[str, Any]], stacks: list[Stack]) -> str:
    """Tell of the first stack's rows, its model's first."""
    if not rows:
        known = [stack.traced or stack.layered for stack in stacks]
        if any(run and ceilings_of(run.row).kind for run in known):
            return "No layer says FLOP and bytes: no distance from the roof is known."
        return "The roof of no device is known: `mlscope doctor` tells how it is measured."
    whole_, *layers = rows
    most = max(layers, key=lambda row: row["lost"])
    name = whole_["run"]
    alone = stacks[0].is_replay or stacks[0].model is None
    what = f"All layers of {name} take" if alone else f"Predict of {name} takes"
    return (
        f"{what} {in_time(whole_['time'])}, {number(whole_['times'], 3)} times what the roof "
        f"allows; most is lost in layer {most['name']}, {in_time(most['lost'])}."
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
        **_rate(point["flops"], point["time"], ceilings.peak),
        "roof_kind": ceilings.kind,
    }


def _least_ns(point: dict[str, Any], peak: float | None, bandwidth: float | None) -> float | None:
    if peak is None or bandwidth is None:
        return None
    return float(1e9 * max(point["flops"] / peak, point["bytes"] / bandwidth))


def _rate(flops: float | None, time: float, peak: float | None) -> dict[str, Any]:
    throughput = share(flops, time * 1e-9)
    return {"throughput": throughput, "peak": peak, "of_peak": share(throughput, peak)}


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
    """Return predict's time beside the sums of all layers that say FLOP.

    Predict's is of the run that tells of it, which nothing deeper slowed.
    """
    sums = {
        name: sum(row[name] for row in rows) if all(row[name] is not None for row in rows) else None
        for name in _SUMMED
    }
    # Layers that say no FLOP, and what lies between layers, take their time too.
    # A replay for counters tells of no latency.
    model = None if stack.is_replay else stack.model
    values = model.operator_ns(PREDICT) if model else ()
    cells, queries = trimmed_cells("time", values), len(values)
    if model is None or cells["time"] is None:
        model, cells = run, {"time": sums["time"], "time_low": None, "time_high": None}
        queries = min(row["queries"] for row in rows)
    sums["time"] = cells["time"]
    time, least, sheet = (sums[name] for name in ("time", "least_time", "datasheet_time"))
    assert time is not None
    assert least is not None
    return {
        **stack.cells(model),
        **cells,
        "layer": None,
        "name": MODEL,
        "type": "",
        "queries": queries,
        "source": rows[0]["source"],
        "roof_kind": rows[0]["roof_kind"],
        **{name: sums[name] for name in ("flops", "bytes")},
        **_distance(time, least, sheet),
        **_rate(sums["flops"], time, rows[0]["peak"]),
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
        real("throughput", "FLOP over time.", "FLOP/s"),
        real("peak", "The most that the device computes.", "FLOP/s"),
        real("of_peak", "Throughput over that.", "1"),
        text("roof_kind", "measured, or datasheet."),
        real("datasheet_time", "The least time that the datasheet allows."),
        real("of_datasheet", "That over time.", "1"),
    ),
    compute=roof_distance,
    chart=bars(("layer", "Layer"), ("lost", "Time above the roof's (ns)"), "name", "of_roof"),
)
