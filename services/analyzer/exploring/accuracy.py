"""Accuracy against latency and throughput, with the Pareto front and the models' sizes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, Chart
from services.analyzer.building.charts.parts import names, number, tips, view
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
    estimate_cells,
    fastest_batches,
    place_cells,
    smallest_batches,
)
from services.analyzer.tables.accuracy import FEW

_NOTHING = (
    "No evaluation has an accuracy: run one with a labelled dataset, `mlscope run MODEL "
    "--dataset NAME`, or a model whose manifest quotes one."
)


def accuracy_and_latency(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return each model and system at its smallest batch size: accuracy and latency."""
    drawn = [
        cells
        for row in smallest_batches(rows)
        if row["latency_ns"]
        for cells in _cells(row, estimate_cells("latency", row, "latency_ns"))
    ]
    return _table(LATENCY, drawn, "latency", is_less_better=True)


def accuracy_and_throughput(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return each model and system at its fastest batch size: accuracy and throughput."""
    drawn = [
        cells
        for row in fastest_batches(rows)
        for cells in _cells(row, estimate_cells("samples_per_s", row, "samples_per_s"))
    ]
    return _table(THROUGHPUT, drawn, "samples_per_s", is_less_better=False)


def _cells(row: Cells, speed: Cells) -> Iterator[Cells]:
    """Yield a row with its accuracy, if one is known: a measured one before a published one.

    Of a few samples an accuracy is a smoke check; a published one says more.
    """
    is_measured = row["accuracy"] is not None
    is_published = row["published_accuracy"] is not None
    is_enough = (row["judged"] or 0) >= FEW
    base = {**place_cells(row), **speed, "size_bytes": row["size_bytes"], "on_front": False}
    if is_measured and (is_enough or not is_published):
        yield {
            **base,
            **estimate_cells("accuracy", row, "accuracy"),
            "metric": f"{row['metric']} on {row['dataset']}",
            "accuracy_is": "measured" if is_enough else "smoke check",
            "judged": row["judged"],
        }
    elif is_published:
        dataset = f" on {row['published_dataset']}" if row["published_dataset"] else ""
        yield {
            **base,
            "accuracy": row["published_accuracy"],
            "accuracy_low": None,
            "accuracy_high": None,
            "metric": f"{row['published_metric']}{dataset}, published",
            "accuracy_is": "published",
            "judged": None,
        }


def _table(
    exploration: Exploration, rows: Sequence[Cells], speed: str, *, is_less_better: bool
) -> Table:
    """Return the rows with those marked that no other row of the metric beats in both."""
    if not rows:
        return make_table(exploration, [], _NOTHING)
    by_metric: dict[str, list[Cells]] = defaultdict(list)
    for row in rows:
        by_metric[row["metric"]].append(row)
    fronts = {
        metric: mark_front(group, speed, is_less_better=is_less_better)
        for metric, group in by_metric.items()
    }
    metric = max(by_metric, key=lambda name: len(by_metric[name]))
    front = fronts[metric]
    listed = ", ".join(dict.fromkeys(str(row["model"]) for row in front[:5]))
    further = f" and {many(len(front) - 5, 'further one')}" if len(front) > 5 else ""
    advantage = "faster" if is_less_better else "of higher throughput"
    verdict = (
        f"By the estimates, nothing is both {advantage} and more accurate ({metric}) than "
        f"{listed}{further}."
    )
    notes = accuracy_notes(rows)
    if len(by_metric) > 1:
        notes.insert(0, f"{len(by_metric)} metrics and datasets: each has a front of its own")
    return make_table(exploration, rows, verdict, notes)


def mark_front(rows: Sequence[Cells], speed: str, *, is_less_better: bool) -> list[Cells]:
    """Mark in `on_front` the rows that no other beats in both figures; return them, fastest first.

    `rows` are of one metric; `speed` names their other figure, of which `is_less_better` or more.
    """
    sign, best_accuracy, front = 1 if is_less_better else -1, float("-inf"), []
    for row in sorted(rows, key=lambda row: (sign * row[speed], -row["accuracy"])):
        row["on_front"] = row["accuracy"] > best_accuracy
        if row["on_front"]:
            best_accuracy = row["accuracy"]
            front.append(row)
    return front


def accuracy_notes(rows: Sequence[Cells]) -> list[str]:
    """Return how many accuracies are not measured here, or by few samples."""
    origins = Counter(row["accuracy_is"] for row in rows)
    accuracies = {
        "published": "accuracies quoted by manifests, not measured here",
        "smoke check": f"accuracies of fewer than {FEW} samples, with wide intervals",
    }
    return [
        f"{text}: {origins[origin]} of {len(rows)}"
        for origin, text in accuracies.items()
        if origins[origin]
    ]


def _chart(x: Axis) -> Chart:
    """Return points with both intervals, the front as a line, and the names of those on it."""
    along = number(x, scale={"type": "log"})
    up = number(Axis("accuracy", "Accuracy"), scale={"zero": False})
    on_front = {"transform": [{"filter": "datum.on_front === true"}]}
    place = {"x": along, "y": up}
    low, high = Axis(x.low, x.title, x.unit), x.high
    area: dict[str, Any] = {
        "condition": {
            "field": "size_bytes",
            "type": "quantitative",
            "title": "Published size",
            "test": "datum.size_bytes > 0",
            "legend": None,
            "scale": {"range": [30, 400]},
        },
        "value": 40,
    }
    whisker = {"type": "rule", "style": "whisker"}
    point = {
        "type": "point",
        "filled": True,
        "tooltip": True,
        "invalid": None,
        "opacity": 0.75,
    }
    shown = tips("model", "framework", "agent", "device", x.field, "accuracy", "batch_size")
    return view(
        "metric",
        {"y": "independent", "x": "shared"},
        height=300,
        layer=[
            {
                **on_front,
                "mark": {"type": "line", "style": "ridge"},
                "encoding": {**place, "order": {"field": x.field, "type": "quantitative"}},
            },
            {
                # A logarithmic axis has no zero: an interval from there begins at a tenth.
                "transform": [
                    {"filter": f"isValid(datum.{x.low})"},
                    {"calculate": f"max(datum.{x.low}, datum.{x.field} / 10)", "as": x.low},
                ],
                "mark": whisker,
                "encoding": {
                    "x": number(low, scale={"type": "log"}),
                    "x2": {"field": high},
                    "y": up,
                },
            },
            {
                "mark": whisker,
                "encoding": {
                    "x": along,
                    "y": number(Axis("accuracy_low", "Accuracy"), scale={"zero": False}),
                    "y2": {"field": "accuracy_high"},
                },
            },
            {
                "mark": point,
                "encoding": {**place, "color": names("framework"), "size": area, "tooltip": shown},
            },
            {
                **on_front,
                "mark": {"type": "text", "style": "note", "dy": -20},
                "encoding": {**place, "text": {"field": "model", "type": "nominal"}},
            },
        ],
    )


_ACCURACY_COLUMNS = (
    *estimate_columns("accuracy", "Value of the metric; shares are from 0 to 1.", "1"),
    text_column("metric", "The metric and its dataset: rows of one metric compare."),
    text_column(
        "accuracy_is",
        f"measured, smoke check (fewer than {FEW} samples), or published in the manifest.",
    ),
    int_column("judged", "Samples judged; null for a published accuracy."),
    int_column("size_bytes", "The model's published size; null where its manifest has none.", "By"),
    bool_column("on_front", "Whether no other row of the metric beats it in both figures."),
)

LATENCY = Exploration(
    name="accuracy_latency",
    title="Accuracy and latency",
    source=(
        "PLAT Figure 4: each model at its smallest measured batch size; the area is the published "
        "size, the line joins the Pareto front of the estimates."
    ),
    columns=(
        *PLACE_COLUMNS,
        *estimate_columns("latency", "Latency of a query."),
        *_ACCURACY_COLUMNS,
    ),
    compute=accuracy_and_latency,
    chart=_chart(Axis("latency", "Latency of a query", "ns")),
)

THROUGHPUT = Exploration(
    name="accuracy_throughput",
    title="Accuracy and throughput",
    source=(
        "PLAT Figure 5: each model at the batch size with its highest throughput; the area is the "
        "published size, the line joins the Pareto front of the estimates."
    ),
    columns=(
        *PLACE_COLUMNS,
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
        *_ACCURACY_COLUMNS,
    ),
    compute=accuracy_and_throughput,
    chart=_chart(Axis("samples_per_s", "Samples per second")),
)
