"""Accuracy against latency and throughput, with the models' size."""

from collections.abc import Sequence

from mlscope.statistics import are_told_apart
from schemas.analysis import Table
from services.analyzer.building.best import estimate_in
from services.analyzer.building.charts import Axis, front
from services.analyzer.building.table import (
    bool_column,
    estimate_columns,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.comparisons.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    difference_notes,
    rates_with_accuracy,
    subject_of,
)
from services.analyzer.tables.conditions import PUBLISHED_SIZE


def accuracy(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size with a known accuracy."""
    rows = [
        {
            **{name: rate[name] for name in _OF_RATES},
            "metric": metric["metric"],
            "dataset": metric.get("dataset") or "",
            "n": metric["n"],
            "size_bytes": source.size_bytes(rate["run"]),
            **{f"accuracy{end}": metric[f"value{end}"] for end in ("", "_low", "_high")},
        }
        for source in sources
        for rate, metric in rates_with_accuracy(source)
        if metric
    ]
    if not rows:
        return make_table(COMPARISON, [], "No evaluation has both an accuracy and a latency.")
    rows = [{**row, "on_front": not any(is_better(rival, row) for rival in rows)} for row in rows]
    best = sorted((row for row in rows if row["on_front"]), key=lambda row: row["latency"])
    names = ", ".join(dict.fromkeys(map(subject_of, best)))
    verdict = f"No other row is certainly both faster and more accurate than {names}."
    notes = difference_notes("metrics", (row["metric"] for row in rows))
    datasets = (row["dataset"] for row in rows)
    notes += difference_notes("datasets", datasets, ": only models of one are compared")
    return make_table(COMPARISON, rows, verdict, notes)


def is_better(rival: Cells, row: Cells) -> bool:
    """Return whether a rival of the same metric is at least as good in both and better in one.

    It is better in one only where the intervals of both tell them apart.
    """
    if any(rival[name] != row[name] for name in ("metric", "dataset", "batch_size")):
        return False
    if rival["accuracy"] < row["accuracy"] or rival["latency"] > row["latency"]:
        return False
    is_faster = are_told_apart(estimate_in(rival, "latency"), estimate_in(row, "latency"))
    is_right = are_told_apart(estimate_in(row, "accuracy"), estimate_in(rival, "accuracy"))
    return is_faster or is_right


_SPEED = (
    text_column("run", "Name of the run."),
    *estimate_columns("latency", "Trimmed mean latency of queries."),
    *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
)
_OF_RATES = tuple(column.name for column in (*PLACE_COLUMNS, *_SPEED))

COMPARISON = Comparison(
    name="accuracy_against_speed",
    title="Accuracy against latency and throughput",
    source=(
        "XSP's first version, Figure 10, and PLAT's Figures 4 to 6; the area is the published "
        "size, the dashed line joins rows that no other one is certainly better than, at one "
        "batch size."
    ),
    columns=(
        *PLACE_COLUMNS,
        *_SPEED,
        text_column("metric", "Name of the accuracy metric."),
        text_column("dataset", "The dataset of the samples."),
        *estimate_columns("accuracy", "Value of the metric.", "1"),
        int_column("n", "Samples scored."),
        int_column("size_bytes", PUBLISHED_SIZE, "By"),
        bool_column(
            "on_front",
            "Whether the row is Pareto-optimal in latency and accuracy, by its intervals.",
        ),
    ),
    compute=accuracy,
    chart=front(
        Axis("latency", "Latency of a query", "ns"),
        Axis("accuracy", "Accuracy"),
        "model",
        ("agent", "samples_per_s"),
        ("size_bytes", "Published size, bytes"),
        ("on_front", "batch_size"),
    ),
)
