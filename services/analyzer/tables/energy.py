"""Energy: what a sample costs in joules, by the power sampled beside a run."""

from typing import Any

import numpy as np
import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.own_devices import own_series
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    made,
    real,
    run_cells,
    share,
    text,
    whole,
)

POWER = "nvml.power"
FEW = 20
"""Samples of power below which energy is said to be rough: NVML's power changes ten times a s."""


def energy(frames: Frames) -> Table:
    """Return a row a run and device of its own whose power was sampled."""
    rows = [row for run in frames.measured for row in _rows(run)]
    verdict = "No run sampled power of its device: the collector nvml does, at level system."
    if rows:
        best = min(rows, key=lambda row: row["per_sample"])
        verdict = (
            f"A sample takes {best['per_sample']:.3g} J at best, in {best['run']} at batch "
            f"{best['batch_size']} with {best['power']:.4g} W."
        )
    rough = [f"{r['run']}: power is the mean of {r['samples']} values only" for r in rows]
    few = [note for row, note in zip(rows, rough, strict=True) if row["samples"] < FEW]
    return made(ANALYSIS, rows, verdict, [*doubts(frames), *few])


def _rows(run: Run) -> list[dict[str, Any]]:
    power = own_series(run, POWER)
    answered = int(run.answered_samples.sum())
    if not power.height or not answered:
        return []
    return [
        _row(run, int(device), part.sort("at_ns"), answered)
        for (device,), part in power.group_by("device", maintain_order=True)
    ]


def _row(run: Run, device: int, power: pl.DataFrame, answered: int) -> dict[str, Any]:
    joules, measured_s = 0.0, 0.0
    for block in run.answered.partition_by("block"):
        begun, ended = int(block["issued_ns"].min()), int(block["ended_ns"].max())  # type: ignore[arg-type]
        own = power.filter(pl.col("block") == block["block"][0])
        joules += _joules(own if own.height else power, begun, ended)
        measured_s += (ended - begun) * 1e-9
    watts = power["value"].to_numpy()
    return {
        **run_cells(run.row),
        "agent": run.row.agent,
        "device": device,
        "samples": len(watts),
        "answered": answered,
        "busy": measured_s * 1e9,
        "power": share(joules, measured_s) or float(watts.mean()),
        "power_low": float(watts.min()),
        "power_high": float(watts.max()),
        "energy": joules,
        "per_query": joules / run.answered.height,
        "per_sample": joules / answered,
    }


def _joules(power: pl.DataFrame, begun_ns: int, ended_ns: int) -> float:
    """Return power over a stretch: trapezoids between values, the outer ones held to the ends."""
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
        "NVML's power of the whole board, sampled beside the run and integrated by trapezoids "
        "over the run's blocks; idle power is in it, the host's is not."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        whole("device", "The device's number."),
        whole("samples", "Values of power it is over."),
        whole("answered", "Samples answered."),
        real("busy", "Time of the run's own blocks."),
        real("power", "Mean power.", "W"),
        real("power_low", "Least power sampled.", "W"),
        real("power_high", "Most power sampled.", "W"),
        real("energy", "Energy of the run's blocks.", "J"),
        real("per_query", "Energy a query.", "J"),
        real("per_sample", "Energy a sample: of an inference.", "J"),
    ),
    compute=energy,
    chart=bars(("batch_size", "Batch size"), ("per_sample", "Energy a sample (J)"), "power"),
)
