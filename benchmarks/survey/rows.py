"""Rows of the survey's tables: what its bundles and state say of each model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from benchmarks.survey.bundles import frames_of
from benchmarks.survey.measuring import SINGLE
from benchmarks.survey.residuals import blocks_of, residual_of, undisturbed
from mlscope.statistics import percentile, trimmed_mean
from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.building.busy import busy_ns
from services.analyzer.building.rates import samples_rate
from services.analyzer.building.roofs.ceilings import ceilings_of
from services.analyzer.frames.evaluation import PREDICT, Frames, Run
from services.analyzer.frames.layers import layers_of

Row = dict[str, Any]


def run_at(frames: Frames, level: Level) -> Run | None:
    """Return the first run of a level."""
    return next((run for run in frames.measured if run.row.level == level), None)


def online_row(name: str, sweep: Path, batched: Sequence[Path], again: Sequence[Path] = ()) -> Row:
    """Return a model's row of latency and throughput over batch sizes.

    Of a size of the sweep that was measured `again` the best rate counts.

    `rates` are of predict alone, batch over trimmed mean, of batch 1 that of `online_ms`;
    `best_per_s` is measured throughput, of scenario batched, where that was run, else of the
    sweep's own queries.
    """
    frames = frames_of(sweep)
    single = next(run for run in frames.measured if run.row.run == SINGLE)
    swept = [run for run in frames.measured if run is not single]
    latency = single.operator_ns(PREDICT) / 1e6
    rates = rates_of([*swept, single])
    for repeats in (rates_of(frames_of(path).measured) for path in again):
        rates |= {size: max(rate, rates.get(size, 0.0)) for size, rate in repeats.items()}
    measured = [run for path in batched for run in frames_of(path).measured] or swept
    throughput = {
        run.row.batch_size: rate.rate_hz for run in measured if (rate := samples_rate(run))
    }
    best = max(throughput, key=lambda size: throughput[size])
    return {
        "model": name,
        "framework": single.row.framework,
        "online_ms": trimmed_mean(latency),
        "p90_ms": percentile(latency, 0.9),
        "best_per_s": throughput[best],
        "best_batch": best,
        "predict_per_s": max(rates.values()),
        "rates": rates,
    }


def rates_of(runs: Sequence[Run]) -> dict[int, float]:
    """Return samples a second of predict alone by batch size, without those a model refused.

    Of several runs of a size the last counts.
    """
    return {
        run.row.batch_size: run.row.batch_size / trimmed_mean(spent_ns) * 1e9
        for run in runs
        if len(spent_ns := run.operator_ns(PREDICT))
    }


def system_row(frames: Frames, counted: Mapping[str, float] | None) -> Row:
    """Return a model's row of layers, and on a GPU kernels, at one batch size.

    FLOP and bytes are counted ones where there are some, else the layers' own: 2 a multiply-add,
    tensors read and written once. Memory-bound is below the ridge of the roof that the run of
    layers was told, null where it was told none. The GPU's share is the kernels' busy time over
    the untraced predict (XSP, Table IX).
    """
    plain, layered = run_at(frames, Level.MODEL), run_at(frames, Level.FRAMEWORK)
    deep = run_at(frames, Level.SYSTEM)
    assert plain is not None, "planned"
    model_ns = trimmed_mean(plain.operator_ns(PREDICT))
    row: Row = {"batch": plain.row.batch_size, "latency_ms": model_ns / 1e6}
    if layered is None:
        return row | {"note": "no layers"}
    layers = layers_of(layered)
    busy_in = float(layers["time"].fill_null(0).sum())
    static = _total(layers, "flops")
    moved = _total(layers, "bytes_read") + _total(layers, "bytes_written")
    row |= {"static_gflop": static / 1e9, "static_gb": moved / 1e9, "layers": layers.height}
    row["overhead"] = median(layered.operator_ns(PREDICT)) / median(plain.operator_ns(PREDICT)) - 1
    row["stages"] = stages_of(layered, deep)
    if deep is not None:
        kernels = _only_kernels(deep)
        # The median over queries of the time in which at least one kernel ran.
        busy_in = float(np.median(busy_ns(kernels, ["query"])["busy_ns"].to_numpy()))
        row["gpu_share"] = busy_in / model_ns
        row["kernels"] = kernels.height // max(deep.answered.height, 1)
        row["unattributed"] = deep.unattributed_share
        predicts = deep.operator_ns(PREDICT)
        row["deep_overhead"] = median(predicts) / median(plain.operator_ns(PREDICT)) - 1
    flops = static
    if counted is not None:
        flops, moved = counted["flops"], counted["read_bytes"] + counted["written_bytes"]
        row |= {
            "gflop": flops / 1e9,
            "reads_gb": counted["read_bytes"] / 1e9,
            "writes_gb": counted["written_bytes"] / 1e9,
            "occupancy": counted["occupancy"],
            "counted": counted["counted"],
            "stands_for": counted["kernels"],
        }
    return row | _point(flops, moved, busy_in, ceilings_of(layered.row).ideal_intensity)


def _point(flops: float, moved: float, busy_in: float, ideal: float | None) -> Row:
    intensity = flops / moved if moved and flops else None
    bound = None if intensity is None or ideal is None else intensity < ideal
    rate = flops / busy_in / 1e3 if busy_in and flops else None
    return {"intensity": intensity, "tflops": rate, "memory_bound": bound, "ideal": ideal}


def _only_kernels(deep: Run) -> pl.DataFrame:
    return deep.device_work.filter(pl.col("kind") == int(SpanKind.KERNEL))


def stages_of(layered: Run, deep: Run | None) -> str:
    """Return which thirds of the layers dominate latency, memory, FLOP, memory access (XSP IV).

    B, M or E each, '-' where nothing is known. Latency is of the layers' kernels on a GPU, where a
    layer's own time is that of its launches.
    """
    ran = layers_of(layered).filter(pl.col("queries") > 0).sort("place")
    third = (pl.int_range(pl.len()) * 3 // max(ran.height, 1)).clip(0, 2).alias("third")
    ran = ran.with_columns(third, moved=pl.col("bytes_read") + pl.col("bytes_written"))
    latency = "time"
    if deep is not None:
        times = _only_kernels(deep).group_by("layer").agg(pl.col("duration_ns").sum().alias("gpu"))
        ran = ran.join(times, left_on="node", right_on="layer", how="left", maintain_order="left")
        latency = "gpu"
    sums = ran.group_by("third").agg(
        pl.col(name).cast(pl.Float64).sum() for name in (latency, "memory_bytes", "flops", "moved")
    )
    return "/".join(_largest(sums, name) for name in (latency, "memory_bytes", "flops", "moved"))


def _largest(sums: pl.DataFrame, name: str) -> str:
    ranked = sums.sort(name, descending=True)
    if not ranked.height or not ranked[name][0]:
        return "-"
    return "BME"[int(ranked["third"][0])]


def counters_row(name: str, frames: Frames) -> Row:
    """Return what a counted replay of every kernel says of a whole model."""
    run = run_at(frames, Level.HARDWARE)
    assert run is not None, "planned"
    counted = run.device_work.filter(pl.col("flops").is_not_null())
    flops, reads = _total(counted, "flops"), _total(counted, "dram_read_bytes")
    writes, time_ns = _total(counted, "dram_write_bytes"), _total(counted, "duration_ns")
    weighted = counted.with_columns(weighted=pl.col("occupancy") * pl.col("duration_ns"))
    return {
        "model": name,
        "batch": run.row.batch_size,
        "kernels": counted.height,
        "gflop": flops / 1e9,
        "static_gflop": _total(run.layers, "flops") / 1e9,
        "reads_gb": reads / 1e9,
        "writes_gb": writes / 1e9,
        "occupancy": _total(weighted, "weighted") / time_ns,
        **_point(flops, reads + writes, 0.0, ceilings_of(run.row).ideal_intensity),
    }


def counted_row(counted: Mapping[str, float]) -> Row:
    """Return what the counters of kinds of operators say of a whole model."""
    flops, reads, writes = (counted[name] for name in ("flops", "read_bytes", "written_bytes"))
    return {
        "kinds_gflop": flops / 1e9,
        "kinds_reads_gb": reads / 1e9,
        "kinds_writes_gb": writes / 1e9,
        "kinds_occupancy": counted["occupancy"],
        "kinds_kernels": counted["kernels"],
        "counted": counted["counted"],
    }


def residual_row(name: str, path: Path) -> Row | None:
    """Return a row of the terms and the residual of one batch size; None with too few blocks."""
    frames = frames_of(path)
    plain, layered = run_at(frames, Level.MODEL), run_at(frames, Level.FRAMEWORK)
    assert plain is not None, "planned"
    if layered is None:
        return None
    blocks = blocks_of(plain, layered)
    quiet = undisturbed(blocks)
    residual, calm = residual_of(blocks), residual_of(quiet)
    if residual is None:
        return None
    cells = {"blocks": len(blocks), "quiet": len(quiet), "calm": calm and calm.residual}
    return {
        "model": name,
        "batch": plain.row.batch_size,
        "model_ms": residual.model / 1e6,
        "layers_ms": residual.layers / 1e6,
        "between_ms": residual.between / 1e6,
        "overhead_ms": residual.overhead / 1e6,
        "residual": residual.residual,
        "low": residual.interval.low,
        "high": residual.interval.high,
        "scatter": residual.scatter,
        "triples": residual.triples,
        **cells,
    }


def _total(frame: pl.DataFrame, column: str) -> float:
    """Return a column's sum, nulls being nothing."""
    return float(frame.select(pl.col(column).cast(pl.Float64).sum()).item())
