"""The table of an evaluation's runs: figures in short columns, long texts folded. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlscope.counts import many
from schemas.analysis import Table
from schemas.status import RunStatus
from services.gateway.pages.headlines import Figure
from services.gateway.pages.results.cells import figure_in, rows_by_run
from services.gateway.pages.tables import differs, named_values, without_bounds

_OVER = frozenset({"recorded", "failed", "incomplete", "cancelled"})
_PERCENTILES = (("p50", "median"), ("p90", "p90"), ("p99", "p99"))
_SAID_ABOVE = frozenset({"run", "scenario", "batch_size", "level", "note", "noise", "agent"})
"""Conditions that a row's columns or caveats say already."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: `address` leads to its trace, '' without spans; `figures` by their short names."""

    run: str
    load: str
    batch_size: str
    level: str
    agent: str
    address: str = ""
    state: str = "planned"
    attempt: int = 0
    planned: int = 0
    answered: int = 0
    failed: int = 0
    spans: int = 0
    cause: str = ""
    figures: Mapping[str, Figure | None] = field(default_factory=dict)
    notes: Sequence[str] = ()
    conditions: Sequence[tuple[str, str]] = ()

    @property
    def done(self) -> float:
        """The share of its queries that were answered; 1 when it has ended, however it did."""
        if self.state in _OVER:
            return 1.0
        return min(1.0, (self.answered + self.failed) / self.planned) if self.planned else 0.0

    @property
    def notes_text(self) -> str:
        """How many caveats it has."""
        return many(len(self.notes), "caveat") if self.notes else "no caveats"


BLANK = RunRow("", "", "", "", "")
"""A row for the page's script to fill, where a run is planned while the page is open."""


def notes_by_run(runs: Sequence[RunStatus], caveats: Sequence[str]) -> dict[str, list[str]]:
    """Return what there is to note on each of the `runs`, also by the `caveats` of tables."""
    notes: dict[str, list[str]] = {}
    for run in runs:
        of_tables = [
            text
            for caveat in caveats
            for name, colon, text in [caveat.partition(": ")]
            if colon and name == run.run
        ]
        own = [run.level_note, *run.caveats, *of_tables]
        notes[run.run] = list(dict.fromkeys(filter(None, own)))
    return notes


def run_rows(
    runs: Sequence[RunStatus],
    tables: Mapping[str, Table],
    notes: Mapping[str, Sequence[str]],
    trace: str,
) -> list[RunRow]:
    """Return the `runs` with their figures from `tables` and their `notes`.

    `trace` is the address of their traces, '' where this gateway has no such page.
    """
    latency, throughput = rows_by_run(tables, "latency"), rows_by_run(tables, "throughput")
    conditions = _conditions(tables.get("conditions"))
    rows = []
    for run in runs:
        figures = {
            name: figure_in(tables.get("latency"), latency.get(run.run, {}), column)
            for name, column in _PERCENTILES
        }
        rate = figure_in(tables.get("throughput"), throughput.get(run.run, {}), "samples_per_s")
        rows.append(
            RunRow(
                run=run.run,
                load=run.scenario,
                batch_size=str(run.batch_size),
                level=run.level.name.lower(),
                agent=run.agent,
                address=f"{trace}?run={run.run}" if trace and run.spans else "",
                state=run.state,
                attempt=run.attempt,
                planned=run.queries,
                answered=run.answered,
                failed=run.failed_queries,
                spans=run.spans,
                cause=run.cause,
                figures={**figures, "rate": rate},
                notes=notes.get(run.run, ()),
                conditions=conditions.get(run.run, ()),
            )
        )
    return rows


def _conditions(table: Table | None) -> dict[str, list[tuple[str, str]]]:
    """Return the conditions of each run that are not the same in all of them."""
    if table is None or not table.rows:
        return {}
    names = [column.name for column in table.columns]
    columns = [
        column
        for column in without_bounds(table.columns)
        if column.name not in _SAID_ABOVE and (len(table.rows) == 1 or differs(table, column))
    ]
    return {
        str(row[names.index("run")] if "run" in names else ""): [
            (head, text)
            for _, head, text in named_values(table.model_copy(update={"rows": (row,)}), columns)
        ]
        for row in table.rows
    }
