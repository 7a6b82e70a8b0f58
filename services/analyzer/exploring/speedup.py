"""Throughput over that of the smallest batch, as a heat map of models and batch sizes."""

from collections.abc import Mapping, Sequence

from schemas.analysis import Table
from services.analyzer.building.best import Leader, capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, Chart, heat
from services.analyzer.building.margins import Margin, margin_in, ratio
from services.analyzer.building.table import (
    bool_column,
    estimate_columns,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.exploring.source import (
    PLACE_COLUMNS,
    Cells,
    Exploration,
    add_subjects,
    by_system,
    closed_loops,
    longest_first,
    place_cells,
)

_NOTHING = (
    "No model was measured at two batch sizes: "
    "`mlscope run MODEL --batch-size 1,2,4,8` measures four."
)


def speedup(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return each model and system with several batch sizes; the smallest has speed-up 1."""
    cells: list[Cells] = []
    for group in by_system(closed_loops(rows)).values():
        # Scenarios may share a batch size: the faster one counts.
        rated = {
            row["batch_size"]: row
            for row in sorted(
                (row for row in group if row["samples_per_s"]),
                key=lambda row: float(row["samples_per_s"]),
            )
        }
        if len(rated) < 2:
            continue
        base, fastest = rated[min(rated)], leader(list(rated.values()), "samples_per_s")
        for size, row in sorted(rated.items()):
            margins = [margin_in(side, "samples_per_s") for side in (row, base)]
            gain = Margin(1.0, 1.0, 1.0) if row is base else ratio(*margins)
            cells.append(
                {
                    **place_cells(row),
                    "base_batch_size": base["batch_size"],
                    "is_best": _is_best(row, fastest),
                    **gain.cells("speedup"),
                    "batch_size": size,
                }
            )
    add_subjects(cells)
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    larger = [row for row in cells if row["batch_size"] != row["base_batch_size"]]
    return make_table(EXPLORATION, cells, _verdict(larger))


def _is_best(row: Cells, fastest: Leader) -> bool | None:
    """Return whether a row has the highest throughput; None where its interval leaves it open."""
    if fastest.rivals and any(row is candidate for candidate in (fastest.row, *fastest.rivals)):
        return None
    return row is fastest.row


def _verdict(larger: Sequence[Cells]) -> str:
    """Return which of the rows with `larger` batches gains the most, where intervals tell."""
    largest = leader(larger, "speedup")
    # A wide interval may hold any gain: what is certain of it counts.
    surest = max(larger, key=lambda row: float(row["speedup_low"] or 0.0))
    if (surest["speedup_low"] or 0.0) <= 1.0:
        no_gain = "No larger batch has a speed-up whose interval is above 1"
        return f"{no_gain}; {largest.row['subject']}: {_gain_text(largest.row)}."
    is_most = len(larger) > 1 and not largest.rivals
    gains = f"{surest['subject']} gains{' the most' if is_most else ', with an interval above 1'}"
    doubt = largest.doubt("which gains the most", lambda row: str(row["subject"]), ("batch_size",))
    doubt_text = f"{capitalised(doubt)}; " if doubt else ""
    return f"{doubt_text}{gains}: {_gain_text(surest)}."


def _gain_text(row: Cells) -> str:
    return (
        f"batch {row['batch_size']} has {estimate_text(row, 'speedup', '')} times the throughput "
        f"of batch {row['base_batch_size']}"
    )


def _chart() -> Chart:
    """Return a heat map in which the best batch size of each model has an outline."""
    chart = heat(("batch_size", "Batch size"), ("subject", " "), Axis("speedup", "Speed-up"))
    # Equal steps are equal ratios.
    chart["layer"][0]["encoding"]["color"]["scale"]["type"] = "log"
    position = {name: chart["layer"][0]["encoding"][name] for name in ("x", "y")}
    best = {
        "transform": [{"filter": "datum.is_best === true"}],
        "mark": {"type": "rect", "style": "best"},
        "encoding": {name: dict(channel) for name, channel in position.items()},
    }
    return longest_first({**chart, "layer": [*chart["layer"], best]}, "speedup")


EXPLORATION = Exploration(
    name="batch_speedup",
    title="Speed-up over batch sizes",
    source=(
        "PLAT Figure 6: throughput relative to the smallest measured batch size, with the best "
        "batch size outlined. The interval combines those of both rates, by logarithms (Zou and "
        "Donner 2008)."
    ),
    columns=(
        text_column("subject", "The model, and what distinguishes its system."),
        *PLACE_COLUMNS,
        int_column("base_batch_size", "The smallest measured batch size."),
        *estimate_columns("speedup", "Throughput relative to the smallest batch size.", "1"),
        bool_column(
            "is_best",
            "Whether this batch size has the highest throughput; null where its interval leaves it "
            "open.",
        ),
    ),
    compute=speedup,
    chart=_chart(),
)
