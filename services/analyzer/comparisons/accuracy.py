"""Accuracy against latency and throughput, with the models' size."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.building.charts import points
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
    best_accuracy,
    rates,
)
from services.analyzer.tables.conditions import PUBLISHED_SIZE


def accuracy(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row for each evaluation, agent and batch size with a known accuracy."""
    rows = []
    for source in sources:
        accuracies = best_accuracy(source)
        for rate in rates(source):
            metric = accuracies.get((rate["agent"], rate["batch_size"]))
            if metric is not None:
                cells = {
                    "metric": metric["metric"],
                    "dataset": metric.get("dataset") or "",
                    "n": metric["n"],
                    "size_bytes": source.size_bytes(rate["run"]),
                    **{f"accuracy{end}": metric[f"value{end}"] for end in ("", "_low", "_high")},
                }
                rows.append({**{name: rate[name] for name in _OF_RATES}, **cells})
    rows = [{**row, "on_front": not any(_is_better(rival, row) for rival in rows)} for row in rows]
    verdict = "No evaluation has both an accuracy and a latency."
    if rows:
        front = sorted((row for row in rows if row["on_front"]), key=lambda row: row["latency"])
        names = ", ".join(dict.fromkeys(row["model"] or row["evaluation"] for row in front))
        verdict = f"None is both faster and more accurate than: {names}."
    metrics = sorted({row["metric"] for row in rows})
    notes = [f"metrics differ: {', '.join(metrics)}"] if len(metrics) > 1 else []
    datasets = sorted({row["dataset"] for row in rows})
    if len(datasets) > 1:
        notes.append(f"datasets differ: {', '.join(datasets)}: only models of one are compared")
    return make_table(COMPARISON, rows, verdict, notes)


def _is_better(rival: Cells, row: Cells) -> bool:
    """Return whether a rival of the same metric is at least as good in both and better in one."""
    if any(rival[name] != row[name] for name in ("metric", "dataset", "batch_size")):
        return False
    own, theirs = ((-r["accuracy"], r["latency"]) for r in (row, rival))
    return theirs != own and theirs[0] <= own[0] and theirs[1] <= own[1]


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
        "XSP's first version, Figure 10, and PLAT's Figures 4 to 6; the area is the published size."
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
            "on_front", "Whether no row is as accurate and faster, or as fast and more accurate."
        ),
    ),
    compute=accuracy,
    chart=points(
        ("latency", "Latency of a query (ns)"),
        ("accuracy", "Accuracy"),
        "model",
        ("agent", "samples_per_s", "on_front"),
        size=("size_bytes", "Published size (bytes)"),
    ),
)
