"""Speed-up over batch sizes: throughput over that of the smallest batch, as a heat map."""

from collections import defaultdict
from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, heat
from services.analyzer.building.margins import Margin, margin_in, ratio
from services.analyzer.building.table import (
    estimate_columns,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    PLACE_DETAILS,
    Cells,
    Comparison,
    Source,
    Terms,
    place_of,
    preparation_notes,
    rates,
    subject_of,
)


def speedup(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size; the smallest batch has speed-up 1."""
    groups: dict[tuple[str, str, str], list[Cells]] = defaultdict(list)
    for rate in rates(sources):
        groups[rate["evaluation"], rate["agent"], rate["scenario"]].append(rate)
    rows = []
    for group in groups.values():
        base = min(group, key=lambda rate: int(rate["batch_size"]))
        for rate in group:
            margins = [margin_in(cells, "samples_per_s") for cells in (rate, base)]
            gain = Margin(1.0, 1.0, 1.0) if rate is base else ratio(*margins)
            rows.append(
                {
                    **{name: rate[name] for name in _RATE_NAMES},
                    "base_batch_size": base["batch_size"],
                    **gain.cells("speedup"),
                }
            )
    larger = [row for row in rows if row["batch_size"] != row["base_batch_size"]]
    verdict = _verdict(larger) if larger else "No evaluation measured two batch sizes."
    return make_table(COMPARISON, rows, verdict, preparation_notes(sources))


def _verdict(larger: Sequence[Cells]) -> str:
    """Return which of the rows with `larger` batches gains the most, where intervals tell.

    What it says of all of them holds for each of them.
    """
    fastest = leader(larger, "speedup")
    row = fastest.row
    gain = (
        f"batch {row['batch_size']} has {estimate_text(row, 'speedup', '')} times the throughput "
        f"of batch {row['base_batch_size']}"
    )
    if all(row["speedup_high"] is not None and row["speedup_high"] <= 1 for row in larger):
        return f"Larger batches gain nothing: {gain}."
    if not any((row["speedup_low"] or 0.0) > 1 for row in larger):
        return f"No larger batch has a speed-up whose interval is above 1: {gain}."
    if doubt := fastest.doubt("which gains the most", place_of, PLACE_DETAILS):
        return f"{capitalised(doubt)}; {gain}."
    return f"{subject_of(row)} on {row['agent']} gains the most: {gain}."


_COLUMNS = (
    *PLACE_COLUMNS,
    text_column("scenario", "The scenario: how queries arrived."),
    text_column("run", "Name of the run."),
    *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
)
_RATE_NAMES = tuple(column.name for column in _COLUMNS)

COMPARISON = Comparison(
    name="speedup",
    title="Speed-up over batch sizes",
    source=(
        "XSP's first version, Figure 12: throughput relative to the smallest measured batch. Its "
        "interval combines those of both rates, by logarithms (Zou and Donner 2008)."
    ),
    columns=(
        *_COLUMNS,
        int_column("base_batch_size", "The smallest measured batch size."),
        *estimate_columns("speedup", "Throughput relative to the smallest batch size.", "1"),
    ),
    compute=speedup,
    chart=heat(
        ("batch_size", "Batch size"), ("evaluation", "Evaluation"), Axis("speedup", "Speed-up")
    ),
)
