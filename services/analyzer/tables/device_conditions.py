"""Device conditions: clocks, temperature, throttling and utilisation of a run's GPU.

A row for each sampled series (of NVML and GPM) and for each reason of lowered clocks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.counts import many
from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, bars, with_transforms
from services.analyzer.building.level_differences import UNTIMED
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    bool_column,
    counter_warnings,
    float_column,
    format_share,
    int_column,
    make_table,
    run_cells,
    share,
    text_column,
)
from services.analyzer.building.throttling import REASONS_SERIES, reasons_in, throttled_share
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.own_devices import own_series

SM_CLOCK = "clock_sm"
THROTTLED = "throttled"
"""The name of the row of all reasons of power and heat together."""
FEW = 10
"""With fewer samples of a clock a caveat is given: NVML gives ten a second."""
_PREFIX = "nvml."

_Cells = dict[str, Any]


def device_conditions(frames: Frames) -> Table:
    """Return a row for each run, device of its own and series, and for each throttling reason."""
    rows = [row for run in frames.measured for row in _device_condition_rows(run)]
    few = (
        f"{row['run']}: its GPU's clock was sampled only {many(row['samples'], 'time')}"
        for row in rows
        if row["what"] == SM_CLOCK and row["samples"] < FEW
    )
    return make_table(ANALYSIS, rows, _verdict(rows), [*counter_warnings(frames), *few])


def _verdict(rows: Sequence[_Cells]) -> str:
    """Return the largest change of a clock and the longest throttling among timed runs."""
    timed = [row for row in rows if row["variant"] not in UNTIMED]
    clocks = [row for row in timed if row["what"] == SM_CLOCK and row["moved"] is not None]
    throttled = [row for row in timed if row["what"] == THROTTLED]
    if rows and not timed:
        return "Clocks were only sampled in runs whose times are not compared."
    if not clocks and not throttled:
        return "No run sampled the clocks of its GPU (collector nvml, from level system on)."
    clock = "The clock is unknown"
    if clocks:
        most_moved = max(clocks, key=lambda row: row["moved"])
        clock = (
            f"The SM clock changed by {format_share(most_moved['moved'])} at most, "
            f"{number(most_moved['min'])} to {number(most_moved['max'])} MHz in {most_moved['run']}"
        )
    if not throttled:
        return f"{clock}; whether it was throttled is unknown."
    worst = max(throttled, key=lambda row: row["share"])
    if not worst["share"]:
        return f"{clock}; no run was throttled."
    reasons = [
        row["what"]
        for row in sorted(timed, key=lambda row: -(row["share"] or 0.0))
        if row["slows"] and row["what"] != THROTTLED
        if (row["run"], row["device"]) == (worst["run"], worst["device"])
    ]
    share_of_time = f"{format_share(worst['share'])} of the time in {worst['run']}"
    return f"{clock}; throttled by {', '.join(reasons)} for {share_of_time}."


def _device_condition_rows(run: Run) -> Iterator[_Cells]:
    """Yield a row for each of a run's sampled series and devices, and for each throttling reason.

    Devices are those that the run used.
    """
    names = run.series["name"].unique().sort().to_list()
    sampled = (
        (name, device, of_device)
        for name in names
        if name.startswith(_PREFIX)
        for (device,), of_device in own_series(run, name).group_by("device", maintain_order=True)
    )
    for name, device, of_device in sampled:
        cells = {
            **run_cells(run.row),
            "agent": run.row.agent,
            "variant": run.row.variant,
            "device": int(device),
            "blocks": of_device["block"].n_unique(),
            "samples": of_device.height,
            **dict.fromkeys(("min", "median", "max", "moved", "share", "slows")),
        }
        if name == REASONS_SERIES:
            any_reason = (THROTTLED, throttled_share(of_device), True)
            yield from (
                cells | {"what": reason, "unit": "1", "share": of_samples, "slows": slows}
                for reason, of_samples, slows in (any_reason, *reasons_in(of_device))
            )
            continue
        values = of_device["value"]
        extremes = (values.min(), values.median(), values.max())
        smallest, median, largest = (float(value) for value in extremes)  # type: ignore[arg-type]
        yield cells | {
            "what": name.removeprefix(_PREFIX),
            "unit": of_device["unit"][0],
            "min": smallest,
            "median": median,
            "max": largest,
            "moved": share(largest - smallest, median),
        }


_CHART = with_transforms(
    bars(
        ("run", "Run"),
        Axis("median", ""),
        "min",
        "max",
        "unit",
        facet="what",
        has_interval=False,
    ),
    last=[{"calculate": "datum.figure + ' ' + datum.unit", "as": "figure"}],
) | {"resolve": {"scale": {"x": "independent", "y": "independent"}}}


ANALYSIS = Analysis(
    name="device_conditions",
    title="Clocks, throttling and use of the GPU",
    source=(
        "NVML and, on Hopper and later, GPM, sampled at even intervals during the run's blocks, of "
        "the devices that it used. moved is (max - min) / median. Reasons are those of "
        "nvmlClocksEventReasons in nvml.h; their share is that of samples. Extremes have no "
        "interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column(
            "variant", "Variant of the process: serialised, counters, cold; empty for a plain one."
        ),
        int_column("device", "The device's number."),
        int_column("blocks", "Blocks with samples."),
        int_column("samples", "Samples taken."),
        text_column(
            "what", "The series, or a reason for lowered clocks; throttled: any reason that slows."
        ),
        text_column("unit", "Unit of the values: MHz, W, Cel, %, By."),
        float_column("min", "Minimum.", "1"),
        float_column("median", "Median.", "1"),
        float_column("max", "Maximum.", "1"),
        float_column("moved", "Maximum minus minimum, divided by the median.", "1"),
        float_column(
            "share", "Share of the time in which a reason applied; null for a series.", "1"
        ),
        bool_column(
            "slows",
            "Whether a reason is power or heat, not a setting or idling; null for a series.",
        ),
    ),
    compute=device_conditions,
    chart=_CHART,
)
