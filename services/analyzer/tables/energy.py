"""Energy: what a sample costs in joules, by counters read around a run's blocks, else by power.

Counters cost nothing within a block, so that a run at level model has them: its joules are of
queries that nothing traced. Where there are none, power that was sampled beside a run at level
system is integrated: joules of traced queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.frames import OPERATOR_LEVEL, Frames, Run
from services.analyzer.own_devices import own_series
from services.analyzer.tables.charts import bars
from services.analyzer.tables.levels import UNTIMED
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
GPU = "gpu"
FEW = 20
"""Samples of power below which energy is said to be rough: NVML's power changes ten times a s."""
UPDATE_S: Mapping[str, float] = MappingProxyType({GPU: 1 / 11, "package": 1e-3, "dram": 1e-3})
"""How long a counter may stand still: NVML's changes 11 times a second, RAPL's every ms."""
COARSEST = 0.1
"""A counter that may be off by more of a block's energy gives none."""

_Row = dict[str, Any]


def energy(frames: Frames) -> Table:
    """Return a row a run and device of its own, by its counter or by sampled power."""
    rows = [row for run in frames.measured if _is_timed(run) for row in _rows(run)]
    notes = [*doubts(frames), *_rough(rows), *_traced(rows)]
    return made(ANALYSIS, rows, _verdict(frames, rows), notes)


def _is_timed(run: Run) -> bool:
    return run.row.variant not in UNTIMED and int(run.answered_samples.sum()) > 0


def _verdict(frames: Frames, rows: Sequence[_Row]) -> str:
    known = [*_shallowest(rows)]
    if rows and not known:
        return "No run has blocks long enough for its counters of energy, nor sampled power."
    if not known and any(_rows_untimed(frames)):
        return "Energy was counted in cold starts and replays alone: it is of no inference."
    if not known:
        return "No run has counters of energy, or sampled power (the collectors energy and nvml)."
    best = min((row for row in known if row["part"] == known[0]["part"]), key=_per_sample)
    return (
        f"A sample takes {best['per_sample']:.3g} J of the {best['part']} at best, in "
        f"{best['run']} at batch {best['batch_size']} with {best['power']:.4g} W."
    )


def _rows_untimed(frames: Frames) -> Iterator[_Row]:
    for run in frames.measured:
        if run.row.variant in UNTIMED and run.answered.height:
            yield from _rows(run)


def _per_sample(row: _Row) -> float:
    found: float = row["per_sample"]
    return found


def _shallowest(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Yield of each load and device the row of the run that was traced least; GPUs come first.

    Of those whose energy is known.
    """
    least: dict[tuple[Any, ...], _Row] = {}
    known = (row for row in rows if row["per_sample"] is not None)
    for row in sorted(known, key=lambda row: (row["part"] != GPU, _level(row))):
        names = ("part", "agent", "scenario", "batch_size", "device")
        least.setdefault(tuple(row[name] for name in names), row)
    yield from least.values()


def _level(row: _Row) -> int:
    return int(Level[row["level"].upper()])


def _rough(rows: Sequence[_Row]) -> Iterator[str]:
    for row in rows:
        if row["source"] == POWER and row["samples"] < FEW:
            yield f"{row['run']}: power is the mean of {many(row['samples'], 'value')} only"
        elif row["energy"] is None:
            rate = 1 / UPDATE_S[row["part"]]
            yield (
                f"{row['run']}: no energy of the {row['part']}: its counter changes {rate:.0f} "
                f"times a second, {many(row['samples'], 'block')} took {row['busy'] / 1e9:.2g} s"
            )


def _traced(rows: Sequence[_Row]) -> Iterator[str]:
    for row in _shallowest(rows):
        if _level(row) > OPERATOR_LEVEL:
            yield f"{row['run']}: its energy holds that of tracing level {row['level']}"


def _rows(run: Run) -> Iterator[_Row]:
    counted = [row for part in UPDATE_S for row in _counted(run, part)]
    power = own_series(run, POWER)
    if power.height and all(row["energy"] is None for row in counted if row["part"] == GPU):
        counted = [row for row in counted if row["part"] != GPU]
        for (device,), part in power.group_by("device", maintain_order=True):
            yield _sampled(run, int(device), part.sort("at_ns"))
    yield from counted


def _counted(run: Run, part: str) -> Iterator[_Row]:
    """Yield a row a device whose counter was read around the run's blocks.

    A host's package is the whole machine's, so that it is a run's own on any device.
    """
    name = f"energy.{part}"
    values = own_series(run, name) if part == GPU else run.series.filter(pl.col("name") == name)
    for (device,), own in values.group_by("device", maintain_order=True):
        blocks = own.group_by("block").agg(
            (pl.col("value").max() - pl.col("value").min()).alias("joules"),
            ((pl.col("at_ns").max() - pl.col("at_ns").min()) * 1e-9).alias("seconds"),
        )
        measured = blocks.filter(pl.col("seconds") > 0).join(
            run.answered.select("block").unique(), on="block", how="semi"
        )
        if measured.height:
            yield _of_counter(run, part, int(device), measured)


def _of_counter(run: Run, part: str, device: int, blocks: pl.DataFrame) -> _Row:
    seconds, joules = float(blocks["seconds"].sum()), float(blocks["joules"].sum())
    watts = (blocks["joules"] / blocks["seconds"]).to_numpy()
    resolution = UPDATE_S[part] * blocks.height / seconds
    is_known = resolution <= COARSEST
    of = run.answered.with_columns(pl.Series("samples", run.answered_samples))
    own = of.join(blocks.select("block"), on="block", how="semi")
    cells = _cells(run, part, device, int(own["samples"].sum()))
    return {
        **cells,
        "source": f"energy.{part}",
        "resolution": resolution,
        "samples": blocks.height,
        "busy": seconds * 1e9,
        "power": joules / seconds if is_known else None,
        "power_low": float(watts.min()) if is_known else None,
        "power_high": float(watts.max()) if is_known else None,
        **_energies(joules if is_known else None, own.height, cells["answered"]),
    }


def _sampled(run: Run, device: int, power: pl.DataFrame) -> _Row:
    joules, measured_s = 0.0, 0.0
    for block in run.answered.partition_by("block"):
        begun, ended = int(block["issued_ns"].min()), int(block["ended_ns"].max())  # type: ignore[arg-type]
        own = power.filter(pl.col("block") == block["block"][0])
        joules += _joules(own if own.height else power, begun, ended)
        measured_s += (ended - begun) * 1e-9
    watts = power["value"].to_numpy()
    cells = _cells(run, GPU, device, int(run.answered_samples.sum()))
    return {
        **cells,
        "source": POWER,
        "resolution": None,
        "samples": len(watts),
        "busy": measured_s * 1e9,
        "power": share(joules, measured_s) or float(watts.mean()),
        "power_low": float(watts.min()),
        "power_high": float(watts.max()),
        **_energies(joules, run.answered.height, cells["answered"]),
    }


def _cells(run: Run, part: str, device: int, answered: int) -> _Row:
    told = {"agent": run.row.agent, "part": part, "device": device, "answered": answered}
    return {**run_cells(run.row), **told}


def _energies(joules: float | None, queries: int, samples: int) -> _Row:
    return {
        "energy": joules,
        "per_query": share(joules, queries),
        "per_sample": share(joules, samples),
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
        "Counters of NVML (the whole board) and RAPL (the whole package, its memory) read before "
        "and after each block of a run; without them NVML's power, sampled beside the run and "
        "integrated by trapezoids over its blocks. Idle power is in it."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        text("part", "What took it: gpu, package (the host's processor) or dram."),
        whole("device", "The device's number."),
        text("source", "The counter or series it is from."),
        real(
            "resolution", "How much of it the counter may be off by: it stands still so long.", "1"
        ),
        whole("samples", "Values of power it is over; of a counter blocks."),
        whole("answered", "Samples answered."),
        real("busy", "Time it is over: the run's own blocks."),
        real("power", "Mean power.", "W"),
        real("power_low", "Least power sampled; of a counter that of a block.", "W"),
        real("power_high", "Most power sampled; of a counter that of a block.", "W"),
        real("energy", "Energy of the run's blocks.", "J"),
        real("per_query", "Energy a query.", "J"),
        real("per_sample", "Energy a sample: of an inference.", "J"),
    ),
    compute=energy,
    chart=bars(("batch_size", "Batch size"), ("per_sample", "Energy a sample (J)"), "power"),
)
