"""Copies: how long a call's inputs are copied to a device and its outputs back."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.building.best import estimate_text
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    counter_warnings,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    run_cells,
    share,
    text_column,
    trimmed_cells,
)
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, Frames, Run

PARTS = ("copy_in", "compute", "copy_out")
_PAGEABLE = "pageable"
_TOGETHER = "together"
MIN_COPIED = 0.05
"""The share of a call above which the verdict names slow memory: certainly, by the intervals."""


def copies(frames: Frames) -> Table:
    """Return a row for each run and part of its calls: copy in, compute and copy out."""
    rows = [row for run in frames.measured for row in _run_rows(run)]
    undivided = undivided_notes(frames)
    verdict = _verdict(rows) or " ".join(f"{note[0].upper()}{note[1:]}." for note in undivided)
    verdict = verdict or "No call was divided into copies and computing."
    return make_table(ANALYSIS, rows, verdict, [*counter_warnings(frames), *undivided])


def undivided_notes(frames: Frames) -> list[str]:
    """Return a note for each framework on a GPU whose copies are a part of predict unseen."""
    conditions = [run.row.conditions for run in frames.measured]
    frameworks = {str(c.get("framework")) for c in conditions if c.get("copies") == _TOGETHER}
    return [
        f"copies are not timed separately from computing for {framework}: predict includes both"
        for framework in sorted(frameworks)
    ]


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    parts = {row["part"]: row for row in rows if row["run"] == rows[0]["run"]}
    times = [f"{estimate_text(parts[name], 'time')} to {name.replace('_', ' ')}" for name in PARTS]
    copied = parts["copy_in"]["share"] + parts["copy_out"]["share"]
    memory = rows[0]["host_memory"]
    source = f" through {memory} memory" if memory else ""
    # The least share of copies by the intervals.
    copied_ns = sum(parts[name]["time_low"] or 0.0 for name in ("copy_in", "copy_out"))
    compute_ns = parts["compute"]["time_high"] or parts["compute"]["time"]
    least_share = copied_ns / (copied_ns + compute_ns) if copied_ns else 0.0
    is_slow = memory == _PAGEABLE and least_share >= MIN_COPIED
    advice = "; page-locked memory may be faster" if is_slow else ""
    return (
        f"A call of {rows[0]['run']} takes {', '.join(times[:-1])} and {times[-1]}: copies{source} "
        f"take {format_share(copied)} of it{advice}."
    )


def _run_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run's untimed calls whose parts were recorded."""
    untimed = run.spans.filter((pl.col("block") < 0) & (pl.col("level") == OPERATOR_LEVEL))
    times = {
        name: untimed.filter(pl.col("name") == name)["duration_ns"].to_numpy() for name in PARTS
    }
    if not len(times[PARTS[0]]):
        return
    cells = {name: trimmed_cells("time", values) for name, values in times.items()}
    total = sum(part["time"] for part in cells.values())
    for name in PARTS:
        yield {
            **run_cells(run.row),
            "part": name,
            "calls": len(times[name]),
            **cells[name],
            "share": share(cells[name]["time"], total),
            "host_memory": str(run.row.conditions.get("host_memory") or ""),
        }


ANALYSIS = Analysis(
    name="copies",
    title="Copies between host and device",
    source=(
        "Events on the device around copy in, compute and copy out, as trtexec divides a call; for "
        "JAX the host's clock, with each part waited for. Of calls made before the clock, because "
        "events and waiting take time of their own. Compute includes gaps between launches. "
        "Trimmed means."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("part", "copy_in: inputs to the device; compute; copy_out: outputs back."),
        int_column("calls", "Untimed calls that were divided."),
        *estimate_columns("time", "Trimmed mean of the part's time."),
        float_column("share", "Share of the three parts together.", "1"),
        text_column(
            "host_memory",
            "Memory of the host that inputs are copied from: page-locked or pageable.",
        ),
    ),
    compute=copies,
    chart=bars(("part", "Part"), Axis("time", "Time per call", "ns"), "share", color="part"),
)
