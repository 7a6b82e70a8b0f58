"""What explorations read: rows of the table `headline`, by model and system."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.load.scenarios import COLD
from mlscope.statistics import Estimate
from schemas.analysis import Column, Table
from services.analyzer.building.charts import Chart
from services.analyzer.building.table import int_column, text_column

Cells = dict[str, Any]
_USUAL_PRECISION = "float32"
Prices = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Exploration:
    """A table over many evaluations, described like an analysis.

    With `is_history` it reads every measurement of a load, else the newest alone.
    """

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    compute: Callable[[Sequence[Cells], Prices], Table]
    chart: Mapping[str, Any] | None = None
    id: str = ""
    is_history: bool = False


PLACE_COLUMNS = (
    text_column("model", "The model, of any version."),
    text_column("framework", "The framework, of any version."),
    text_column("agent", "The agent that ran it."),
    text_column("device", "The device that ran it."),
    text_column("precision", "Precision in effect."),
    text_column("evaluation", "The newest evaluation of this load."),
    text_column("run", "The run whose figures these are."),
    text_column("scenario", "The scenario: how queries arrived."),
    int_column("batch_size", "Samples per query."),
)
"""The first columns of an exploration: where its figures are from."""
_PLACE = tuple(column.name for column in PLACE_COLUMNS)


def place_cells(row: Cells) -> Cells:
    """Return the cells of `PLACE_COLUMNS`."""
    return {name: row[name] for name in _PLACE}


def closed_loops(rows: Iterable[Cells]) -> list[Cells]:
    """Return the loads whose rate was the model's own: not offered, and of a warm model."""
    return [row for row in rows if row["offered_per_s"] is None and row["scenario"] != COLD]


def by_system(rows: Iterable[Cells]) -> dict[tuple[str, ...], list[Cells]]:
    """Return the rows of each model and system, smallest batch first."""
    groups: dict[tuple[str, ...], list[Cells]] = defaultdict(list)
    for row in rows:
        groups[row["model"], system_of(row)].append(row)
    return {
        key: sorted(group, key=lambda row: int(row["batch_size"])) for key, group in groups.items()
    }


def system_of(row: Cells) -> str:
    """Return the system of a row, for a legend; another precision than float32 is another."""
    precision = "" if row["precision"] in ("", _USUAL_PRECISION) else f", {row['precision']}"
    return f"{row['framework']} on {row['agent']}, {row['device']}{precision}"


def smallest_batches(rows: Iterable[Cells]) -> list[Cells]:
    """Return the row of each model and system at its smallest batch size in a closed loop."""
    return [group[0] for group in by_system(closed_loops(rows)).values()]


def fastest_batches(rows: Iterable[Cells]) -> list[Cells]:
    """Return the row of each model and system with the highest throughput in a closed loop."""
    fastest = map(fastest_of, by_system(closed_loops(rows)).values())
    return [row for row in fastest if row is not None]


def add_subjects(rows: Sequence[Cells]) -> None:
    """Add to `rows` what each is about: its model, with as much of the system as tells it apart."""
    systems = ("framework", "device", "precision", "agent")
    parts = ["model", *(part for part in systems if len({row[part] for row in rows}) > 1)]
    for row in rows:
        row["subject"] = ", ".join(str(row[part]) for part in parts)


def fastest_of(group: Iterable[Cells]) -> Cells | None:
    """Return the row with the highest throughput; None where none has one."""
    rated = [row for row in group if row["samples_per_s"]]
    return max(rated, key=lambda row: float(row["samples_per_s"]), default=None)


def estimate_cells(name: str, row: Cells, column: str) -> Cells:
    """Return the estimate in `column` of a row as the cells of the estimate `name`."""
    return {f"{name}{end}": row[f"{column}{end}"] for end in ("", "_low", "_high")}


def estimate_in(row: Cells, name: str) -> Estimate:
    """Return the estimate of the columns `name`, `name`_low and `name`_high."""
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def longest_first(chart: Chart, field: str) -> Chart:
    """Return a chart whose names are sorted by the column `field`, so that the longest are drawn.

    Whoever draws leaves out names beyond some number, and says so.
    """
    order = {"field": field, "op": "max", "order": "descending"}
    for layer in chart.get("spec", chart)["layer"]:
        layer["encoding"]["y"] |= {"sort": order}
    return chart
