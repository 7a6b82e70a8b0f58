"""The page of one evaluation: results first, then runs, live figures, and its analyses. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.client.brief import caveat_lines
from mlscope.counts import many
from mlscope.evaluation.fold import ENDED
from schemas.analysis import Tables
from schemas.status import EvaluationStatus
from services.gateway.pages.analyses import Index, index_of
from services.gateway.pages.catalog.models import address_of
from services.gateway.pages.results.caveats import FEW_CAUSES, Cause, causes_of, noise_text
from services.gateway.pages.results.histograms import (
    MOST_HISTOGRAMS,
    Histogram,
    histograms_of,
)
from services.gateway.pages.results.picture import (
    LatencyPicture,
    RatePicture,
    latency_picture,
    rate_picture,
)
from services.gateway.pages.results.runs import BLANK, RunRow, notes_by_run, run_rows
from services.gateway.pages.results.tiles import Tile, tiles_of

RESULT_TABLES = (
    "latency",
    "throughput",
    "optimal_batch",
    "accuracy",
    "energy",
    "conditions",
    "latency_histogram",
)
"""The tables of which the page shows figures or verdicts; the others have pages of their own."""
_FINDINGS = (
    ("latency", "Result"),
    ("optimal_batch", "Best batch size"),
    ("accuracy", "Accuracy"),
    ("conditions", "Conditions"),
)
_TRACE = "/evaluations/{evaluation}/trace"


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """An evaluation's state and results; `note` says why results are missing, if they are."""

    status: EvaluationStatus
    tiles: Sequence[Tile]
    latencies: LatencyPicture | None
    rates: RatePicture | None
    histograms: Sequence[Histogram]
    findings: Sequence[tuple[str, str]]
    runs: Sequence[RunRow]
    noise: str
    causes: Sequence[Cause]
    index: Index
    note: str
    pages: frozenset[str]
    template: ClassVar[str] = "evaluation.html"
    blank: ClassVar[RunRow] = BLANK

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
    def trace_address(self) -> str:
        """The page of its trace, '' where there is none."""
        has_page = _TRACE in self.pages
        has_spans = self.is_live or any(run.spans for run in self.status.runs)
        return f"/evaluations/{self.status.evaluation}/trace" if has_page and has_spans else ""

    @property
    def first_histograms(self) -> Sequence[Histogram]:
        """The histograms that are shown at once; `further_histograms` on demand."""
        return self.histograms[:MOST_HISTOGRAMS]

    @property
    def further_histograms(self) -> Sequence[Histogram]:
        """The histograms behind the first."""
        return self.histograms[MOST_HISTOGRAMS:]

    @property
    def has_results(self) -> bool:
        """Whether there is a figure or a finding to show above the runs."""
        return bool(self.tiles or self.findings)

    @property
    def conditions(self) -> str:
        """How many runs ended, and whether they were noisy, in one line."""
        verdict = dict(self.findings).get("Conditions", "")
        return " ".join(filter(None, (verdict, self.noise)))

    @property
    def first_causes(self) -> Sequence[Cause]:
        """The causes of caveats that are shown at once; `further_causes` on demand."""
        return self.causes[:FEW_CAUSES]

    @property
    def further_causes(self) -> Sequence[Cause]:
        """The causes behind the first."""
        return self.causes[FEW_CAUSES:]

    @property
    def caveat_count(self) -> int:
        """How many caveats there are."""
        return sum(len(cause.lines) for cause in self.causes)

    @property
    def further_count(self) -> int:
        """How many caveats the further causes have."""
        return sum(len(cause.lines) for cause in self.further_causes)


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
    notes = notes_by_run(status.runs, every)
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
    if status.unread_facts:
        unread = f"This page lacks {many(status.unread_facts, 'fact')} that could not be read"
        note = f"{unread}: of a newer mlscope, or damaged. {note}".strip()
    trace = f"/evaluations/{status.evaluation}/trace" if _TRACE in pages else ""
    traced = {run.run: trace for run in status.runs if trace and run.spans}
    return EvaluationView(
        status=status,
        tiles=tiles_of(status, by_name),
        latencies=latency_picture(by_name),
        rates=rate_picture(by_name),
        histograms=histograms_of(by_name, traced),
        findings=findings,
        runs=run_rows(status.runs, by_name, notes, trace),
        noise=noise_text(notes) if findings else "",
        causes=causes_of(caveat_lines(list(dict.fromkeys(every)))),
        index=index_of(status.evaluation, headings.tables, headings.total_rows),
        note=note,
        pages=pages,
    )
