"""Tables of what the survey left: like XSP's Table IX, and like the platform paper's Table 2.

`python -m benchmarks.gpu.tables OUT [--markdown FILE]` reads bundles and state; needs no GPU.
Latencies are trimmed means (20 % cut at each end, the papers' statistic). GPU share is the busy
union of kernels over predict; FLOP and bytes are the layers' own (static: 2 a multiply-add, tensors
read and written once), since counters were read of few models: these are in a table of their own.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.gpu.bundles import frames_of
from benchmarks.gpu.subjects import DEEP, SURVEYED, Net
from mlscope.statistics import percentile, trimmed_mean
from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.busy import busy_ns
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Run

Row = dict[str, Any]

#: H200 SXM by its datasheet: fp32 FLOP/s outside of tensor cores, bytes/s
PEAK_FLOPS, BANDWIDTH = 67e12, 4.8e12


def run_at(frames: Frames, level: Level) -> Run | None:
    """Return the first run of a level."""
    return next((run for run in frames.measured if run.row.level == level), None)


def online_row(net: Net, folder: Path) -> Row:
    """Return a model's row of latency and throughput over batch sizes."""
    frames = frames_of(folder / f"sweep-{net.name}.bundle")
    single = next(run for run in frames.measured if run.row.run == "b1-single-model")
    rate = {
        run.row.batch_size: run.row.batch_size / trimmed_mean(run.operator_ns("predict")) * 1e9
        for run in frames.measured
        if run is not single
    }
    latency = single.operator_ns("predict") / 1e6
    return {
        "model": net.name,
        "online_ms": trimmed_mean(latency),
        "p90_ms": percentile(latency, 0.9),
        "best_per_s": max(rate.values()),
        "best_batch": max(rate, key=lambda size: rate[size]),
        "rates": rate,
    }


def system_row(path: Path, batch: int) -> Row:
    """Return a model's row of layers and kernels at one batch size."""
    frames = frames_of(path)
    plain, layered = run_at(frames, Level.MODEL), run_at(frames, Level.FRAMEWORK)
    deep = run_at(frames, Level.SYSTEM)
    assert plain is not None, "planned"
    assert layered is not None, "planned"
    assert deep is not None, "planned"
    kernels = deep.kernels.filter(pl.col("kind") == int(SpanKind.KERNEL))
    busy = busy_ns(kernels, ["query"])["busy_ns"].to_numpy()
    model_ns = trimmed_mean(plain.operator_ns("predict"))
    flops = float(layered.layers["flops"].fill_null(0).sum())
    moved = sum(
        float(layered.layers[n].fill_null(0).sum()) for n in ("bytes_read", "bytes_written")
    )
    kernel_ns = float(np.median(busy))
    return {
        "batch": batch,
        "latency_ms": model_ns / 1e6,
        "gpu_share": kernel_ns / trimmed_mean(deep.operator_ns("predict")),
        "gflop": flops / 1e9,
        "bytes_gb": moved / 1e9,
        "intensity": flops / moved if moved else None,
        "tflops": flops / kernel_ns / 1e3,
        "memory_bound": flops / moved < PEAK_FLOPS / BANDWIDTH if moved else None,
        "stage": _stage(kernels, layered.layers.height),
        "kernels": kernels.height // max(deep.answered.height, 1),
        "unattributed": deep.unattributed_share,
        "residual": residual(plain, layered),
        "overhead": median(layered.operator_ns("predict")) / median(plain.operator_ns("predict"))
        - 1,
        "deep_overhead": median(deep.operator_ns("predict")) / median(plain.operator_ns("predict"))
        - 1,
    }


def residual(plain: Run, layered: Run) -> float | None:
    """Return how far layers + between - (L - M) is from M, as a share of M; None with one block.

    Layers and what is between are of the odd blocks of level framework, L of its even blocks: of
    the same queries they would cancel. The overhead L - M is of the even blocks of both runs, the M
    that it must lead back to is of the odd blocks of level model: so a wrong M does not cancel.
    """
    odd, even = pl.col("block") % 2 == 1, pl.col("block") % 2 == 0
    halves = [run.answered.filter(part) for run in (plain, layered) for part in (odd, even)]
    if not all(half.height for half in halves):
        return None
    model_odd, model_even, layered_odd, layered_even = (half["query"] for half in halves)
    layers = _summed(layered.spans_at(LAYER_LEVEL), layered_odd)
    between = _predicts(layered, layered_odd) - layers
    overhead = median(_predicts(layered, layered_even)) - median(_predicts(plain, model_even))
    model = median(_predicts(plain, model_odd))
    return float((median(layers) + median(between) - overhead) / model - 1)


def _predicts(run: Run, queries: pl.Series) -> npt.NDArray[np.int64]:
    return _summed(run.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == PREDICT), queries)


def _summed(spans: pl.DataFrame, queries: pl.Series) -> npt.NDArray[np.int64]:
    """Return the summed time of each of these queries, in their order."""
    mine = spans.join(queries.to_frame(), on="query", how="semi")
    return (
        mine.group_by("query")
        .agg(pl.col("duration_ns").sum())
        .sort("query")["duration_ns"]
        .to_numpy()
    )


def _stage(kernels: pl.DataFrame, layers: int) -> str:
    """Return which third of the layers, by index, holds most kernel time (XSP IV)."""
    third = (pl.col("layer") * 3 // max(layers, 1)).clip(0, 2)
    parts = kernels.group_by(third.alias("third")).agg(pl.col("duration_ns").sum())
    parts = parts.drop_nulls().sort("duration_ns", descending=True)
    return ("beginning", "middle", "end")[int(parts["third"][0])] if parts.height else ""


def counters_row(net: Net, path: Path) -> Row:
    """Return what a counted replay says of a whole model."""
    (run,) = frames_of(path).measured
    found = run.kernels.filter(pl.col("flops").is_not_null())
    flops, reads = _total(found, "flops"), _total(found, "dram_read_bytes")
    writes, time_ns = _total(found, "dram_write_bytes"), _total(found, "duration_ns")
    weighted = found.with_columns(weighted=pl.col("occupancy") * pl.col("duration_ns"))
    return {
        "model": net.name,
        "batch": run.row.batch_size,
        "kernels": found.height,
        "gflop": flops / 1e9,
        "static_gflop": _total(run.layers, "flops") / 1e9,
        "reads_gb": reads / 1e9,
        "writes_gb": writes / 1e9,
        "occupancy": _total(weighted, "weighted") / time_ns,
        "intensity": flops / (reads + writes),
        "memory_bound": flops / (reads + writes) < PEAK_FLOPS / BANDWIDTH,
    }


def _total(frame: pl.DataFrame, column: str) -> float:
    """Return a column's sum, nulls being nothing."""
    return float(frame.select(pl.col(column).cast(pl.Float64).sum()).item())


def truth_rows(folder: Path) -> Iterator[Row]:
    """Yield how far each round of `truth` was off the known lengths, at each level."""
    told = json.loads((folder / "truth.json").read_text())
    for number, told_round in enumerate(told["rounds"]):
        frames = frames_of(folder / f"truth-{number}.bundle")
        known = np.array(told_round["layers_ns"])
        row: Row = {"round": number, "bare_ms": told_round["bare_ms"]}
        for level in (Level.MODEL, Level.FRAMEWORK, Level.SYSTEM):
            run = run_at(frames, level)
            assert run is not None, "planned"
            name = level.name.lower()
            row[f"{name}_model"] = median(run.operator_ns("predict")) / 1e6 / row["bare_ms"] - 1
            if level >= Level.FRAMEWORK:
                spans = run.spans_at(LAYER_LEVEL).group_by("layer")
                times = spans.agg(pl.col("duration_ns").median()).sort("layer")["duration_ns"]
                row[f"{name}_layers"] = float(np.median(times.to_numpy() / known)) - 1
        yield row


def markdown(rows: Sequence[Row], columns: Sequence[tuple[str, str, str]]) -> str:
    """Return rows as a table; columns are (key, heading, format)."""
    head = "| " + " | ".join(heading for _, heading, _ in columns) + " |"
    rule = "|" + "---|" * len(columns)
    lines = ["| " + " | ".join(_cell(row.get(k), f) for k, _, f in columns) + " |" for row in rows]
    return "\n".join((head, rule, *lines)) + "\n"


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if form else str(value)


ONLINE = (
    ("model", "model", ""),
    ("online_ms", "online trimmed mean (ms)", ".2f"),
    ("p90_ms", "p90 (ms)", ".2f"),
    ("best_per_s", "max throughput (1/s)", ".0f"),
    ("best_batch", "at batch", ""),
)
SYSTEM = (
    ("model", "model", ""),
    ("batch", "optimal batch", ""),
    ("latency_ms", "latency (ms)", ".2f"),
    ("gpu_share", "GPU share", ".1%"),
    ("gflop", "GFLOP (static)", ".1f"),
    ("bytes_gb", "bytes (static, GB)", ".2f"),
    ("intensity", "FLOP/byte", ".1f"),
    ("tflops", "TFLOP/s", ".1f"),
    ("memory_bound", "memory-bound", ""),
    ("stage", "stage", ""),
    ("kernels", "kernels", ""),
    ("unattributed", "unattributed", ".2%"),
    ("residual", "residual", "+.2%"),
    ("overhead", "L - M", "+.1%"),
    ("deep_overhead", "G - M", "+.1%"),
)
COUNTERS = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("kernels", "kernels", ""),
    ("gflop", "GFLOP (counted)", ".1f"),
    ("static_gflop", "GFLOP (static)", ".1f"),
    ("reads_gb", "DRAM reads (GB)", ".2f"),
    ("writes_gb", "DRAM writes (GB)", ".2f"),
    ("occupancy", "occupancy (%)", ".1f"),
    ("intensity", "FLOP/byte", ".1f"),
    ("memory_bound", "memory-bound", ""),
)


def main() -> int:
    """Print every table that the folder has bundles for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    text = "\n".join(_sections(options.out))
    if options.markdown is not None:
        options.markdown.write_text(text)
    print(text)
    return 0


def _sections(out: Path) -> Iterator[str]:
    state = json.loads((out / "state.json").read_text()) if (out / "state.json").exists() else {}
    swept = [net for net in SURVEYED if (out / f"sweep-{net.name}.bundle").exists()]
    if swept:
        online = [online_row(net, out) for net in swept]
        yield "## Online latency and throughput\n\n" + markdown(online, ONLINE)
        sizes = sorted({size for row in online for size in row["rates"]})
        rates = [
            {"model": r["model"], **{str(k): v for k, v in r["rates"].items()}} for r in online
        ]
        columns = [("model", "samples/s at batch", ""), *((str(s), str(s), ".0f") for s in sizes)]
        yield "## Throughput over batch sizes\n\n" + markdown(rates, columns)
    systems = [
        {"model": net.name, **system_row(path, state[f"system {net.name}"]["batch"])}
        for net in SURVEYED
        if (path := out / f"system-{net.name}.bundle").exists()
    ]
    if systems:
        yield "## Layers and kernels at the optimal batch\n\n" + markdown(systems, SYSTEM)
    deep = [
        {"model": net.name, **system_row(path, size)}
        for net in DEEP
        for size in net.batch_sizes
        if (path := out / f"deep-{net.name}-{size}.bundle").exists()
    ]
    if deep:
        yield "## Looked at deeply\n\n" + markdown(deep, SYSTEM)
    counted = [
        counters_row(net, path)
        for net in DEEP
        if (path := out / f"counters-{net.name}.bundle").exists()
    ]
    if counted:
        yield "## Hardware counters (ncu, one replayed call)\n\n" + markdown(counted, COUNTERS)
    if (out / "truth.json").exists():
        rows = list(truth_rows(out))
        rows.append({"round": "median", **_medians(rows)})
        keys = [key for key in rows[0] if key not in ("round", "bare_ms")]
        columns = [("round", "round", ""), ("bare_ms", "bare (ms)", ".2f")]
        columns += [(key, key.replace("_", " "), "+.1%") for key in keys]
        yield "## Beside layers of known length\n\n" + markdown(rows, columns)


def _medians(rows: Sequence[Row]) -> Row:
    return {key: median(row[key] for row in rows) for key in rows[0] if key != "round"}


if __name__ == "__main__":
    sys.exit(main())
