"""REST for charts: a table's chart as a picture or as a Vega-Lite specification with its rows."""

from starlette.requests import Request
from starlette.responses import Response

from schemas.analysis import Table
from schemas.encoding.errors import MalformedMessage
from services.gateway.bus_requests import table_of
from services.gateway.charts.axes import Size
from services.gateway.charts.choosing import choosing_of
from services.gateway.charts.fitting import NARROW, WIDE, Fitted, fitted
from services.gateway.charts.theme import PAGE, PRINT, Theme
from services.gateway.errors import CannotDraw
from services.gateway.pages.selection import FILTERS, selected, selection_of
from services.gateway.parameters.request_values import bus_of, evaluation_of, who_asks
from services.gateway.responses import as_json

PICTURES = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
"""The media type of each kind of picture, by its suffix."""
_OPTIONS = ("theme", "width", "layer")


async def show_chart(request: Request) -> Response:
    """GET /api/evaluations/{id}/charts/{name}.{svg|png|pdf|json}: of some rows, by the query."""
    name, suffix = chart_in_path(request)
    for parameter, value in request.query_params.multi_items():
        if parameter not in (*FILTERS, *_OPTIONS):
            expected = f"one of {', '.join((*FILTERS, *_OPTIONS))}"
            raise MalformedMessage(field=parameter, found=value[:80], expected=expected)
    table = await table_of(bus_of(request), evaluation_of(request), name)
    selection = selection_of(request.query_params, table)
    theme, size = theme_and_size(request)
    choosing = choosing_of(selection, has_links=theme is PAGE)
    chart = fitted(selected(table, selection), theme, size, among=table, choosing=choosing)
    reason = f"The table {table.name} has no chart."
    return await drawn(request, table, chart, suffix, reason)


def chart_in_path(request: Request) -> tuple[str, str]:
    """Return the name of a chart and the suffix of its form. Raises MalformedMessage."""
    name, _, suffix = str(request.path_params["chart"]).rpartition(".")
    if suffix not in (*PICTURES, "json"):
        expected = f"a name and one of {', '.join('.' + form for form in (*PICTURES, 'json'))}"
        raise MalformedMessage(field="chart", found=suffix[:80], expected=expected)
    return name, suffix


def theme_and_size(request: Request) -> tuple[Theme, Size]:
    """Return the theme and the size that a query asks for; by default those of print."""
    query = request.query_params
    theme = PAGE if query.get("theme") == "page" else PRINT
    return theme, NARROW if query.get("width") == "narrow" else WIDE


async def drawn(
    request: Request, table: Table, chart: Fitted, suffix: str, reason: str
) -> Response:
    """Return the `chart` of a `table` as a picture or, for the `suffix` json, as it is specified.

    The `request` has the painter of pictures. Raises CannotDraw for a table without a chart, for
    the chart's notes or else the `reason`.
    """
    if chart.spec is None:
        raise CannotDraw(" ".join(chart.notes) or reason)
    if suffix == "json":
        # Tooltips name columns as people read them.
        units = {column.name.replace("_", " "): column.unit for column in table.columns}
        return as_json({**chart.spec, "usermeta": {"units": units}})
    person = who_asks(request).name
    picture = await request.app.state.pictures.draw(chart.spec, suffix, person)
    headers = {"Content-Disposition": f'inline; filename="{table.name}.{suffix}"'}
    return Response(picture, 200, headers, media_type=PICTURES[suffix])
