"""The page of one evaluation: results first, then runs, live figures, and its analyses. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlscope.client.brief import caveat_lines
from mlscope.evaluation.fold import ENDED
from schemas.analysis import Column, Table, Tables
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.analyses import Index, index_of
from services.gateway.pages.models import address_of
from services.gateway.pages.tables import Grid, grid_of

RESULT_TABLES = ("latency", "throughput", "optimal_batch", "accuracy", "conditions")
"""The tables of which the page shows rows or verdicts; the others have pages of their own."""
_FEW_CAVEATS = 4
_FIGURES = (
    *(("latency", "median", "p50", "ns"), ("latency", "p90", "p90", "ns")),
    *(("latency", "p99", "p99", "ns"), ("throughput", "samples_per_s", "samples", "1/s")),
)
"""Table and column of each figure of a run, its heading and unit."""
_FINDINGS = (
    *(("latency", "Result"), ("optimal_batch", "Best batch size")),
    *(("accuracy", "Accuracy"), ("conditions", "Conditions")),
)
_OVER = frozenset({"recorded", "failed", "incomplete", "cancelled"})


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table of runs; `address` leads to its trace, '' without spans."""

    run: RunStatus
    address: str

    @property
    def done(self) -> float:
        """The share of its queries that were answered; 1 when it has ended, however it did."""
        if self.run.state in _OVER:
            return 1.0
        answered = self.run.answered + self.run.failed_queries
        return min(1.0, answered / self.run.queries) if self.run.queries else 0.0

    @property
    def note(self) -> str:
        """What is to be said of this run alone; its caveats stand above, said once."""
        return "; ".join(text for text in (self.run.cause, self.run.level_note) if text)


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """An evaluation's state and results; `note` says why results are missing, if they are."""

    status: EvaluationStatus
    figures: Grid | None
    findings: Sequence[tuple[str, str]]
    caveats: Sequence[str]
    index: Index
    note: str
    pages: frozenset[str]
    template: ClassVar[str] = "evaluation.html"

    @property
    def title(self) -> str:
        """The model and the evaluation's id."""
        return f"{self.status.model} {self.status.evaluation}".strip()

    @property
    def is_live(self) -> bool:
        """Whether its script keeps the page up to date."""
        return self.status.state not in ENDED

    @property
    def asked(self) -> str:
        """What was asked for, in one line."""
        status, request = self.status, self.status.request
        if request is None:
            return ""
        loads = " and ".join(scenario.name for scenario in request.scenarios)
        sizes = ", ".join(map(str, request.batch_sizes))
        parts = [f"{loads} at batch {sizes}".strip(), f"level {request.trace_level.name.lower()}"]
        if status.framework:
            parts.append(f"{status.framework} on {status.device}")
        if status.agents:
            parts.append(f"agent {', '.join(status.agents)}")
        parts += [f"{name}={value}" for name, value in status.labels.items()]
        return " · ".join(parts)

    @property
    def model_address(self) -> str:
        """The address of its model in the catalog, '' for one that came with the request."""
        status = self.status
        if status.subject is None or (status.request and not isinstance(status.request.model, str)):
            return ""
        return address_of(status.subject.model)

    @property
    def request(self) -> str:
        """The request as JSON, without what is left at its default; '' if it is not known."""
        if not self.status.request:
            return ""
        fields = self.status.request.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(fields, indent=2)

    @property
    def runs(self) -> list[RunRow]:
        """Its runs, each with the address of its trace."""
        trace = f"/evaluations/{self.status.evaluation}/trace"
        has_traces = "/evaluations/{evaluation}/trace" in self.pages
        return [
            RunRow(run, f"{trace}?run={run.run}" if has_traces and run.spans else "")
            for run in self.status.runs
        ]

    @property
    def trace_address(self) -> str:
        """The page of its trace, '' where there is none."""
        has_page = "/evaluations/{evaluation}/trace" in self.pages
        has_spans = self.is_live or any(run.spans for run in self.status.runs)
        return f"/evaluations/{self.status.evaluation}/trace" if has_page and has_spans else ""

    @property
    def first_caveats(self) -> Sequence[str]:
        """The caveats that are shown at once; `further_caveats` on demand."""
        return self.caveats[:_FEW_CAVEATS]

    @property
    def further_caveats(self) -> Sequence[str]:
        """The caveats behind the first."""
        return self.caveats[_FEW_CAVEATS:]


def evaluation_view(
    status: EvaluationStatus,
    headings: Tables,
    results: Tables,
    *,
    note: str = "",
    pages: frozenset[str] = frozenset(),
) -> EvaluationView:
    """Return the view of an evaluation in `status`.

    `headings`: all tables, whose rows do not matter; `results`: `RESULT_TABLES` with rows; `note`:
    why they are missing, if they are; `pages`: paths that this gateway has.
    """
    by_name = {table.name: table for table in results.tables}
    every = [caveat for table in headings.tables for caveat in table.caveats]
    every += [f"{run.run}: {caveat}" for run in status.runs for caveat in run.caveats]
    findings = [
        (title, by_name[name].verdict)
        for name, title in _FINDINGS
        if name in by_name and by_name[name].rows and by_name[name].verdict
    ]
    for table in results.tables:
        total = results.total_rows.get(table.name, len(table.rows))
        if total > len(table.rows):
            cut = f"The first {len(table.rows)} of {total} rows of {table.title or table.name}"
            note = f"{note} {cut}; its page has all.".strip()
    return EvaluationView(
        status=status,
        figures=_figures(by_name),
        findings=findings,
        caveats=list(caveat_lines(list(dict.fromkeys(every)))),
        index=index_of(status.evaluation, headings.tables, headings.total_rows),
        note=note,
        pages=pages,
    )


def _figures(tables: Mapping[str, Table]) -> Grid | None:
    """Return latency and throughput of each run, with their intervals; None without any."""
    columns = [Column(name="run", type="text", description="Name of the run.")]
    rows: dict[str, dict[str, Any]] = {}
    for name, column, head, unit in _FIGURES:
        table = tables.get(name)
        if table is None or column not in {source.name for source in table.columns}:
            continue
        ends = ("", "_low", "_high")
        columns += [Column(name=f"{head}{end}", type="float", unit=unit) for end in ends]
        for row in table.rows:
            values = dict(zip((source.name for source in table.columns), row, strict=True))
            cells = rows.setdefault(str(values.get("run", "")), {})
            cells |= {f"{head}{end}": values.get(f"{column}{end}") for end in ends}
    if not rows:
        return None
    filled = tuple(
        (run, *(cells.get(column.name) for column in columns[1:])) for run, cells in rows.items()
    )
    joined = Table(name="figures", title="", columns=tuple(columns), rows=filled)
    is_shown = [column for column in columns if not column.name.endswith(("_low", "_high"))]
    return grid_of(joined, is_shown)
