"""The first, cold prediction against a warm one, and the time to open the model."""

from collections.abc import Mapping, Sequence

from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, dumbbells
from services.analyzer.building.table import (
    estimate_columns,
    float_column,
    format_time,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    add_subjects,
    estimate_cells,
    longest_first,
    place_cells,
    smallest_batches,
)

_NOTHING = "No run reports its first prediction."


def cold_starts(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return each model and system at its smallest batch size: opening, cold and warm times."""
    cells: list[Cells] = [
        {
            **place_cells(row),
            "open": row["load_ns"],
            "first_run": row["first_run_ns"],
            **estimate_cells("latency", row, "latency_ns"),
            "times": row["first_run_ns"] / row["latency_ns"],
        }
        for row in smallest_batches(rows)
        if row["first_run_ns"] and row["latency_ns"]
    ]
    add_subjects(cells)
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    slowest = max(cells, key=lambda row: float(row["times"]))
    verdict = (
        f"By estimates without intervals, {slowest['subject']} has the slowest first prediction "
        f"relative to a warm one: {number(slowest['times'])} times "
        f"({format_time(slowest['first_run'])})."
    )
    notes = ["a first prediction is measured once: it has no interval"]
    return make_table(EXPLORATION, cells, verdict, notes)


EXPLORATION = Exploration(
    name="cold_start",
    title="Cold start",
    source=(
        "PLAT Figure 9 over many models: the first prediction after opening against the latency of "
        "a warm one. The analysis cold_start of an evaluation shows its layers."
    ),
    columns=(
        text_column("subject", "The model, and what distinguishes its system."),
        *PLACE_COLUMNS,
        int_column("open", "Time to open the model.", "ns"),
        int_column("first_run", "Time of the first prediction.", "ns"),
        *estimate_columns("latency", "Latency of a warm query."),
        float_column("times", "The first prediction over a warm one.", "1"),
    ),
    compute=cold_starts,
    chart=longest_first(
        dumbbells(
            ("subject", " "),
            (("first_run", "first prediction"), ("latency", "warm")),
            Axis("latency", "Time", "ns"),
            "times",
            facet="",
        ),
        "first_run",
    ),
)
