"""The pages of analyses: their index, and each with its chart, which is sent when it is drawn."""

from collections.abc import AsyncIterator

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlscope.client.errors import ClientError
from schemas.analysis import Table, Tables
from services.gateway.bus_requests import headings_of, status_of, table_of
from services.gateway.charts.drawing import Pictures
from services.gateway.charts.fitting import NARROW, WIDE, fitted
from services.gateway.charts.inline import inlined
from services.gateway.charts.theme import PAGE
from services.gateway.errors import CannotDraw
from services.gateway.pages.analyses import analyses_view, index_of
from services.gateway.pages.analysis import CHART, analysis_view
from services.gateway.pages.selection import selected, selection_of
from services.gateway.rendering import html_of, rendered
from services.gateway.request_values import bus_of, evaluation_of
from services.gateway.responses import refused_by

_NOT_YET = "Analyses come when the evaluation has ended."


async def analyses(request: Request) -> Response:
    """GET /evaluations/{id}/analyses: all analyses by subject, and why some are empty."""
    status = await status_of(bus_of(request), evaluation_of(request))
    tables, note = Tables(evaluation=status.evaluation, tables=()), _NOT_YET
    if status.tables:
        try:
            tables, note = await headings_of(bus_of(request), status.evaluation), ""
        except ClientError as error:
            note = refused_by(error).message
    return rendered(request, analyses_view(status, tables.tables, tables.total_rows, note))


async def analysis(request: Request) -> Response:
    """GET /evaluations/{id}/analyses/{name or number}: rows are selected by the query."""
    bus, evaluation = bus_of(request), evaluation_of(request)
    status = await status_of(bus, evaluation)
    table = await table_of(bus, evaluation, str(request.path_params["name"]))
    every = await headings_of(bus, evaluation)
    selection = selection_of(request.query_params, table)
    view = analysis_view(
        status, table, index_of(evaluation, every.tables, every.total_rows), selection
    )
    document = html_of(view, request.app.state.page_paths, request.url.path)
    shown = selected(table, selection_of({**selection.wanted}, table))

    async def parts() -> AsyncIterator[str]:
        before, marker, after = document.partition(CHART)
        yield before
        if marker:
            yield await _drawn(request.app.state.pictures, shown, table)
        yield after

    return StreamingResponse(parts(), media_type="text/html; charset=utf-8")


async def _drawn(pictures: Pictures, shown: Table, table: Table) -> str:
    """Return the chart of the rows `shown` of a `table`, wide and narrow, or why there is none."""
    drawings: list[str] = []
    notes: tuple[str, ...] = ()
    for size, name in ((WIDE, "broad"), (NARROW, "narrow")):
        chart = fitted(shown, PAGE, size, among=table)
        notes = chart.notes
        if chart.spec is None:
            break
        try:
            svg = await pictures.draw(chart.spec, "svg")
        except CannotDraw as error:
            return f'<p class="soft">{escape(error)}</p>'
        drawings.append(inlined(svg.decode(), f"Chart: {table.title or table.name}", name))
    texts = "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
    return f"{''.join(drawings)}{texts}"
