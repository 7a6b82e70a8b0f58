"""Distance from the roof: how much faster the device could do the work of each layer."""

from collections.abc import Sequence
from typing import Any

from schemas.analysis import Table
from services.analyzer.building.best import estimate_text, leader
from services.analyzer.building.charts import Axis, ranked, with_transforms
from services.analyzer.building.margins import Margin, difference
from services.analyzer.building.roofs.ceilings import ceilings_of, roof_sentences
from services.analyzer.building.roofs.roof_position import (
    ABOVE,
    AT,
    CACHED,
    ROOF_COLUMNS,
    STATIC,
    above_roof_notes,
    position_cells,
)
from services.analyzer.building.roofs.static_points import WORK, missing_work_note, work_of
from services.analyzer.building.stacks import STACK_COLUMNS, Stack, stacks_of
from services.analyzer.building.table import (
    Analysis,
    counter_warnings,
    distinct_name,
    estimate_columns,
    float_column,
    format_time,
    int_column,
    make_table,
    share,
    text_column,
    trimmed_cells,
)
from services.analyzer.frames.evaluation import Frames, Run, RunRow
from services.analyzer.frames.layers import no_layers
from services.analyzer.tables.layer_roofline import layer_points

MODEL = "(all layers)"
_TIME = ("time", "time_low", "time_high")
_SUMMED = ("time", "flops", "bytes", "least_time", "datasheet_time")


def roof_distance(frames: Frames) -> Table:
    """Return a row for each layer and one for all: its time, and the least that the roof allows."""
    stacks = list(stacks_of(frames))
    points = layer_points(frames)
    groups: list[tuple[Stack, list[dict[str, Any]]]] = []
    runs: list[RunRow] = []
    caveats = counter_warnings(frames)
    for stack in stacks:
        run = stack.with_kernels or stack.layered
        if run is None:
            continue
        runs.append(run.row)
        if stack.is_replay:
            caveats += [f"{run.row.run}: a replay for counters: its kernel times are not latencies"]
        of_run = [point for point in points if point["run"] == run.row.run]
        # A layer with counters needs no work of its shapes.
        counted = {point["layer"] for point in of_run}
        work = [
            layer | dict.fromkeys(WORK, 0 if layer["node"] in counted else None)
            for layer in (work_of(stack.layered) if stack.layered else ())
        ]
        if missing := missing_work_note(work):
            caveats.append(f"{run.row.run}: {missing}: it is not in the model's least time")
        rows = [row for point in of_run if (row := _layer_row(stack, run, point)) is not None]
        if rows:
            groups.append((stack, [_model_row(stack, run, rows), *rows]))
    rows = [row for _, of_stack in groups for row in of_stack]
    caveats += [*roof_sentences(runs), *above_roof_notes(rows)]
    verdict = _verdict(groups, runs) if runs else no_layers(frames)
    return make_table(ANALYSIS, rows, verdict, caveats)


def _verdict(groups: Sequence[tuple[Stack, list[dict[str, Any]]]], runs: Sequence[RunRow]) -> str:
    """Return the result of the first stack with rows, of which the first is that of the model."""
    if not groups:
        if any(ceilings_of(row).kind for row in runs):
            return "The distance from the roof is unknown: no layer has FLOP and bytes."
        return "The roof of no device is known: `mlscope doctor` shows how to measure it."
    stack, (model, *layers) = groups[0]
    subject = f"Predict of {model['run']} takes"
    if stack.predicted is None:
        subject = f"All layers of {model['run']} take"
    times = f"{estimate_text(model, 'times', '')} times the roof's minimum time"
    subject = f"{subject} {format_time(model['time'])}, {times}"
    if model["roof_position"] == ABOVE:
        return f"{subject}: this is an error in mlscope, because no work can exceed its roof."
    if model["roof_position"] == CACHED:
        return f"{subject}, which is faster than main memory moves the bytes: caches served some."
    if model["of_roof"] > 1.0 and not model["roof_position"]:
        return f"{subject}, which is faster than the roof; the true roof may be higher."
    at_roof = ", which is at the roof" if model["roof_position"] == AT else ""
    return f"{subject}{at_roof}; {_loss_text(layers)}."


def _loss_text(layers: list[dict[str, Any]]) -> str:
    """Return which of a model's layers loses the most time, where intervals tell them apart."""
    slowest = leader(layers, "lost")
    question = "which layer loses the most"
    if doubt := slowest.doubt(question, lambda row: distinct_name(row, layers)):
        return doubt
    loss = format_time(slowest.row["lost"])
    return f"layer {distinct_name(slowest.row, layers)} loses the most, {loss}"


def _layer_row(stack: Stack, run: Run, point: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a layer from its roofline `point`; None where the roof is unknown.

    `run` of the `stack` has the layer's time.
    """
    ceilings = ceilings_of(run.row)
    least_ns = _least_ns(point, ceilings.peak, ceilings.bandwidth)
    if least_ns is None:
        return None
    # The least time is shorter where the roof is higher.
    least = _least_with(point["roof_uncertainty"], least_ns)
    datasheet = _least_ns(point, ceilings.datasheet_peak, ceilings.datasheet_bandwidth)
    names = ("layer", "name", "type", "queries", *_TIME, "source")
    return {
        **stack.cells(run),
        **{name: point[name] for name in (*names, "flops", "bytes")},
        **_distance(Margin(*(point[name] for name in _TIME)), least, datasheet),
        **position_cells(
            point,
            share(least_ns, point["time"]),
            point["roof_uncertainty"],
            ceilings.disturbance,
            _of_peak(point, point["time"], ceilings.peak),
        ),
        **_rate(point["flops"], point["time"], ceilings.peak),
        "roof_kind": ceilings.kind,
    }


def _of_peak(work: dict[str, Any], time_ns: float, peak: float | None) -> float | None:
    """Return the share of the `peak` (FLOP/s) of work with the bytes of its shapes, else None."""
    return _rate(work["flops"], time_ns, peak)["of_peak"] if work["source"] == STATIC else None


def _least_with(uncertainty: float | None, least: float) -> Margin:
    """Return a `least` time under a roof of this `uncertainty`; without ends where it is None."""
    return Margin(least) if uncertainty is None else Margin(least, least / (1 + uncertainty), least)


def _least_ns(point: dict[str, Any], peak: float | None, bandwidth: float | None) -> float | None:
    """Return the least time (ns): max(FLOP / peak, bytes / bandwidth)."""
    if peak is None or bandwidth is None:
        return None
    return float(1e9 * max(point["flops"] / peak, point["bytes"] / bandwidth))


def _distance(times: Margin, least: Margin, datasheet: float | None) -> dict[str, Any]:
    """Return the cells of `times` (ns) against the `least` one, both with their uncertainty."""
    time = times.value
    ratios = share(time, least.value), share(times.low, least.high), share(times.high, least.low)
    return {
        "least_time": least.value,
        **difference(times, least).cells("lost"),
        **Margin(*ratios).cells("times"),
        "datasheet_time": datasheet,
        "of_datasheet": share(datasheet, time),
    }


def _rate(flops: float | None, time: float, peak: float | None) -> dict[str, Any]:
    throughput = share(flops, time * 1e-9)
    return {"throughput": throughput, "peak": peak, "of_peak": share(throughput, peak)}


def _model_row(stack: Stack, run: Run, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of predict, with the sums of the `rows` of all layers that have FLOP.

    Predict's time is that of the stack's model run, which nothing deeper slowed; it includes
    layers without FLOP, and the time between layers. Without predict, and for a replay for
    counters, whose times are no latencies, it is the sum over the layers of `run` in the `stack`.
    """
    sums = {
        name: sum(row[name] for row in rows) if all(row[name] is not None for row in rows) else None
        for name in _SUMMED
    }
    model, values = stack.predicted, stack.predict_ns
    cells, queries = trimmed_cells("time", values), len(values)
    if model is None or cells["time"] is None:
        model, cells = run, {"time": sums["time"], "time_low": None, "time_high": None}
        queries = min(row["queries"] for row in rows)
    time, least, datasheet = cells["time"], sums["least_time"], sums["datasheet_time"]
    assert time is not None
    assert least is not None
    uncertainty = _sum_uncertainty(rows)
    return {
        **stack.cells(model),
        **cells,
        "layer": None,
        "name": MODEL,
        "type": "",
        "queries": queries,
        "source": rows[0]["source"],
        "roof_kind": rows[0]["roof_kind"],
        "flops": sums["flops"],
        "bytes": sums["bytes"],
        **_distance(
            Margin(*(cells[name] for name in _TIME)), _least_with(uncertainty, least), datasheet
        ),
        **position_cells(
            cells,
            share(least, time),
            uncertainty,
            ceilings_of(run.row).disturbance,
            _of_peak({**sums, "source": rows[0]["source"]}, time, rows[0]["peak"]),
        ),
        **_rate(sums["flops"], time, rows[0]["peak"]),
    }


def _sum_uncertainty(rows: list[dict[str, Any]]) -> float | None:
    """Return the mean uncertainty of the roofs of all layers, by their least time; None unknown."""
    least = sum(row["least_time"] for row in rows)
    certain_rows = [row for row in rows if row["roof_uncertainty"] is not None]
    if not least or len(certain_rows) < len(rows):
        return None
    return float(sum(row["least_time"] * row["roof_uncertainty"] for row in certain_rows) / least)


_COMBINED = "{}; by the time's 95% interval and how much higher the roof may be."

_CHART = with_transforms(
    ranked(
        ("name", "Layer"),
        Axis("lost", "Time above the least", "ns"),
        "layer",
        "of_roof",
        color="type",
    ),
    {"filter": "datum.name != '(all layers)'"},
)

ANALYSIS = Analysis(
    name="roof_distance",
    title="Distance from the roof",
    source=(
        "Least time = max(FLOP / peak, bytes / bandwidth) (Williams, Waterman and Patterson 2009), "
        "with ceilings measured on the device, and those of the datasheet for comparison. "
        "FLOP and bytes are those of counters where they exist, else of the layers' shapes."
    ),
    columns=(
        *STACK_COLUMNS,
        int_column(
            "layer",
            "The framework's number of the layer; null for predict: layers and the time between.",
        ),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        int_column("queries", "Queries measured."),
        *estimate_columns("time", "Kernel time per query; without kernels, the layer's own time."),
        text_column("source", "Source of FLOP and bytes: counters, or static: the layer's shapes."),
        float_column("flops", "Floating-point operations per query; a multiply-add is 2.", "FLOP"),
        float_column("bytes", "Bytes read and written per query.", "By"),
        float_column("least_time", "The least time under the roof."),
        *estimate_columns("lost", _COMBINED.format("Time minus the roof's minimum time")),
        float_column("of_roof", "Least time divided by time.", "1"),
        *ROOF_COLUMNS[1:],
        *estimate_columns("times", _COMBINED.format("Time divided by least time"), "1"),
        float_column("throughput", "Arithmetic throughput: FLOP per second of its time.", "FLOP/s"),
        float_column("peak", "Peak throughput of the device.", "FLOP/s"),
        float_column("of_peak", "Throughput divided by the peak.", "1"),
        text_column("roof_kind", "Source of the roof: measured or datasheet."),
        float_column("datasheet_time", "The least time under the datasheet's roof."),
        float_column("of_datasheet", "Least time of the datasheet divided by time.", "1"),
    ),
    compute=roof_distance,
    chart=_CHART,
)
