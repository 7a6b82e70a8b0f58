"""The same model on the same system by several frameworks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import Margin, margin_in, ratio
from services.analyzer.building.table import estimate_columns, make_table, text_column
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    closed_loops,
    estimate_cells,
    place_cells,
)

_NOTHING = (
    "No model was measured with two frameworks on one system: `mlscope run MODEL --framework NAME` "
    "chooses one."
)


def frameworks(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return latency relative to the fastest framework, at the smallest batch size of several."""
    groups: dict[tuple[str, str, str], dict[int, dict[str, Cells]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in closed_loops(rows):
        if row["latency_ns"]:
            sizes = groups[row["model"], row["agent"], row["device"]]
            sizes[row["batch_size"]].setdefault(row["framework"], row)
    cells, slower = [], []
    for (model, agent, device), sizes in groups.items():
        shared = [size for size, by_name in sizes.items() if len(by_name) > 1]
        if not shared:
            continue
        rivals = sorted(sizes[min(shared)].values(), key=lambda row: float(row["latency_ns"]))
        group = [
            {
                **place_cells(row),
                "place": f"{model} on {agent}, {device}, batch {min(shared)}",
                **estimate_cells("latency", row, "latency_ns"),
                **relative.cells("relative_latency"),
            }
            for row, relative in zip(rivals, _relative_latencies(rivals), strict=True)
        ]
        cells += group
        slower += group[1:]
    return make_table(EXPLORATION, cells, _verdict(slower) if slower else _NOTHING)


def _relative_latencies(rivals: Sequence[Cells]) -> list[Margin]:
    """Return the latency of each of the `rivals` relative to the first one's, which is 1."""
    fastest, *others = [margin_in(row, "latency_ns") for row in rivals]
    return [Margin(1.0, 1.0, 1.0), *(ratio(latency, fastest) for latency in others)]


def _verdict(slower: Sequence[Cells]) -> str:
    """Return where frameworks differ the most, of the rows `slower` than the fastest one there."""
    slowest = leader(slower, "relative_latency")
    row = slowest.row
    times = estimate_text(row, "relative_latency", "")
    gap = f"{row['framework']} takes {times} times as long as the fastest"
    if not any((row["relative_latency_low"] or 0.0) > 1.0 for row in slower):
        return f"No framework is slower with an interval above 1; for {row['place']}, {gap}."
    question = "where they differ the most"
    if doubt := slowest.doubt(question, lambda row: f"{row['framework']} for {row['place']}"):
        return f"{capitalised(doubt)}; for {row['place']}, {gap}."
    return f"They differ the most for {row['place']}: {gap}."


EXPLORATION = Exploration(
    name="frameworks",
    title="Frameworks on one system",
    source=(
        "XSP section IV: latency relative to the fastest framework, at the smallest batch size "
        "that several have. The interval of a ratio combines both, by logarithms (Zou and Donner "
        "2008)."
    ),
    columns=(
        *PLACE_COLUMNS,
        text_column("place", "Model, agent, device and batch size: rows of one place compare."),
        *estimate_columns("latency", "Latency of a query."),
        *estimate_columns("relative_latency", "Latency relative to the fastest framework.", "1"),
    ),
    compute=frameworks,
    chart=bars(
        ("framework", "Framework"), Axis("relative_latency", "Relative latency"), facet="place"
    ),
)
