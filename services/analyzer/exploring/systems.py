"""Throughput over batch sizes on each system: the same model on GPUs and CPUs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, curves
from services.analyzer.building.charts.parts import view
from services.analyzer.building.table import estimate_columns, int_column, make_table, text_column
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    closed_loops,
    estimate_cells,
    fastest_of,
    place_cells,
    system_of,
)

_NOTHING = "No throughput was measured: `mlscope run MODEL --batch-size 1,4,16` measures three."


def systems(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return the throughput of each model, system and batch size; models of most systems first."""
    by_load: dict[tuple[str, str, int], Cells] = {}
    for row in closed_loops(rows):
        key = (row["model"], system_of(row), row["batch_size"])
        rival = by_load.get(key)
        if row["samples_per_s"] and (not rival or rival["samples_per_s"] < row["samples_per_s"]):
            by_load[key] = row
    if not by_load:
        return make_table(EXPLORATION, [], _NOTHING)
    counts: dict[str, set[str]] = defaultdict(set)
    for model, system, _size in by_load:
        counts[model].add(system)
    measurements = Counter(key[0] for key in by_load)
    ordered = sorted(
        by_load.items(),
        key=lambda item: (-len(counts[item[0][0]]), -measurements[item[0][0]], *item[0]),
    )
    cells = [
        {
            **place_cells(row),
            "system": system,
            "accelerator": row["accelerator"],
            "measurements": measurements[model],
            **estimate_cells("samples_per_s", row, "samples_per_s"),
        }
        for (model, system, _size), row in ordered
    ]
    by_system: dict[str, list[Cells]] = defaultdict(list)
    for row in cells:
        if row["model"] == cells[0]["model"]:
            by_system[row["system"]].append(row)
    best = [row for row in map(fastest_of, by_system.values()) if row]
    fastest = leader(best, "samples_per_s")
    model, system, size = (fastest.row[name] for name in ("model", "system", "batch_size"))
    rate = f"{estimate_text(fastest.row, 'samples_per_s', '')} samples/s at batch {size}"
    verdict = f"{model} is fastest with {system}: {rate}, of {len(best)} measured."
    question = f"which system is fastest with {model}"
    if doubt := fastest.doubt(question, lambda row: str(row["system"])):
        verdict = f"{capitalised(doubt)}; {system} has about {rate}."
    return make_table(EXPLORATION, cells, verdict)


EXPLORATION = Exploration(
    name="systems",
    title="Throughput by system",
    source="PLAT Figure 7: throughput over batch sizes of one model on each system.",
    columns=(
        *PLACE_COLUMNS,
        text_column("system", "Framework, agent and device."),
        text_column("accelerator", "Names of the machine's GPUs; '' for runs on a CPU."),
        int_column("measurements", "Systems and batch sizes with figures of this model."),
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
    ),
    compute=systems,
    chart=view(
        "model",
        {"y": "independent"},
        transform=[{"filter": "datum.measurements > 1"}],
        layer=curves(
            ("batch_size", "Batch size"),
            Axis("samples_per_s", "Samples per second"),
            "system",
            "agent",
            has_interval=True,
        )["layer"],
    ),
)
