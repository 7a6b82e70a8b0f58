"""The login, which exchanges the bearer token for a cookie, and the page of an error."""

import asyncio
import hmac
import time
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from schemas.request import Refused
from services.gateway.access.failures import Failures
from services.gateway.access.guard import set_session, tokens_of
from services.gateway.pages.login_and_error import ErrorView, LoginView
from services.gateway.rendering import rendered
from services.gateway.responses import status_code_of

_FORM_BYTES = 4096
_DIGITS = 16
FORM_S = 10.0
"""The longest that a form may take: whoever sends it has not logged in."""


async def login(request: Request) -> Response:
    """GET and POST /login: exchanges the bearer token for a cookie."""
    token: str | None = request.app.state.token
    failures: Failures = request.app.state.failed_logins
    address = request.client.host if request.client else ""
    if token is None:
        return RedirectResponse("/", 303)
    if request.method == "GET":
        return rendered(request, LoginView())
    if wait_s := failures.wait_s(address, time.monotonic()):
        answer = rendered(request, LoginView(f"Too many attempts: try again in {wait_s} s."), 429)
        answer.headers["Retry-After"] = str(wait_s)
        return answer
    typed = await _typed_token(request)
    tokens = tokens_of(token, request.app.state.people)
    good = [token for token in tokens if hmac.compare_digest(typed.encode(), token.encode())]
    if not good:
        failures.add(address, time.monotonic())
        return rendered(request, LoginView("Nobody has this token."), 401)
    response = RedirectResponse("/", 303)
    set_session(response, request, good[0], tokens)
    return response


async def _typed_token(request: Request) -> str:
    """Return the token of the form in a request, '' for a form that is too large or too slow.

    A form says how long it is, as browsers do: chunks take long to read, of whoever sends them.
    """
    length = request.headers.get("content-length", "")
    is_short = length.isdecimal() and len(length) < _DIGITS and int(length) <= _FORM_BYTES
    if "transfer-encoding" in request.headers or not is_short:
        return ""
    body = b""
    try:
        async with asyncio.timeout(FORM_S):
            async for chunk in request.stream():
                body += chunk
    except TimeoutError:
        return ""
    return parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]


def error_response(request: Request, refused: Refused, status: int | None = None) -> Response:
    """Return a page that explains why a `request` was `refused`; `status` is its code, if given."""
    return rendered(request, ErrorView(refused), status or status_code_of(refused))
