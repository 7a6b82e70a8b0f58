"""The report of a comparison as one HTML file, and the charts that its page draws too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.analysis import Compared, Table
from schemas.request import Compare
from schemas.status import EvaluationStatus
from services.gateway.charts.drawing import Pictures
from services.gateway.charts.figures import figure_of
from services.gateway.pages.comparing.compare import (
    Part,
    letters_of,
    named,
    named_by_letter,
    sections_of,
)
from services.gateway.pages.comparing.comparison_report import MOST_ROWS, comparison_report
from services.gateway.pages.tables import Section
from services.gateway.rendering import html_of
from services.gateway.reports.document import frame_with


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a `command` compared: the evaluations that it names, in its order.

    Of each there are the status and the table `conditions`, None where it is unknown.
    """

    command: Compare
    statuses: Sequence[EvaluationStatus]
    conditions: Sequence[Table | None]
    compared: Compared


async def comparison_document(comparison: Comparison, pictures: Pictures) -> str:
    """Return the report of a `comparison` as an HTML document.

    `pictures` draws its charts; one that cannot be drawn is a sentence that says why.
    """
    letters = letters_of(comparison.statuses)
    sections, caveats = sections_of(
        comparison.compared, letters, most_rows=MOST_ROWS, elsewhere="the command below prints all"
    )
    view = comparison_report(
        comparison.command,
        comparison.statuses,
        frame_with("tokens", "page", "tables", "analysis", "compare", "report"),
        tables=comparison.conditions,
        compared=comparison.compared.tables,
        parts=await parts_of(comparison.compared, sections, letters, pictures),
        caveats=caveats,
    )
    return html_of(view)


async def parts_of(
    compared: Compared,
    sections: Sequence[Section],
    letters: Mapping[str, str],
    pictures: Pictures,
) -> list[Part]:
    """Return the `sections` of what was `compared`, with the charts that `pictures` draws.

    `letters` name the evaluations.
    """
    tables = {table.name: named_by_letter(named(table, letters)) for table in compared.tables}
    return [Part(section, await figure_of(pictures, tables[section.name])) for section in sections]
