"""Handlers of the pages: answers of the bus as HTML that works without JavaScript."""

import hmac
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mlscope.client.errors import ClientError
from schemas.analysis import Tables
from schemas.request import Refused
from services.gateway.api import bus_of, evaluation_of
from services.gateway.bus_requests import evaluations as ask_evaluations
from services.gateway.bus_requests import first_rows_of, status_of
from services.gateway.bus_requests import models as ask_models
from services.gateway.guard import COOKIE, session_of
from services.gateway.pages.evaluation import evaluation_page
from services.gateway.pages.evaluations import evaluations_page
from services.gateway.pages.frame import error_page, login_page
from services.gateway.pages.models import SORTS, Search, model_page, models_page
from services.gateway.query_parameters import list_of
from services.gateway.responses import refused_by

_STATUS_CODES = {"malformed": 400, "invalid": 400, "unknown": 404, "busy": 503, "unavailable": 503}
_FORM_BYTES = 4096
_LIST_LIMIT = 100


async def front(_: Request) -> Response:
    """GET /: the list of evaluations."""
    return RedirectResponse("/evaluations", 302)


async def evaluations(request: Request) -> Response:
    """GET /evaluations: the newest that match the query, as in `/api/evaluations`."""
    command = list_of([("limit", str(_LIST_LIMIT)), *request.query_params.multi_items()])
    answer = await ask_evaluations(bus_of(request), command)
    return HTMLResponse(evaluations_page(answer.evaluations, dict(request.query_params)))


async def models(request: Request) -> Response:
    """GET /models: those of the catalog that match `q`, `task`, `framework`, sorted by `sort`."""
    query = request.query_params
    sort, number = query.get("sort", ""), query.get("page", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    search = Search(
        terms=query.get("q", ""),
        task=query.get("task", ""),
        framework=query.get("framework", ""),
        sort=sort if sort in SORTS else "name",
        page=max(1, int(number)) if is_number else 1,
    )
    return HTMLResponse(models_page(await ask_models(bus_of(request)), search))


async def model(request: Request) -> Response:
    """GET /models/{name}/{version}: one manifest, also a hidden one."""
    name, version = str(request.path_params["name"]), str(request.path_params["version"])
    for manifest in await ask_models(bus_of(request), name):
        if (manifest.name, manifest.version) == (name, version):
            return HTMLResponse(model_page(manifest))
    message = f"no model {name} {version}; /models lists all"
    refused = Refused(error="unknown", message=message, field="version", found=version)
    return error_response(refused)


async def evaluation(request: Request) -> Response:
    """GET /evaluations/{id}: live during the evaluation, then its record."""
    status = await status_of(bus_of(request), evaluation_of(request))
    tables = Tables(evaluation=status.evaluation, tables=())
    note = ""
    if status.tables:
        try:
            tables = await first_rows_of(bus_of(request), status.evaluation)
        except ClientError as error:
            note = refused_by(error).message
    return HTMLResponse(evaluation_page(status, tables, note))


async def login(request: Request) -> Response:
    """GET and POST /login: exchanges the bearer token for a cookie."""
    token: str | None = request.app.state.token
    if token is None:
        return RedirectResponse("/evaluations", 303)
    if request.method == "GET":
        return HTMLResponse(login_page())
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES:
            body = b""
            break
    typed = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
    if not hmac.compare_digest(typed.encode(), token.encode()):
        return HTMLResponse(login_page("This is not the gateway's token."), 401)
    response = RedirectResponse("/evaluations", 303)
    is_https = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, session_of(token), httponly=True, samesite="strict", secure=is_https
    )
    return response


def error_response(refused: Refused) -> Response:
    """Return a page that explains why a request was refused."""
    return HTMLResponse(error_page(refused), _STATUS_CODES.get(refused.error, 500))
