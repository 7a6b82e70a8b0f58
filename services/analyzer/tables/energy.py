"""Energy of a sample in joules, by counters read around a run's blocks, else by sampled power.

Counters cost nothing within a block, so a run at level model has them: its joules are those of
untraced queries. Without counters, the power sampled during a run at level system is integrated:
these are joules of traced queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from mlscope.counts import many
from mlscope.quantities import number
from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.building.best import estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.level_differences import UNTIMED
from services.analyzer.building.margins import UNKNOWN, Margin
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    run_cells,
    run_warnings,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, Frames, Run
from services.analyzer.frames.own_devices import own_series

POWER = "nvml.power"
GPU = "gpu"
FEW = 20
"""With fewer samples of power a caveat is given: NVML's power changes ten times a second."""
UPDATE_S: Mapping[str, float] = MappingProxyType({GPU: 1 / 11, "package": 1e-3, "dram": 1e-3})
"""Seconds between updates of a counter: NVML's changes 11 times a second, RAPL's every ms."""
COARSEST = 0.1
"""The largest share of a block's energy by which a counter may be off; else it is not used."""

_Row = dict[str, Any]


def energy(frames: Frames) -> Table:
    """Return a row for each run and device of its own, by its counter or by sampled power."""
    rows = []
    for run in frames.measured:
        if run.row.variant not in UNTIMED and int(run.answered_samples.sum()) > 0:
            rows += energy_rows(run)
    notes = run_warnings(frames)
    for row in rows:
        if row["source"] == POWER and row["samples"] < FEW:
            notes.append(f"{row['run']}: power is the mean of only {many(row['samples'], 'value')}")
            continue
        if row["energy"] is None:
            rate = 1 / UPDATE_S[row["part"]]
            notes.append(
                f"{row['run']}: no energy for the {row['part']}: its counter changes {rate:.0f} "
                f"times a second, {many(row['samples'], 'block')} took {row['busy'] / 1e9:.2g} s"
            )
    notes += [
        f"{row['run']}: its energy includes that of tracing level {row['level']}"
        for row in _shallowest(rows)
        if _level(row) > OPERATOR_LEVEL
    ]
    return make_table(ANALYSIS, rows, _verdict(frames, rows), notes)


def _verdict(frames: Frames, rows: Sequence[_Row]) -> str:
    shallowest = _shallowest(rows)
    if rows and not shallowest:
        return "No run has blocks long enough for its energy counters, and none sampled power."
    if not shallowest:
        if any(
            run.row.variant in UNTIMED and run.answered.height and energy_rows(run)
            for run in frames.measured
        ):
            return "Energy was counted only in cold starts and replays, not for inference."
        return "No run has energy counters or sampled power (collectors energy and nvml)."
    part = shallowest[0]["part"]
    rising = sorted(
        (row for row in shallowest if row["part"] == part),
        key=lambda row: float(row["per_sample"]),
    )
    amounts = [
        f"{estimate_text(row, 'per_sample', 'J')} of the {part} in {row['run']} at batch "
        f"{row['batch_size']} with {number(row['power'])} W"
        for row in rising
    ]
    least = leader(rising, "per_sample", is_largest=False)
    if len(rising) == 1:
        return f"A sample takes {amounts[0]}."
    doubt = least.doubt(
        "which load takes the least", lambda row: f"{row['run']} at batch {row['batch_size']}"
    )
    text = f"A sample takes from {amounts[0]} to {amounts[-1]}"
    return f"{text}; {doubt}." if doubt else f"{text}."


def _shallowest(rows: Sequence[_Row]) -> list[_Row]:
    """Return the row of the shallowest run for each load and device, GPUs first.

    Rows of unknown energy do not count.
    """
    by_load: dict[tuple[Any, ...], _Row] = {}
    with_energy = (row for row in rows if row["per_sample"] is not None)
    for row in sorted(with_energy, key=lambda row: (row["part"] != GPU, _level(row))):
        names = ("part", "agent", "scenario", "batch_size", "device")
        by_load.setdefault(tuple(row[name] for name in names), row)
    return list(by_load.values())


def _level(row: _Row) -> int:
    return int(Level[row["level"].upper()])


def energy_rows(run: Run) -> list[_Row]:
    """Return a row for each device of a run's own, by its counter, else by its sampled power."""
    counted = [row for part in UPDATE_S for row in _counted(run, part)]
    power = own_series(run, POWER)
    if not power.height or any(row["energy"] is not None for row in counted if row["part"] == GPU):
        return counted
    sampled = [
        _sampled(run, int(device), of_device.sort("at_ns"))
        for (device,), of_device in power.group_by("device", maintain_order=True)
    ]
    return [*sampled, *(row for row in counted if row["part"] != GPU)]


def _counted(run: Run, part: str) -> Iterator[_Row]:
    """Yield a row for each device with a counter that was read around the run's blocks.

    The counter of a host's package is that of the whole machine, so it counts for any device.
    """
    name = f"energy.{part}"
    values = own_series(run, name) if part == GPU else run.series.filter(pl.col("name") == name)
    for (device,), of_device in values.group_by("device", maintain_order=True):
        blocks = of_device.group_by("block", maintain_order=True).agg(
            (pl.col("value").max() - pl.col("value").min()).alias("joules"),
            ((pl.col("at_ns").max() - pl.col("at_ns").min()) * 1e-9).alias("seconds"),
        )
        measured = blocks.filter(pl.col("seconds") > 0).join(
            run.answered.select("block").unique(), on="block", how="semi"
        )
        if not measured.height:
            continue
        seconds, joules = float(measured["seconds"].sum()), float(measured["joules"].sum())
        watts = (measured["joules"] / measured["seconds"]).to_numpy()
        resolution = UPDATE_S[part] * measured.height / seconds
        is_known = resolution <= COARSEST
        answered = run.answered.with_columns(pl.Series("samples", run.answered_samples))
        in_blocks = answered.join(measured.select("block"), on="block", how="semi")
        samples = in_blocks.group_by("block", maintain_order=True).agg(pl.col("samples").sum())
        by_block = measured.join(samples, on="block").select("joules", "samples").rows()
        yield {
            **_cells(run, part, int(device)),
            **_energy_cells(by_block if is_known else [], in_blocks, resolution),
            "source": name,
            "resolution": resolution,
            "samples": measured.height,
            "busy": seconds * 1e9,
            "power": joules / seconds if is_known else None,
            "power_low": float(watts.min()) if is_known else None,
            "power_high": float(watts.max()) if is_known else None,
        }


def _sampled(run: Run, device: int, power: pl.DataFrame) -> _Row:
    by_block, measured_s = list[tuple[float, int]](), 0.0
    answered = run.answered.with_columns(pl.Series("samples", run.answered_samples))
    for block in answered.partition_by("block"):
        begun, ended = int(block["issued_ns"].min()), int(block["ended_ns"].max())  # type: ignore[arg-type]
        of_block = power.filter(pl.col("block") == block["block"][0])
        joules = joules_of(of_block if of_block.height else power, begun, ended)
        by_block.append((joules, int(block["samples"].sum())))
        measured_s += (ended - begun) * 1e-9
    watts = power["value"].to_numpy()
    return {
        **_cells(run, GPU, device),
        **_energy_cells(by_block, answered, 0.0),
        "source": POWER,
        "resolution": None,
        "samples": len(watts),
        "busy": measured_s * 1e9,
        "power": share(sum(j for j, _ in by_block), measured_s) or float(watts.mean()),
        "power_low": float(watts.min()),
        "power_high": float(watts.max()),
    }


def _cells(run: Run, part: str, device: int) -> _Row:
    return {**run_cells(run.row), "agent": run.row.agent, "part": part, "device": device}


def _energy_cells(
    by_block: Sequence[tuple[float, int]], answered: pl.DataFrame, resolution: float
) -> _Row:
    """Return the energy of `answered` queries, of blocks with joules and samples; none: unknown.

    A sample's energy has an interval over the blocks, no narrower than the `resolution` allows.
    """
    joules = sum(amount for amount, _ in by_block) if by_block else None
    samples = int(answered["samples"].sum())
    value = share(joules, samples)
    cells = {
        "answered": samples,
        "energy": joules,
        "per_query": share(joules, answered.height),
        **UNKNOWN.cells("per_sample"),
    }
    if value is None:
        return cells
    interval = blocks_interval(np.array([amount / count for amount, count in by_block if count]))
    lows = [interval.low, value * (1 - resolution) if resolution else None]
    highs = [interval.high, value * (1 + resolution) if resolution else None]
    low = min((low for low in lows if low is not None), default=None)
    high = max((high for high in highs if high is not None), default=None)
    return cells | Margin(value, None if low is None else max(low, 0.0), high).cells("per_sample")


def joules_of(power: pl.DataFrame, begun_ns: int, ended_ns: int) -> float:
    """Return the integral (J) of power from `begun_ns` to `ended_ns`.

    `power` has at_ns and value (W) by time; trapezoids lie between values, and beyond the first
    and the last it is constant.
    """
    at, watts = power["at_ns"].to_numpy(), power["value"].to_numpy()
    inside = (at > begun_ns) & (at < ended_ns)
    edges = np.array([begun_ns, ended_ns])
    ends = np.interp(edges, at, watts)
    times = np.concatenate([edges[:1], at[inside], edges[1:]]).astype(np.float64)
    values = np.concatenate([ends[:1], watts[inside], ends[1:]])
    return float(np.trapezoid(values, times * 1e-9))


ANALYSIS = Analysis(
    name="energy",
    title="Energy of an inference",
    source=(
        "Counters of NVML (the whole board) and RAPL (the whole package, its memory), read before "
        "and after each block of a run; without them NVML's power, sampled during the run and "
        "integrated by trapezoids over its blocks. It includes idle power. The interval of a "
        "sample's energy is Student's t over blocks, no narrower than the counter's updates allow."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column("part", "What used the energy: gpu, package (the processor) or dram."),
        int_column("device", "The device's number."),
        text_column("source", "The counter or series of the values."),
        float_column(
            "resolution", "Share of the energy by which the counter's updates may be off.", "1"
        ),
        int_column("samples", "Samples of power; for a counter, blocks."),
        int_column("answered", "Samples answered."),
        float_column("busy", "Time of the run's own blocks."),
        float_column("power", "Mean power.", "W"),
        float_column("power_low", "Minimum power over samples; for a counter, over blocks.", "W"),
        float_column("power_high", "Maximum power over samples; for a counter, over blocks.", "W"),
        float_column("energy", "Energy of the run's blocks.", "J"),
        float_column("per_query", "Energy per query.", "J"),
        *estimate_columns("per_sample", "Energy per sample, which is one inference.", "J"),
    ),
    compute=energy,
    chart=bars(
        ("run", "Run"),
        Axis("per_sample", "Energy per sample", "J"),
        "power",
        "batch_size",
        facet="part",
    ),
)
