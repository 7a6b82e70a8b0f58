"""REST for results: an evaluation's tables as JSON and files, and figures of several."""

import asyncio
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import NoSuchTable
from schemas.analysis import Table
from services.gateway.bus_requests import compared, table_of, tables_of
from services.gateway.parameters.query_string import JSON, check_is_plain, figures_of, form_of
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.responses import as_file, as_json


async def tables(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables: all tables."""
    check_is_plain(request.query_params.multi_items())
    answer = await tables_of(bus_of(request), evaluation_of(request))
    return as_json(answer.model_dump(mode="json"))


async def analyses(request: Request) -> Response:
    """GET /api/evaluations/{id}/analyses: every table without its rows, but with their number."""
    check_is_plain(request.query_params.multi_items())
    answer = await tables_of(bus_of(request), evaluation_of(request))
    summaries = [
        {
            **table.model_dump(mode="json", exclude={"rows"}),
            "rows": answer.total_rows.get(table.name, len(table.rows)),
        }
        for table in answer.tables
    ]
    return as_json({"evaluation": answer.evaluation, "analyses": summaries})


async def show_table(request: Request) -> Response:
    """GET /api/evaluations/{id}/tables/{name}: a table by name or number, as JSON or as a file.

    The format comes from a suffix (one of `FILES`), `?format=` or `Accept: text/csv`.
    """
    name, form = table_in_path(request, request.query_params.multi_items())
    return await in_form(await table_of(bus_of(request), evaluation_of(request), name), form)


def table_in_path(request: Request, formats: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the name of the table in the path, and the format that a `request` asks for.

    `formats` are the parameters of its query that say so. Raises MalformedMessage.
    """
    name, dot, suffix = str(request.path_params["table"]).rpartition(".")
    if not dot:
        name, suffix = suffix, ""
    return name, form_of(suffix, formats, request.headers.get("accept", ""))


async def in_form(table: Table, form: str) -> Response:
    """Return a `table` as JSON, or as a file of another format, `form`."""
    if form != JSON:
        return await asyncio.to_thread(as_file, table, form)
    return as_json(table.model_dump(mode="json"))


async def compare(request: Request) -> Response:
    """GET /api/compare?evaluation=ID&evaluation=ID: the figures of several evaluations."""
    command = figures_of(request.query_params.multi_items())
    answer = await compared(bus_of(request), command)
    return as_json(answer.model_dump(mode="json"))


async def compared_table(request: Request) -> Response:
    """GET /api/compare/tables/{name}: one table of `/api/compare`, as JSON or by a suffix a file.

    The query is that of `/api/compare`, and `format`.
    """
    query = request.query_params.multi_items()
    name, form = table_in_path(request, [pair for pair in query if pair[0] == "format"])
    command = figures_of([pair for pair in query if pair[0] != "format"])
    answer = await compared(bus_of(request), command)
    matching = [table for table in answer.tables if table.name == name]
    if not matching:
        raise NoSuchTable(name, tuple(table.name for table in answer.tables))
    return await in_form(matching[0], form)
