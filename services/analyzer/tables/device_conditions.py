"""Device conditions: clocks, heat, throttling and use of a run's own GPU while it ran.

A row a sampled series (NVML's, GPM's), and one a reason for which its clocks were held down.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.own_devices import own_series
from services.analyzer.tables.charts import Chart, bars
from services.analyzer.tables.levels import UNTIMED
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    truth,
    whole,
)
from services.analyzer.throttling import REASONS_SERIES, reasons_in, throttled_share

SM_CLOCK = "clock_sm"
THROTTLED = "throttled"
"""The row of all reasons of power and heat together."""
FEW = 10
"""Samples below which a clock's movement is said to be little known: NVML gives ten a second."""
_PREFIX = "nvml."

_Cells = dict[str, Any]


def device_conditions(frames: Frames) -> Table:
    """Return a row a run, device of its own and series, and one a reason seen."""
    rows = [row for run in frames.measured for row in _rows(run)]
    few = (
        f"{row['run']}: its GPU's clock was sampled {many(row['samples'], 'time')} only"
        for row in rows
        if row["what"] == SM_CLOCK and row["samples"] < FEW
    )
    return made(ANALYSIS, rows, _verdict(rows), [*trace_doubts(frames), *few])


def _verdict(rows: Sequence[_Cells]) -> str:
    """Say the most that a clock moved, and the longest that it was held down, of runs timed."""
    timed = [row for row in rows if row["variant"] not in UNTIMED]
    clocks = [row for row in timed if row["what"] == SM_CLOCK and row["moved"] is not None]
    held = [row for row in timed if row["what"] == THROTTLED]
    if rows and not timed:
        return "Clocks were sampled only beside runs whose times are not compared."
    if not clocks and not held:
        return "No run has its GPU's clocks sampled (the collector nvml, from level system on)."
    told = "The clock is not known"
    if clocks:
        most = max(clocks, key=lambda row: row["moved"])
        told = (
            f"The SM clock moved by {in_percent(most['moved'])} at most, "
            f"{most['min']:.4g} to {most['max']:.4g} MHz in {most['run']}"
        )
    return f"{told}; {_held(held, timed)}."


def _held(held: Sequence[_Cells], timed: Sequence[_Cells]) -> str:
    if not held:
        return "whether it was throttled is not known"
    most = max(held, key=lambda row: row["share"])
    if not most["share"]:
        return "no run was throttled"
    place = (most["run"], most["device"])
    reasons = [
        row["what"]
        for row in sorted(timed, key=lambda row: -(row["share"] or 0.0))
        if row["slows"] and row["what"] != THROTTLED and (row["run"], row["device"]) == place
    ]
    return (
        f"throttled by {', '.join(reasons)} for {in_percent(most['share'])} of the time "
        f"in {most['run']}"
    )


def _rows(run: Run) -> Iterator[_Cells]:
    names = run.series["name"].unique().sort().to_list()
    for name in (name for name in names if name.startswith(_PREFIX)):
        for (device,), part in own_series(run, name).group_by("device", maintain_order=True):
            place = {
                **run_cells(run.row),
                "agent": run.row.agent,
                "variant": run.row.variant,
                "device": int(device),
                "blocks": part["block"].n_unique(),
                "samples": part.height,
            }
            if name == REASONS_SERIES:
                yield from _reasons(place, part)
            else:
                yield {**place, **_values(name, part)}


def _values(name: str, part: pl.DataFrame) -> _Cells:
    values = part["value"]
    least, middle, most = (float(v) for v in (values.min(), values.median(), values.max()))  # type: ignore[arg-type]
    return {
        "what": name.removeprefix(_PREFIX),
        "unit": part["unit"][0],
        "min": least,
        "median": middle,
        "max": most,
        "moved": share(most - least, middle),
        "share": None,
        "slows": None,
    }


def _reasons(place: _Cells, part: pl.DataFrame) -> Iterator[_Cells]:
    none = dict.fromkeys(("min", "median", "max", "moved"))
    of_all = (THROTTLED, throttled_share(part), True)
    for what, seen, slows in (of_all, *reasons_in(part)):
        yield {**place, **none, "what": what, "unit": "1", "share": seen, "slows": slows}


def _chart() -> Chart:
    values = bars(("run", "Run"), ("median", "Median"), "min", "max", "unit", facet="what")
    values["transform"] = [{"filter": "datum.median != null"}]
    return values | {"resolve": {"scale": {"y": "independent"}}}


ANALYSIS = Analysis(
    name="device_conditions",
    title="Clocks, throttling and use of the GPU",
    source=(
        "NVML and, on Hopper and later, GPM, sampled at even distances while the run's blocks ran; "
        "only of devices that it ran on. Moved is most less least over the median. Reasons are "
        "nvml.h's nvmlClocksEventReasons, their share is of samples. Extremes have no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        text("variant", "What was special about the process: serialised, counters, cold, nothing."),
        whole("device", "The device's number."),
        whole("blocks", "Blocks with samples."),
        whole("samples", "Values sampled."),
        text("what", "The series; or a reason that clocks were held, throttled: any that slows."),
        text("unit", "What its values are in: MHz, W, Cel, %, By."),
        real("min", "Least.", "1"),
        real("median", "Median.", "1"),
        real("max", "Most.", "1"),
        real("moved", "Most less least, over the median.", "1"),
        real("share", "Of a reason: share of the time in which it held.", "1"),
        truth("slows", "Of a reason: whether it is power or heat, no setting and no idling."),
    ),
    compute=device_conditions,
    chart=_chart(),
)
