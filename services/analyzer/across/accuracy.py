"""Accuracy against latency and throughput, with the models' size."""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.across.source import (
    PLACE_COLUMNS,
    Cells,
    Comparison,
    Source,
    Terms,
    best_accuracy,
    rates,
)
from services.analyzer.tables.charts import points
from services.analyzer.tables.conditions import PUBLISHED_SIZE
from services.analyzer.tables.table import estimate, made, text, truth, whole


def accuracy(sources: Sequence[Source], _: Terms) -> Table:
    """Return a row an evaluation, agent and batch size whose accuracy is known."""
    rows = [row for each in sources for row in _rows(each)]
    told = [{**row, "on_front": _is_on_front(row, rows)} for row in rows]
    verdict = "No evaluation has both an accuracy and a latency."
    if told:
        front = sorted((row for row in told if row["on_front"]), key=lambda row: row["latency"])
        names = ", ".join(dict.fromkeys(row["model"] or row["evaluation"] for row in front))
        verdict = f"None is both faster and more accurate than: {names}."
    metrics = sorted({row["metric"] for row in rows})
    notes = [f"metrics differ: {', '.join(metrics)}"] if len(metrics) > 1 else []
    datasets = sorted({row["dataset"] for row in rows})
    if len(datasets) > 1:
        notes.append(f"datasets differ: {', '.join(datasets)}: only those of one are set in order")
    return made(COMPARISON, told, verdict, notes)


def _rows(source: Source) -> list[Cells]:
    known = best_accuracy(source)
    found = []
    for row in rates(source):
        told = known.get((row["agent"], row["batch_size"]))
        if told is not None:
            values = {f"accuracy{end}": told[f"value{end}"] for end in ("", "_low", "_high")}
            dataset = told.get("dataset") or ""
            cells = {
                "metric": told["metric"],
                "dataset": dataset,
                "n": told["n"],
                "size_bytes": source.size_bytes(row["run"]),
                **values,
            }
            found.append({**{name: row[name] for name in _OF_RATES}, **cells})
    return found


def _is_on_front(row: Cells, rows: Sequence[Cells]) -> bool:
    """Say whether no other of its metric is at least as good in both and better in one."""
    mine = (-row["accuracy"], row["latency"])
    others = ((-each["accuracy"], each["latency"]) for each in rows if _is_alike(each, row))
    return not any(
        other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in others
    )


def _is_alike(one: Cells, other: Cells) -> bool:
    return all(one[name] == other[name] for name in ("metric", "dataset", "batch_size"))


_SPEED = (
    text("run", "The run."),
    *estimate("latency", "Trimmed mean latency of a query."),
    *estimate("samples_per_s", "Samples answered a second.", "1/s"),
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
        text("metric", "What accuracy is."),
        text("dataset", "Of whose samples."),
        *estimate("accuracy", "Its value.", "1"),
        whole("n", "Samples it is over."),
        whole("size_bytes", PUBLISHED_SIZE, "By"),
        truth("on_front", "Whether no other is as accurate and faster, or as fast and better."),
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
