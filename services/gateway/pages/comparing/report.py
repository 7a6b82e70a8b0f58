"""A report of one evaluation: a document of its own that can be mailed and printed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.client.equivalents import Equivalents, equivalents_of
from schemas.analysis import Table, Tables
from schemas.status import EvaluationStatus
from services.gateway.pages.analyses import Empty, index_of, plain_title
from services.gateway.pages.results.caveats import Cause, causes_of
from services.gateway.pages.results.picture import (
    LatencyPicture,
    RatePicture,
    latency_picture,
    rate_picture,
)
from services.gateway.pages.results.tiles import Tile, tiles_of
from services.gateway.pages.subjects import question_of
from services.gateway.pages.tables import Section, TablesView, tables_view

MOST_ROWS = 60
"""Rows of a table that the document shows; the files beside it have all."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """An analysis: its table, its chart as HTML ('' without one), and its formula's source."""

    number: str
    title: str
    question: str
    section: Section
    chart: str
    source: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The analyses of one subject."""

    title: str
    anchor: str
    chapters: Sequence[Chapter]


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that is known of an evaluation; `styles` are the document's own.

    `content_rules` are a browser's for the document, also where it was mailed and comes as a file.
    """

    status: EvaluationStatus
    tiles: Sequence[Tile]
    latencies: LatencyPicture | None
    rates: RatePicture | None
    subjects: Sequence[Subject]
    causes: Sequence[Cause]
    empty: Sequence[Empty]
    conditions: Section | None
    request: Equivalents | None
    styles: str
    content_rules: str
    version: str
    made_at: str
    template: ClassVar[str] = "report.html"

    @property
    def title(self) -> str:
        """The document's title."""
        return f"{self.status.model or self.status.evaluation}: report"


def report_view(
    status: EvaluationStatus, tables: Tables, charts: Mapping[str, str], **frame: str
) -> ReportView:
    """Return the report of an evaluation in `status` with all its `tables`.

    `charts` are the drawn charts by table; `frame` are the view's styles, content rules,
    version and date.
    """
    view = _cut(tables)
    sections = {section.name: section for section in view.sections}
    by_name = {table.name: table for table in tables.tables}
    index = index_of(tables.evaluation, tables.tables, tables.total_rows)
    subjects = [
        Subject(
            group.title,
            group.anchor,
            [
                _chapter(by_name[card.name], sections[card.name], charts)
                for card in group.cards
                if card.name != "conditions"
            ],
        )
        for group in index.groups
    ]
    return ReportView(
        status=status,
        tiles=tiles_of(status, by_name),
        latencies=latency_picture(by_name),
        rates=rate_picture(by_name),
        subjects=[subject for subject in subjects if subject.chapters],
        causes=causes_of(view.caveats),
        empty=index.empty,
        conditions=sections.get("conditions"),
        request=equivalents_of([status.request]) if status.request else None,
        **frame,
    )


def _chapter(table: Table, section: Section, charts: Mapping[str, str]) -> Chapter:
    return Chapter(
        number=table.id,
        title=plain_title(table),
        question=question_of(table.name),
        section=section,
        chart=charts.get(table.name, ""),
        source=table.source,
    )


def _cut(tables: Tables) -> TablesView:
    """Return the tables with their first rows, and with a note where those are not all."""
    cut = tuple(
        table.model_copy(update={"rows": table.rows[:MOST_ROWS]}) for table in tables.tables
    )
    totals = {table.name: len(table.rows) for table in tables.tables}
    return tables_view(Tables(evaluation=tables.evaluation, tables=cut, total_rows=totals))
