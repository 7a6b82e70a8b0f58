"""The same model on the same system by several frameworks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from schemas.analysis import Table
from services.analyzer.building.best import estimate_text
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
    cells = []
    for (model, agent, device), sizes in groups.items():
        shared = [size for size, by_name in sizes.items() if len(by_name) > 1]
        if not shared:
            continue
        rivals = sorted(sizes[min(shared)].values(), key=lambda row: float(row["latency_ns"]))
        fastest = margin_in(rivals[0], "latency_ns")
        for row in rivals:
            is_fastest = row is rivals[0]
            relative = ratio(margin_in(row, "latency_ns"), fastest)
            cells.append(
                {
                    **place_cells(row),
                    "place": f"{model} on {agent}, {device}, batch {min(shared)}",
                    **estimate_cells("latency", row, "latency_ns"),
                    **(Margin(1.0, 1.0, 1.0) if is_fastest else relative).cells("relative_latency"),
                }
            )
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    slowest = max(cells, key=lambda row: float(row["relative_latency"] or 0.0))
    verdict = (
        f"They differ the most for {slowest['place']}: {slowest['framework']} takes "
        f"{estimate_text(slowest, 'relative_latency', '')} times as long as the fastest."
    )
    return make_table(EXPLORATION, cells, verdict)


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
