"""What comparisons read: the tables of evaluations, and what is asked of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schemas.analysis import Column, Table
from services.analyzer.tables.table import text, whole

Cells = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """An evaluation by its tables."""

    evaluation: str
    tables: Mapping[str, Table]

    def rows(self, name: str) -> list[Cells]:
        """Return a table's rows as maps; a table that is not there has none."""
        table = self.tables.get(name)
        if table is None:
            return []
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in table.rows]

    def caveats(self, name: str) -> tuple[str, ...]:
        """Return a table's caveats; a table that is not there has none."""
        table = self.tables.get(name)
        return () if table is None else tuple(table.caveats)

    @cached_property
    def conditions(self) -> dict[str, Cells]:
        """The conditions of each run that was completed, by its name."""
        return {row["run"]: row for row in self.rows("conditions")}

    def place(self, run: str) -> Cells:
        """Return the cells of `PLACE_COLUMNS` for a run, but for its batch size."""
        told = self.conditions.get(run, {})
        names = ("agent", "model", "framework", "device", "precision")
        return {"evaluation": self.evaluation, **{n: told.get(n) or "" for n in names}}

    def size_bytes(self, run: str) -> int | None:
        """Return the published size of a run's model; None where its manifest has none."""
        size = self.conditions.get(run, {}).get("model_size_bytes")
        return int(size) if size else None


PLACE_COLUMNS = (
    text("evaluation", "The evaluation."),
    text("agent", "Where it ran."),
    text("model", "Model and version."),
    text("framework", "Framework and version."),
    text("device", "Device."),
    text("precision", "Precision in effect."),
    whole("batch_size", "Samples in a query."),
)
"""What rows of a comparison begin with."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for: prices in $ an hour by agent, and targets; None is no target."""

    prices: Mapping[str, float] = field(default_factory=dict)
    most_latency_ns: float | None = None
    #: $ for a million inferences
    most_cost: float | None = None
    least_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table of several evaluations; described as an analysis is."""

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    compute: Callable[[Sequence[Source], Terms], Table]
    id: str = ""
    chart: Mapping[str, Any] | None = None


def rates(source: Source) -> list[Cells]:
    """Return latency and throughput by batch size (A1) with their place."""
    found = []
    for row in source.rows("optimal_batch"):
        place = {**source.place(row["run"]), "batch_size": row["batch_size"]}
        found.append({**row, **place, "run": row["run"]})
    return found


def best_accuracy(source: Source) -> dict[tuple[str, int], Cells]:
    """Return the first metric told of each agent and batch size; openings after the first agree."""
    found: dict[tuple[str, int], Cells] = {}
    for row in source.rows("accuracy"):
        if row["value"] is not None:
            found.setdefault((row["agent"], row["batch_size"]), row)
    return found
