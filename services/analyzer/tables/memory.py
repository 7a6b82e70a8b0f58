"""Memory of a model and of its layers, a row for each run."""

from typing import Any

import polars as pl

from mlscope.quantities import shown
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, grouped_bars
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    int_column,
    make_table,
    run_cells,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.layers import layers_of
from services.analyzer.frames.own_devices import own_series


def memory(frames: Frames) -> Table:
    """Return each run's memory; unknown values are null, not 0."""
    rows = [_memory_row(run) for run in frames.measured]
    # A profiler takes memory itself, so replays count only without other runs; a cold start is not
    # warm yet.
    ranks = {"": 0, "counters": 2}
    ranked = [
        (ranks.get(run.row.variant, 1), row)
        for run, row in zip(frames.measured, rows, strict=True)
        if row["process_bytes"] or row["model_bytes"]
    ]
    verdict = "The memory of no run is known."
    if ranked:
        _, largest = min(
            ranked,
            key=lambda pair: (pair[0], -(pair[1]["process_bytes"] or pair[1]["model_bytes"])),
        )
        names = {
            "model_bytes": "the model",
            "process_bytes": "its process",
            "device_bytes": "on its device",
            "board_bytes": "in total on its board",
        }
        amounts = (f"{n} {shown(largest[key], 'By')}" for key, n in names.items() if largest[key])
        verdict = f"{largest['run']} took the most: {', '.join(amounts)}."
    return make_table(ANALYSIS, rows, verdict, frames.caveats)


def _memory_row(run: Run) -> dict[str, Any]:
    """Return the memory (bytes) of a run's model, process, device and layers."""
    conditions = run.row.conditions
    layers = layers_of(run).drop_nulls("memory_bytes")
    resident = _largest(run.series.filter(pl.col("name") == "resource.rss"))
    top = layers.sort("memory_bytes", descending=True, maintain_order=True).head(1)
    return {
        **run_cells(run.row),
        "agent": run.row.agent,
        "model_bytes": _positive_bytes(conditions.get("memory_bytes")),
        "process_bytes": resident or _positive_bytes(conditions.get("rss_bytes")),
        "device_bytes": _positive_bytes(conditions.get("device_memory_bytes")),
        "board_bytes": _largest(own_series(run, "nvml.memory_used")),
        "layers_bytes": int(layers["memory_bytes"].sum()) if layers.height else None,
        "layers": layers.height,
        "largest_bytes": top["memory_bytes"][0] if top.height else None,
        "largest": top["name"][0] if top.height else "",
    }


def _positive_bytes(value: Any) -> int | None:
    """Return a value in bytes; a run reports 0 for unknown."""
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _largest(series: pl.DataFrame) -> int | None:
    values = series["value"]
    return int(values.max()) if len(values) else None  # type: ignore[arg-type]


ANALYSIS = Analysis(
    name="memory",
    title="Memory",
    source=(
        "MLModelScope's memory summary: the maximum of the samples during the run, else the "
        "worker's own value; for layers, the allocation of one call. Extremes have no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        int_column(
            "model_bytes", "Memory that opening and the first run added to the process.", "By"
        ),
        int_column("process_bytes", "Maximum resident memory of the process.", "By"),
        int_column("device_bytes", "Memory on the device that the framework reports.", "By"),
        int_column(
            "board_bytes", "Maximum memory in use on the device by all processes (NVML).", "By"
        ),
        int_column("layers_bytes", "Bytes allocated by one call of each layer.", "By"),
        int_column("layers", "Layers with known memory."),
        int_column("largest_bytes", "Bytes allocated by the layer that allocates the most.", "By"),
        text_column("largest", "The layer that allocates the most."),
    ),
    compute=memory,
    chart=grouped_bars(
        ("run", "Run"),
        {
            "process_bytes": "process",
            "device_bytes": "device",
            "layers_bytes": "layers",
            "model_bytes": "model",
        },
        Axis("", "Memory", "By"),
        facet="agent",
    ),
)
