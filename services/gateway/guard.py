"""Who may ask: the bearer token where one is set, and nobody through another site's page."""

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlscope.settings import is_loopback
from schemas.request import Refused
from services.gateway.answers import refusal

COOKIE = "mlscope_session"
_OPEN = ("/healthz", "/login", "/static/")
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Whatever is kept is asked for again: a page never meets a style or script of another version.
    "Cache-Control": "no-cache",
}


class Guard:
    """Middleware: refuses whom it must, and adds the headers every response carries."""

    def __init__(self, app: ASGIApp, token: str | None, own_hosts: frozenset[str]) -> None:
        """`own_hosts` are names under which the gateway is known beside loopback's."""
        self._app = app
        self._token = token
        self._own_hosts = own_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        response = self._refusal(Request(scope))
        await (response or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        if self._token is None and not self._is_ours(request.url.hostname or ""):
            return _forbidden("this host name is not the gateway's; set MLSCOPE_GATEWAY_URL")
        if request.method not in _SAFE and not self._is_same_site(request):
            return _forbidden("another site may not send this")
        if self._token is None or request.url.path.startswith(_OPEN):
            return None
        if may_enter(request.headers, request.cookies, self._token):
            return None
        if request.url.path.startswith("/api/"):
            return _unauthorised()
        return RedirectResponse("/login", 303)

    def _is_ours(self, host: str) -> bool:
        return is_loopback(host) or host in self._own_hosts

    def _is_same_site(self, request: Request) -> bool:
        origin = request.headers.get("origin")
        return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


def may_enter(headers: Mapping[str, str], cookies: Mapping[str, str], token: str) -> bool:
    """Tell whether a request brings the token, or the cookie that the login page gave for it."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and _same(given.strip(), token):
        return True
    return _same(cookies.get(COOKIE, ""), session_of(token))


def session_of(token: str) -> str:
    """Return the cookie's value: proves the token, does not tell it."""
    return hmac.new(token.encode(), b"mlscope session", hashlib.sha256).hexdigest()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _forbidden(message: str) -> Response:
    return refusal(Refused(error="invalid", message=message), 403)


def _unauthorised() -> Response:
    refused = Refused(error="invalid", message="a bearer token is needed", field="Authorization")
    response = refusal(refused, 401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response
