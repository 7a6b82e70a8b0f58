"""The pages of analyses: their index, and each with its chart, which is sent when it is drawn."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlscope.client.errors import ClientError
from schemas.analysis import Tables
from services.gateway.bus_requests import headings_of, status_of, table_of
from services.gateway.charts.choosing import choosing_of
from services.gateway.charts.figures import figure_of
from services.gateway.pages.analyses import analyses_view, index_of
from services.gateway.pages.analysis import CHART, analysis_view
from services.gateway.pages.selection import selected, selection_of
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.rendering import html_of, rendered
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
    index = index_of(evaluation, every.tables, every.total_rows)
    # In threads: a table may have a hundred thousand rows, and others wait meanwhile.
    view = await asyncio.to_thread(analysis_view, status, table, index, selection)
    document = await asyncio.to_thread(
        html_of, view, request.app.state.page_paths, request.url.path
    )
    drawn = selection_of({**selection.chosen_values}, table)
    shown = await asyncio.to_thread(selected, table, drawn)
    choosing = choosing_of(selection)

    async def parts() -> AsyncIterator[str]:
        before, marker, after = document.partition(CHART)
        yield before
        if marker:
            yield await figure_of(request.app.state.pictures, shown, among=table, choosing=choosing)
        yield after

    return StreamingResponse(parts(), media_type="text/html; charset=utf-8")
