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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.survey.bundles import frames_of
from benchmarks.survey.columns import (
    COUNTERS,
    ENERGIES,
    NUMBERED_ROWS,
    ONLINE,
    RESIDUAL,
    SYSTEM,
    markdown,
)
from benchmarks.survey.full_rows import counted_in, energy_row, numbered_row, optimal_verdict
from benchmarks.survey.measuring import optimal_batch
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
from cli.offline.planning import shipped_catalog
from mlscope.manifests.figures import figures_of
from mlscope.settings import Settings
from schemas.level import Level
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof
from services.analyzer.frames.evaluation import LAYER_LEVEL, OPERATOR_LEVEL, Frames


def truth_rows(folder: Path) -> Iterator[Row]:
    """Yield how far each round of `truth` was off the known lengths, at each level."""
    report = json.loads((folder / "truth.json").read_text())
    frames = frames_of(folder / "truth.bundle")
    truths = {(figures["run"], figures["block"]): figures for figures in report["blocks"]}
    for block in sorted({block for _, block in truths}):
        row: Row = {"round": block, "bare_ms": 0.0}
        for level in (Level.MODEL, Level.FRAMEWORK, Level.SYSTEM):
            run = run_at(frames, level)
            assert run is not None, "planned"
            truth, name = truths[run.row.run, block], level.name.lower()
            row["bare_ms"] += truth["bare_ns"] / 3e6
            is_of_block = pl.col("block") == block
            predict = run.spans_at(OPERATOR_LEVEL).filter(is_of_block, pl.col("name") == "predict")
            predict_ns = float(np.median(predict["duration_ns"].to_numpy()))
            row[f"{name}_model"] = predict_ns / truth["bare_ns"] - 1
            if level >= Level.FRAMEWORK:
                spans = run.spans_at(LAYER_LEVEL).filter(is_of_block).group_by("layer")
                times = spans.agg(pl.col("duration_ns").median()).sort("layer")["duration_ns"]
                layers_ns = np.array(truth["layers_ns"])
                row[f"{name}_layers"] = float(np.median(times.to_numpy() / layers_ns)) - 1
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
    yield from _energy(out, names)
    yield from _deep(out, state, roof)
    if (out / "truth.json").exists():
        yield "## Beside layers of known length\n\n" + _truth(out)


def _online(out: Path, names: Sequence[str], state: Row) -> Iterator[str]:
    published = _published()
    rows = []
    for name in names:
        batched, again = (
            sorted(out.glob(pattern))
            for pattern in (f"throughput-{name}-*.bundle", f"sweep-{name}-again-*.bundle")
        )
        row = online_row(name, out / f"sweep-{name}.bundle", batched, again)
        optimal = state.get(f"sweep {name}", {}).get("optimal")
        rows.append({**row, "optimal": optimal, **published.get(_plain(name), {})})
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


def _energy(out: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield energy of untraced queries: of models at their fastest, of deep ones at each batch."""
    paths = [
        *((name, path) for name in names for path in sorted(out.glob(f"throughput-{name}-*"))),
        *(
            (net.name, out / f"energy-{net.name}-{size}.bundle")
            for net in DEEP
            for size in net.batch_sizes
        ),
    ]
    rows = [energy_row(name, path) for name, path in paths if path.exists()]
    measured = [{**row, "seconds": row["busy"] / 1e9} for row in rows if row is not None]
    if measured:
        yield "## Energy of an inference\n\n" + markdown(measured, ENERGIES)


def _deep(out: Path, state: Row, roof: Roof) -> Iterator[str]:
    looked = {
        (net.name, size): path
        for net in DEEP
        for size in net.batch_sizes
        if (path := out / f"deep-{net.name}-{size}.bundle").exists()
    }
    frames_by_key = {key: roofed_frames(path, roof) for key, path in looked.items()}
    if frames_by_key:
        deep = [
            {
                "model": name,
                **system_row(frames, counted_in(frames) or state.get(f"counted {name} {size}")),
            }
            for (name, size), frames in frames_by_key.items()
        ]
        yield "## Looked at deeply\n\n" + markdown(deep, SYSTEM)
        yield "## Level full: rows of A1 to A15\n\n" + _numbered(looked, state)
    residuals = [
        row
        for net in DEEP
        for size in net.batch_sizes
        if (path := out / f"residual-{net.name}-{size}.bundle").exists()
        and (row := residual_row(net.name, path)) is not None
    ]
    if residuals:
        title = "## Layers + between - (L - M) beside M\n\n"
        yield title + markdown(residuals, RESIDUAL) + optimum(residuals)
    counted = list(_counted(frames_by_key, state))
    if counted:
        yield "## Hardware counters (ncu)\n\n" + markdown(counted, COUNTERS)


def _numbered(looked: Mapping[tuple[str, int], Path], state: Row) -> str:
    """Return the rows of each table, as the agent's own bundle gives them, and the optimum."""
    rows = [
        {**numbered_row(name, frames_of(path)), **state.get(f"deep {name} {size}", {})}
        for (name, size), path in looked.items()
    ]
    first = next(iter(looked))[0]
    several = [path for (name, _), path in looked.items() if name == first]
    paragraph = f"\n{first}, A1 over its evaluations: {optimal_verdict(several)}\n"
    return markdown([{**row, "levels": row["traced"]} for row in rows], NUMBERED_ROWS) + paragraph


def optimum(residuals: Sequence[Row]) -> str:
    """Return the optimal batch by M (many short blocks) of the model that has most sizes."""
    sizes = Counter(row["model"] for row in residuals)
    name, count = sizes.most_common(1)[0]
    mine = {row["batch"]: row["model_ms"] for row in residuals if row["model"] == name}
    return f"\n{name}, optimal batch by M: {optimal_batch(mine)}\n" if count > 1 else ""


def _counted(frames_by_key: Mapping[tuple[str, int], Frames], state: Row) -> Iterator[Row]:
    """Yield what ncu counted kernel by kernel, beside one call of each kind of operator."""
    for (name, size), frames in frames_by_key.items():
        if counted_in(frames) is None:
            continue
        counters = counters_row(name, frames)
        kinds = state.get(f"counted {name} {size}")
        yield counters if kinds is None else counters | counted_row(kinds)


def _published() -> dict[str, Row]:
    """Return accuracy in percent and megabytes of the catalog's models, as their manifests say."""
    models = shipped_catalog(Settings.read(os.environ).manifests_folder).models
    figures = {}
    for model in models:
        published = figures_of(model)
        size = None if published.size_bytes is None else published.size_bytes / 1e6
        figures[_plain(model.name)] = {"accuracy": published.accuracy, "megabytes": size}
    return figures


def _plain(name: str) -> str:
    """Return a name as the survey's own and the catalog's models have it in common."""
    return name.removeprefix("torchvision-").replace("_", "-")


def _truth(out: Path) -> str:
    rows = list(truth_rows(out))
    medians = {key: median(row[key] for row in rows) for key in rows[0] if key != "round"}
    rows.append({"round": "median", **medians})
    keys = [key for key in rows[0] if key not in ("round", "bare_ms")]
    columns = [("round", "round", ""), ("bare_ms", "bare (ms)", ".2f")]
    return markdown(rows, [*columns, *((key, key.replace("_", " "), "+.1%") for key in keys)])


if __name__ == "__main__":
    sys.exit(main())
