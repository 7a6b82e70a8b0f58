"""Tables of what a survey left: like XSP's Table IX, and like the platform paper's Table 2.

`python -m benchmarks.survey.tables OUT [--markdown FILE] [--roof FILE]` reads bundles and state;
needs no GPU. Bundles of agents that measured no roof are set against that of the roof's file (as
`python -m benchmarks.gpu_roofs --words FILE` writes it; OUT/roof.json) where it is of a GPU of the
same name, else against the datasheet; without either no model is said to be memory-bound.
Latencies are trimmed means (20 % cut at each end, the papers' statistic). The data of the platform
paper's Figures 4 to 7 are in them: accuracy (as published, of the catalog's manifests) beside
latency, throughput and size, throughput and speed-up over batch sizes.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from benchmarks.survey.bundles import frames_of
from benchmarks.survey.roofs import FILE, kept_roof, roofed_frames
from benchmarks.survey.rows import (
    Row,
    counted_row,
    counters_row,
    online_row,
    residual_row,
    run_at,
    system_row,
)
from benchmarks.survey.subjects import DEEP
from cli.commands.planning import shipped_catalog
from mlscope.manifests.figures import figures_of
from mlscope.settings import Settings
from schemas.level import Level
from services.agent.ceilings import NO_ROOF, Roof
from services.analyzer.frames import LAYER_LEVEL

ONLINE = (
    ("model", "model", ""),
    ("framework", "framework", ""),
    ("accuracy", "accuracy, published (%)", ".2f"),
    ("megabytes", "size (MB)", ".0f"),
    ("online_ms", "online trimmed mean (ms)", ".2f"),
    ("p90_ms", "p90 (ms)", ".2f"),
    ("best_per_s", "max throughput (1/s)", ".0f"),
    ("best_batch", "at batch", ""),
    ("optimal", "optimal batch", ""),
    ("predict_per_s", "max of predict alone (1/s)", ".0f"),
)
SYSTEM = (
    ("model", "model", ""),
    ("batch", "optimal batch", ""),
    ("latency_ms", "latency (ms)", ".2f"),
    ("gpu_share", "GPU share", ".1%"),
    ("gflop", "GFLOP (counted)", ".4g"),
    ("static_gflop", "GFLOP (static)", ".4g"),
    ("reads_gb", "DRAM reads (GB)", ".3g"),
    ("writes_gb", "DRAM writes (GB)", ".3g"),
    ("occupancy", "occupancy (%)", ".1f"),
    ("intensity", "FLOP/byte", ".1f"),
    ("tflops", "TFLOP/s", ".3g"),
    ("memory_bound", "memory-bound", ""),
    ("stages", "stages", ""),
    ("layers", "layers", ""),
    ("kernels", "kernels", ""),
    ("stands_for", "kernels counted for", ""),
    ("unattributed", "unattributed", ".2%"),
    ("overhead", "L - M", "+.1%"),
    ("deep_overhead", "G - M", "+.1%"),
)
COUNTERS = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("kernels", "kernels", ""),
    ("kinds_kernels", "by kinds", ""),
    ("counted", "of them run", ""),
    ("gflop", "GFLOP", ".1f"),
    ("kinds_gflop", "by kinds", ".1f"),
    ("static_gflop", "static", ".1f"),
    ("reads_gb", "DRAM reads (GB)", ".3g"),
    ("kinds_reads_gb", "by kinds", ".2f"),
    ("writes_gb", "DRAM writes (GB)", ".3g"),
    ("kinds_writes_gb", "by kinds", ".2f"),
    ("occupancy", "occupancy (%)", ".1f"),
    ("kinds_occupancy", "by kinds", ".1f"),
)
RESIDUAL = (
    ("model", "model", ""),
    ("batch", "batch", ""),
    ("model_ms", "M (ms)", ".3f"),
    ("layers_ms", "layers (ms)", ".3f"),
    ("between_ms", "between (ms)", ".3f"),
    ("overhead_ms", "L - M (ms)", "+.3f"),
    ("residual", "residual", "+.2%"),
    ("low", "from", "+.2%"),
    ("high", "to", "+.2%"),
    ("scatter", "scatter of one", ".2%"),
    ("blocks", "pairs of blocks", ""),
    ("quiet", "undisturbed", ""),
    ("calm", "residual of these", "+.2%"),
)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every table that the folder has bundles for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--roof", type=Path)
    options = parser.parse_args(arguments)
    roof = kept_roof(options.roof or options.out / FILE)
    text = "\n".join(sections(options.out, roof))
    if options.markdown is not None:
        options.markdown.write_text(text)
    print(text)
    return 0


def sections(out: Path, roof: Roof = NO_ROOF) -> Iterator[str]:
    """Yield the tables, each below its title; `roof` is of runs that were told none."""
    state = json.loads((out / "state.json").read_text()) if (out / "state.json").exists() else {}
    names = [
        name
        for name in state.get("survey", {}).get("models", [])
        if f"sweep {name}" in state and (out / f"sweep-{name}.bundle").exists()
    ]
    if names:
        yield from _online(out, names, state)
    systems = [
        {
            "model": name,
            **system_row(
                roofed_frames(path, roof), state.get(f"counted {name} {state[step]['batch']}")
            ),
        }
        for name in names
        if (step := f"system {name}") in state and (path := out / f"system-{name}.bundle").exists()
    ]
    if systems:
        yield "## Layers and kernels at the optimal batch\n\n" + markdown(systems, SYSTEM)
    yield from _deep(out, state, roof)
    if (out / "truth.json").exists():
        yield "## Beside layers of known length\n\n" + _truth(out)


def _online(out: Path, names: Sequence[str], state: Row) -> Iterator[str]:
    known = _published()
    rows = []
    for name in names:
        row = online_row(
            name, out / f"sweep-{name}.bundle", sorted(out.glob(f"throughput-{name}-*.bundle"))
        )
        optimal = state.get(f"sweep {name}", {}).get("optimal")
        rows.append({**row, "optimal": optimal, **known.get(_plain(name), {})})
    yield "## Online latency and throughput\n\n" + markdown(rows, ONLINE)
    sizes = sorted({size for row in rows for size in row["rates"]})
    columns = [("model", "samples/s of predict at batch", "")]
    columns += [(str(s), str(s), ".0f") for s in sizes]
    rates = [{"model": r["model"], **{str(k): v for k, v in r["rates"].items()}} for r in rows]
    yield "## Throughput over batch sizes\n\n" + markdown(rates, columns)
    ups = [
        {"model": r["model"], **{k: v / r["1"] for k, v in r.items() if k != "model"}}
        for r in rates
        if "1" in r
    ]
    columns = [("model", "speed-up over batch 1", ""), *((str(s), str(s), ".1f") for s in sizes)]
    yield "## Speed-up over batch sizes\n\n" + markdown(ups, columns)


def _deep(out: Path, state: Row, roof: Roof) -> Iterator[str]:
    deep = [
        {
            "model": net.name,
            **system_row(roofed_frames(path, roof), state.get(f"counted {net.name} {size}")),
        }
        for net in DEEP
        for size in net.batch_sizes
        if (path := out / f"deep-{net.name}-{size}.bundle").exists()
    ]
    if deep:
        yield "## Looked at deeply\n\n" + markdown(deep, SYSTEM)
    residuals = [
        row
        for net in DEEP
        for size in net.batch_sizes
        if (path := out / f"residual-{net.name}-{size}.bundle").exists()
        and (row := residual_row(net.name, path)) is not None
    ]
    if residuals:
        yield "## Layers + between - (L - M) beside M\n\n" + markdown(residuals, RESIDUAL)
    counted = []
    for net in DEEP:
        path = out / f"counters-{net.name}.bundle"
        told: Row = {"model": net.name}
        if path.exists():
            told = counters_row(net.name, roofed_frames(path, roof))
        for step in (each for each in state if each.startswith(f"counted {net.name} ")):
            size = int(step.rpartition(" ")[2])
            if told.setdefault("batch", size) == size:
                told |= counted_row(state[step])
        if len(told) > 1:
            counted.append(told)
    if counted:
        yield "## Hardware counters (ncu)\n\n" + markdown(counted, COUNTERS)


def _published() -> dict[str, Row]:
    """Return accuracy in percent and megabytes of the catalog's models, as their manifests say."""
    models = shipped_catalog(Settings.read(os.environ).manifests_folder).models
    found = {}
    for model in models:
        told = figures_of(model)
        size = None if told.size_bytes is None else told.size_bytes / 1e6
        found[_plain(model.name)] = {"accuracy": told.accuracy, "megabytes": size}
    return found


def _plain(name: str) -> str:
    """Return a name as the survey's own and the catalog's models have it in common."""
    return name.removeprefix("torchvision-").replace("_", "-")


def _truth(out: Path) -> str:
    rows = list(truth_rows(out))
    rows.append({"round": "median", **_medians(rows)})
    keys = [key for key in rows[0] if key not in ("round", "bare_ms")]
    columns = [("round", "round", ""), ("bare_ms", "bare (ms)", ".2f")]
    return markdown(rows, [*columns, *((key, key.replace("_", " "), "+.1%") for key in keys)])


def _medians(rows: Sequence[Row]) -> Row:
    return {key: median(row[key] for row in rows) for key in rows[0] if key != "round"}


if __name__ == "__main__":
    sys.exit(main())
