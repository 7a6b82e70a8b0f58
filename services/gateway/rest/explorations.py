"""REST for explorations of many evaluations: tables, files, and charts as pictures."""

from starlette.requests import Request
from starlette.responses import Response

from schemas.analysis import Table
from services.gateway.bus_requests import explored
from services.gateway.charts.fitting import fitted
from services.gateway.errors import CannotDraw
from services.gateway.pages.comparing.exploring import Terms, terms_of
from services.gateway.parameters.request_values import bus_of
from services.gateway.responses import as_json
from services.gateway.rest.charts import chart_in_path, drawn, theme_and_size
from services.gateway.rest.tables import in_form, table_in_path

_OPTIONS = ("theme", "width")


async def explore(request: Request) -> Response:
    """GET /api/explore: the explorations, and the values that constraints may have."""
    terms = terms_of(request.query_params.multi_items())
    answer = await explored(bus_of(request), terms.command())
    return as_json(answer.model_dump(mode="json", exclude={"table"}))


async def explored_table(request: Request) -> Response:
    """GET /api/explore/tables/{name}: one exploration, as JSON or by a suffix a file."""
    query = request.query_params.multi_items()
    name, form = table_in_path(request, [pair for pair in query if pair[0] == "format"])
    return await in_form(await _table(request, terms_of(query, "format"), name), form)


async def explored_chart(request: Request) -> Response:
    """GET /api/explore/charts/{name}.{svg|png|pdf|json}: the chart of one exploration."""
    name, suffix = chart_in_path(request)
    terms = terms_of(request.query_params.multi_items(), *_OPTIONS)
    table = await _table(request, terms, name)
    chart = fitted(table, *theme_and_size(request))
    return await drawn(request, table, chart, suffix, table.verdict)


async def _table(request: Request, terms: Terms, name: str) -> Table:
    answer = await explored(bus_of(request), terms.command(name))
    if answer.table is None:
        raise CannotDraw("The analyzer sent no table.")
    return answer.table
