"""What comparisons read: the tables of evaluations, prices and targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schemas.analysis import Column, Table
from services.analyzer.building.table import int_column, text_column

Cells = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """An evaluation with its tables."""

    evaluation: str
    tables: Mapping[str, Table]

    def rows(self, name: str) -> list[Cells]:
        """Return a table's rows as maps; none for a missing table."""
        table = self.tables.get(name)
        if table is None:
            return []
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in table.rows]

    def caveats(self, name: str) -> tuple[str, ...]:
        """Return a table's caveats; none for a missing table."""
        table = self.tables.get(name)
        return () if table is None else tuple(table.caveats)

    @cached_property
    def conditions(self) -> dict[str, Cells]:
        """The conditions of each run, by its name."""
        return {row["run"]: row for row in self.rows("conditions")}

    def place(self, run: str) -> Cells:
        """Return the cells of `PLACE_COLUMNS` for a run, without its batch size."""
        conditions = self.conditions.get(run, {})
        names = ("agent", "model", "framework", "device", "precision")
        return {"evaluation": self.evaluation, **{n: conditions.get(n) or "" for n in names}}

    def size_bytes(self, run: str) -> int | None:
        """Return the published size of a run's model; None where its manifest has none."""
        size = self.conditions.get(run, {}).get("model_size_bytes")
        return int(size) if size else None


PLACE_COLUMNS = (
    text_column("evaluation", "The evaluation."),
    text_column("agent", "The agent that ran it."),
    text_column("model", "Model and version."),
    text_column("framework", "Framework and version."),
    text_column("device", "The device that ran it."),
    text_column("precision", "Precision in effect."),
    int_column("batch_size", "Samples per query."),
)
"""The first columns of a comparison."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A user's terms: prices in $ an hour by agent, and targets; None is no target."""

    prices: Mapping[str, float] = field(default_factory=dict)
    most_latency_ns: float | None = None
    #: $ for a million inferences
    most_cost: float | None = None
    least_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table that compares evaluations, described like an analysis."""

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    compute: Callable[[Sequence[Source], Terms], Table]
    id: str = ""
    chart: Mapping[str, Any] | None = None


def rates(source: Source) -> list[Cells]:
    """Return latency and throughput by batch size (A1) with the cells of `PLACE_COLUMNS`."""
    rows = []
    for row in source.rows("optimal_batch"):
        place = {**source.place(row["run"]), "batch_size": row["batch_size"]}
        rows.append({**row, **place, "run": row["run"]})
    return rows


def best_accuracy(source: Source) -> dict[tuple[str, int], Cells]:
    """Return the first metric of each agent and batch size; later openings agree with the first."""
    best: dict[tuple[str, int], Cells] = {}
    for row in source.rows("accuracy"):
        if row["value"] is not None:
            best.setdefault((row["agent"], row["batch_size"]), row)
    return best
