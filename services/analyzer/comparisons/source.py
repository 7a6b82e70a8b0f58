"""What comparisons read: the tables of evaluations, prices and targets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlscope.load.load import STREAMED
from mlscope.load.scenarios import COLD
from schemas.analysis import Column, Table
from services.analyzer.building.table import format_time, int_column, text_column
from services.analyzer.frames.evaluation import CANCELLED

Cells = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """An evaluation with its tables."""

    evaluation: str
    tables: Mapping[str, Table]
    #: when its first run began, in epoch s of the agent's clock; None where unknown
    began_s: float | None = None
    #: the command that requests the same evaluation; '' where unknown
    command: str = ""

    def rows(self, name: str) -> list[Cells]:
        """Return the rows of the table `name` as maps; none for a missing table.

        Runs that a cancellation cut off have none: they are not compared.
        """
        return [row for row in self._all_rows(name) if row.get("run") not in self.cut_off]

    @cached_property
    def cut_off(self) -> frozenset[str]:
        """The runs that a cancellation cut off."""
        rows = self._all_rows("conditions")
        return frozenset(row["run"] for row in rows if row.get("end") == CANCELLED)

    def _all_rows(self, name: str) -> list[Cells]:
        table = self.tables.get(name)
        return [] if table is None else table.records()

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

    def block_latencies(self, run: str) -> dict[int, float]:
        """Return the trimmed mean latency (ns) of each block of a run."""
        rows = (row for row in self.rows("blocks") if row["run"] == run)
        return {row["block"]: row["trimmed_mean"] for row in rows}

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
    """What is compared by: prices in $ an hour by agent, targets (None is none), and others."""

    prices: Mapping[str, float] = field(default_factory=dict)
    most_latency_ns: float | None = None
    #: $ for a million inferences
    most_cost: float | None = None
    least_accuracy: float | None = None
    #: further evaluations of the same loads, which are not compared: they show drift
    others: Sequence[Source] = ()

    @property
    def targets(self) -> str:
        """The targets for a sentence; '' without one."""
        targets = []
        if self.most_latency_ns is not None:
            targets.append(f"a latency of {format_time(self.most_latency_ns)}")
        if self.most_cost is not None:
            targets.append(f"${self.most_cost:g} a million")
        if self.least_accuracy is not None:
            targets.append(f"accuracy {self.least_accuracy:g}")
        return " and ".join(targets)

    def missed_by(self, row: Cells) -> list[str]:
        """Return the targets that a row of `choice` does not meet; an unknown value meets none."""
        latency = row["latency_high"] or row["latency"]
        accuracy = row["accuracy_low"] if row["accuracy_low"] is not None else row["accuracy"]
        checks = (
            ("latency", self.most_latency_ns, latency, 1.0),
            ("cost", self.most_cost, row["cost"], 1.0),
            ("accuracy", self.least_accuracy, accuracy, -1.0),
        )
        return [
            f"{name} unknown" if value is None else name
            for name, target, value, sign in checks
            if target is not None and (value is None or sign * value > sign * target)
        ]


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


def rates(sources: Sequence[Source]) -> list[Cells]:
    """Return latency and throughput by batch size (A1) with the cells of `PLACE_COLUMNS`."""
    rows = []
    for source in sources:
        for row in source.rows("optimal_batch"):
            place = {**source.place(row["run"]), "batch_size": row["batch_size"]}
            parameters = source.conditions.get(row["run"], {}).get("parameters") or "{}"
            rows.append({**row, **place, "run": row["run"], "parameters": parameters})
    return rows


def rates_with_accuracy(source: Source) -> list[tuple[Cells, Cells]]:
    """Return `rates`, each with the first metric of its agent and batch size, {} without one.

    Later openings of a model agree with the first.
    """
    metrics: dict[tuple[str, int], Cells] = {}
    for row in source.rows("accuracy"):
        if row["value"] is not None:
            metrics.setdefault((row["agent"], row["batch_size"]), row)
    return [
        (rate, metrics.get((rate["agent"], rate["batch_size"]), {})) for rate in rates([source])
    ]


def subject_of(row: Cells) -> str:
    """Return what a row is about, for a sentence: its model, else its evaluation."""
    return str(row["model"] or row["evaluation"])


def place_of(row: Cells) -> str:
    """Return what a row is about with its agent and batch size, for a sentence."""
    return f"{subject_of(row)} on {row['agent']} at batch {row['batch_size']}"


PLACE_DETAILS = ("evaluation", "scenario", "run")
"""The columns that tell rows of one `place_of` apart."""


def preparation_notes(sources: Sequence[Source]) -> list[str]:
    """Return a caveat where some rates are with samples prepared ahead, and others streamed."""
    modes = []
    for source in sources:
        for row in source.rows("optimal_batch"):
            conditions = source.conditions.get(row["run"], {})
            place = " with inputs on the device" if conditions.get("inputs") == "device" else ""
            modes.append(f"{prepared_as(conditions) or 'unknown'}{place}")
    consequence = ": figures with streamed samples include preparation and post-processing"
    return difference_notes("times at which samples were prepared", modes, consequence)


def prepared_as(conditions: Cells) -> str:
    """Return when a run's samples were prepared: ahead or streamed; '' where unknown or for none.

    Before release 0.2, which says it, they were always streamed. An imported recording, which has
    no version of mlscope, does not say it; the opening of a cold start prepares none.
    """
    is_old = bool(conditions.get("mlscope_version")) and conditions.get("scenario") != COLD
    return str(conditions.get("prepared") or (STREAMED if is_old else ""))


def difference_notes(kind: str, values: Iterable[str], consequence: str = "") -> list[str]:
    """Return a caveat where `values` of one `kind` (a plural) differ, with its `consequence`."""
    distinct = sorted(set(values))
    return [f"{kind} differ: {', '.join(distinct)}{consequence}"] if len(distinct) > 1 else []
