"""Pages: the answers of the bus as HTML, useful without JavaScript."""

import hmac
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mlscope.client.errors import ClientError
from schemas.analysis import Tables
from schemas.request import Refused
from services.gateway.answers import refused_by
from services.gateway.api import bus_of, evaluation_of
from services.gateway.asking import evaluations as ask_evaluations
from services.gateway.asking import first_rows_of, status_of
from services.gateway.asking import models as ask_models
from services.gateway.constraints import list_of
from services.gateway.guard import COOKIE, session_of
from services.gateway.pages.evaluation import evaluation_page
from services.gateway.pages.evaluations import evaluations_page
from services.gateway.pages.models import SORTS, Search, model_page, models_page
from services.gateway.pages.plain import login_page, trouble_page

_STATUS = {"malformed": 400, "invalid": 400, "unknown": 404, "busy": 503, "unavailable": 503}
_FORM_BYTES = 4096
_LISTED = 100


async def front(_: Request) -> Response:
    """GET /: the list of evaluations."""
    return RedirectResponse("/evaluations", 302)


async def evaluations(request: Request) -> Response:
    """GET /evaluations: the newest that fit the query, as `/api/evaluations` takes it."""
    command = list_of([("limit", str(_LISTED)), *request.query_params.multi_items()])
    found = await ask_evaluations(bus_of(request), command)
    return HTMLResponse(evaluations_page(found.evaluations, dict(request.query_params)))


async def models(request: Request) -> Response:
    """GET /models: those of the catalog that fit `q`, `task`, `framework`, by `sort`."""
    found = await ask_models(bus_of(request))
    return HTMLResponse(models_page(found, _search_of(request)))


async def model(request: Request) -> Response:
    """GET /models/{name}/{version}: one manifest, a hidden one too."""
    name, version = (str(request.path_params[each]) for each in ("name", "version"))
    for each in await ask_models(bus_of(request), name):
        if (each.name, each.version) == (name, version):
            return HTMLResponse(model_page(each))
    message = f"no model {name} {version}; /models lists those there are"
    return trouble(Refused(error="unknown", message=message, field="version", found=version))


def _search_of(request: Request) -> Search:
    query = request.query_params
    sort, number = query.get("sort", ""), query.get("page", "")
    return Search(
        words=query.get("q", ""),
        task=query.get("task", ""),
        framework=query.get("framework", ""),
        sort=sort if sort in SORTS else "name",
        page=max(1, int(number))
        if number.isascii() and number.isdigit() and len(number) < 6
        else 1,
    )


async def evaluation(request: Request) -> Response:
    """GET /evaluations/{id}: live while it runs, the record afterwards."""
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
    """GET and POST /login: the bearer token for a cookie."""
    token: str | None = request.app.state.token
    if token is None:
        return RedirectResponse("/evaluations", 303)
    if request.method == "GET":
        return HTMLResponse(login_page())
    given = await _given_token(request)
    if not hmac.compare_digest(given.encode(), token.encode()):
        return HTMLResponse(login_page("That is not the token."), 401)
    response = RedirectResponse("/evaluations", 303)
    is_https = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, session_of(token), httponly=True, samesite="strict", secure=is_https
    )
    return response


async def _given_token(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]


def trouble(refused: Refused) -> Response:
    """Return a page that says why there is no page."""
    return HTMLResponse(trouble_page(refused), _STATUS.get(refused.error, 500))
