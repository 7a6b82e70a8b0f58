"""The pages that explore many evaluations: each part is sent when it is computed and drawn."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from mlscope.client.brief import caveat_lines
from mlscope.client.errors import ClientError
from services.gateway.bus_requests import explored
from services.gateway.charts.figures import figure_of
from services.gateway.charts.fitting import HALF
from services.gateway.pages.comparing.exploring import (
    SORTING,
    ExplorationView,
    ExploreView,
    Part,
    Terms,
    emptiness_of,
    exploration_view,
    terms_of,
)
from services.gateway.parameters.request_values import bus_of
from services.gateway.rendering import environment, html_of
from services.gateway.responses import refused_by

_HTML = "text/html; charset=utf-8"


async def explore(request: Request) -> Response:
    """GET /explore: every exploration of the loads that the query allows, one below the other."""
    terms = terms_of(request.query_params.multi_items())
    view = ExploreView(terms, await explored(bus_of(request), terms.command()))
    document = html_of(view, request.app.state.page_paths, request.url.path)
    parts = with_parts(request, terms, document, {part.marker: part for part in view.parts})
    return StreamingResponse(parts, media_type=_HTML)


async def with_parts(
    request: Request, terms: Terms, document: str, parts: Mapping[str, Part]
) -> AsyncIterator[str]:
    """Yield a `document` with the explorations `parts` in place of their markers.

    They are computed under `terms` and drawn one after the other, as answers to `request`.
    """
    remaining = document
    for marker, part in parts.items():
        before, found_marker, remaining = remaining.partition(marker)
        yield before
        if found_marker:
            yield await _part(request, terms, part)
    yield remaining


async def _part(request: Request, terms: Terms, part: Part) -> str:
    """Return verdict and chart of one exploration, or why there is none."""
    try:
        answer = await explored(bus_of(request), terms.command(part.name))
    except ClientError as error:
        return (
            environment()
            .from_string('<p class="note">{{ text }}</p>')
            .render(text=refused_by(error).message)
        )
    table = answer.table
    if table is None:
        return ""
    figure = await figure_of(request.app.state.pictures, table, broad=HALF)
    return (
        environment()
        .get_template("parts/exploration.html")
        .render(
            table=table,
            caveats=caveat_lines(table.caveats),
            emptiness=emptiness_of(table, terms, answer),
            figure=figure,
            part=part,
        )
    )


async def exploration(request: Request) -> Response:
    """GET /explore/{name}: one exploration with its chart, table and downloads."""
    query = request.query_params
    terms = terms_of(query.multi_items(), *SORTING)
    name = str(request.path_params["name"])
    bus = bus_of(request)
    answer, choices = await asyncio.gather(
        explored(bus, terms.command(name)), explored(bus, terms.command())
    )
    if answer.table is None:
        return RedirectResponse("/explore", 303)
    view = exploration_view(terms, answer, choices, query)
    document = html_of(view, request.app.state.page_paths, request.url.path)

    async def parts() -> AsyncIterator[str]:
        before, marker, after = document.partition(ExplorationView.chart)
        yield before
        if marker:
            yield await figure_of(request.app.state.pictures, view.table)
        yield after

    return StreamingResponse(parts(), media_type=_HTML)
