"""Memory: what a model holds and what its layers allocate, a row a run."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from mlscope.client.quantities import shown
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.own_devices import own_series
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import layers_of
from services.analyzer.tables.table import RUN_COLUMNS, Analysis, made, run_cells, text, whole


def memory(frames: Frames) -> Table:
    """Return what each run says of memory; what it does not say is null, not 0."""
    rows = [_row(run) for run in frames.measured]
    verdict = "No run says how much memory it took."
    told = _telling(frames.measured, rows)
    if told:
        most = max(told, key=lambda row: row["process_bytes"] or row["model_bytes"])
        verdict = f"{most['run']} took most: {_said(most)}."
    return made(ANALYSIS, rows, verdict, frames.caveats)


def _telling(runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that say something, of plain runs where there are some.

    A profiler takes memory itself, so that a replay for counters only tells where all else does
    not; an opening is not warm yet.
    """
    told = [
        (_special(run.row.variant), row)
        for run, row in zip(runs, rows, strict=True)
        if row["process_bytes"] or row["model_bytes"]
    ]
    least = min((special for special, _ in told), default=0)
    return [row for special, row in told if special == least]


def _special(variant: str) -> int:
    return 2 if variant == "counters" else 1 if variant else 0


def _said(row: dict[str, Any]) -> str:
    names = {
        "model_bytes": "the model",
        "process_bytes": "its process",
        "device_bytes": "on its device",
        "board_bytes": "all on its board",
    }
    return ", ".join(f"{what} {shown(row[n], 'By')}" for n, what in names.items() if row[n])


def _row(run: Run) -> dict[str, Any]:
    told = run.row.conditions
    layers = layers_of(run).drop_nulls("memory_bytes")
    resident = _most(run.series.filter(pl.col("name") == "resource.rss"))
    top = layers.sort("memory_bytes", descending=True, maintain_order=True).head(1)
    return {
        **run_cells(run.row),
        "agent": run.row.agent,
        "model_bytes": _known(told.get("memory_bytes")),
        "process_bytes": resident or _known(told.get("rss_bytes")),
        "device_bytes": _known(told.get("device_memory_bytes")),
        "board_bytes": _most(own_series(run, "nvml.memory_used")),
        "layers_bytes": int(layers["memory_bytes"].sum()) if layers.height else None,
        "layers": layers.height,
        "largest_bytes": top["memory_bytes"][0] if top.height else None,
        "largest": top["name"][0] if top.height else "",
    }


def _known(value: Any) -> int | None:
    """Return bytes; 0 is what a run says that does not know."""
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _most(series: pl.DataFrame) -> int | None:
    values = series["value"]
    return int(values.max()) if len(values) else None  # type: ignore[arg-type]


ANALYSIS = Analysis(
    name="memory",
    title="Memory",
    source=(
        "MLModelScope's memory summary: the most that was sampled beside the run, else what the "
        "worker noted; layers' as their call allocates. Extremes of one process: no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        whole("model_bytes", "What opening and the first run added to the process.", "By"),
        whole("process_bytes", "The process' resident memory, the most seen.", "By"),
        whole("device_bytes", "What its framework says it holds on its device.", "By"),
        whole(
            "board_bytes", "In use on the whole device, by whomever (NVML), the most seen.", "By"
        ),
        whole("layers_bytes", "What all layers allocate, each called once.", "By"),
        whole("layers", "Layers that say their memory."),
        whole("largest_bytes", "What the layer that allocates most does.", "By"),
        text("largest", "That layer."),
    ),
    compute=memory,
    chart=bars(("run", "Run"), ("process_bytes", "Resident memory (bytes)"), facet="agent"),
)
