"""Access control: a bearer token if one is set, and no requests from other sites' pages."""

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlscope.logins import PARAMETER
from mlscope.people import People
from mlscope.settings import is_loopback
from schemas.people import THE_USER, Asker
from schemas.request import Refused
from services.gateway.access import connections
from services.gateway.access.body_memory import BodyMemory
from services.gateway.access.failures import Failures
from services.gateway.access.tickets import Tickets
from services.gateway.parameters.request_values import who_asks
from services.gateway.responses import refusal

_log = logging.getLogger(__name__)
_COOKIE = "mlscope_session"
SESSION_S = 7 * 24 * 3600
"""How long a login lasts."""

MOST_QUERY_FIELDS = 5000
"""Parameters of an address: more than a page has with prices of thousands of agents."""

WRONG_TOKEN_S = 1.0
"""How long a wrong bearer token waits for its answer, from the eleventh within a minute on."""

_AUTHORIZATION = "authorization"
_DIGITS = 16
_OPEN = ("/healthz", "/login")
_OPEN_FOLDER = "/static/"
_HOST = re.compile(
    r"(?:(?P<name>[A-Za-z0-9._-]{1,253})|\[(?P<address>[0-9A-Fa-f:.]{2,45})\])(?::\d{1,5})?"
)
_TICKET = f"{PARAMETER}=".encode()
_SAFE = ("GET", "HEAD", "OPTIONS")
# Drawings of charts have style attributes; style elements and inline scripts are not allowed.
_CONTENT_RULES = (
    "default-src 'self'",
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "object-src 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
)
_HEADERS = {
    "Content-Security-Policy": "; ".join(_CONTENT_RULES),
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` a browser names no origin of a form, and the guard would refuse it.
    "Referrer-Policy": "same-origin",
    # Pages are asked for again; static files say otherwise, their addresses name their version.
    "Cache-Control": "no-cache",
}


class Guard:
    """Middleware that refuses unauthorised requests and adds headers to every response."""

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        own_hosts: frozenset[str],
        people: People,
        most_body_bytes: int,
    ) -> None:
        """Wrap `app`; without `token`, only loopback and `own_hosts` are accepted as host names.

        With a `token`, each of `people` may log in with a token of their own. Bodies in memory have
        `most_body_bytes` together.
        """
        self._bodies = BodyMemory(most_body_bytes)
        self._app = app
        self._token = token
        self._people = people
        self._own_hosts = own_hosts
        self._tickets = Tickets()
        self._wrong_tokens = Failures()

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

        request = Request(scope)
        response = _too_many_fields(scope) or self._refusal(request)
        if (
            response is not None
            and response.status_code == 401
            and _AUTHORIZATION in request.headers
        ):
            await self._slow_down(request.client.host if request.client else "")
        with self._bodies.of_request(who_asks(request).name) as take_body_bytes:
            request.state.take_body_bytes = take_body_bytes
            await (response or self._app)(scope, receive, send_guarded)

    async def _slow_down(self, address: str) -> None:
        """Delay the answer to a wrong token when its `address` has sent many.

        Right tokens are served as ever: many clients may share one address.
        """
        now_s = time.monotonic()
        had_many = self._wrong_tokens.wait_s(address, now_s)
        self._wrong_tokens.add(address, now_s)
        if had_many:
            await asyncio.sleep(WRONG_TOKEN_S)
        elif self._wrong_tokens.wait_s(address, now_s):
            _log.warning("many wrong tokens", extra={"address": address})

    def _refusal(self, request: Request) -> Response | None:
        host = host_of(request.headers)
        if host is None:
            message = "the header Host names no host: expected NAME or NAME:PORT of the gateway"
            return refusal(Refused(error="invalid", message=message, field="Host"), 400)
        if self._token is None and not (is_loopback(host) or host in self._own_hosts):
            return _forbidden("this host name is not the gateway's; set MLSCOPE_GATEWAY_URL")
        origin = request.headers.get("origin")
        is_same_site = origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
        if request.method not in _SAFE and not is_same_site:
            return _forbidden("requests from other sites' pages are not accepted")
        # What is routed counts: the path of `request.url` is made of the header Host as well.
        path = request.scope["path"]
        if self._token is None or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return None
        tokens = tokens_of(self._token, self._people)
        asker = next(
            (asker for token, asker in tokens.items() if is_authorised(request, token)),
            None,
        )
        tickets = _tickets_of(request.scope)
        if tickets and request.method == "GET":
            return self._login(request, tickets, tokens, asker)
        if asker is not None:
            request.state.asker = asker
            connections.keep(request.scope)
            return None
        if not path.startswith("/api/") and path != "/metrics":
            return RedirectResponse("/login", 303)
        message = "a bearer token is required"
        response = refusal(Refused(error="invalid", message=message, field="Authorization"), 401)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _login(
        self,
        request: Request,
        tickets: Sequence[str],
        tokens: Mapping[str, Asker],
        asker: Asker | None,
    ) -> Response:
        """Exchange the ticket of an address for a cookie, and lead to the address without it.

        `asker` is who is logged in by now, if anybody, and stays so where a page of another site
        leads here: with a ticket of its author, a person would go on as somebody else unawares.
        """
        good = [
            token
            for token in tokens
            if len(tickets) == 1 and self._tickets.take(tickets[0], token, time.time())
        ]
        if not good and asker is None:
            return RedirectResponse("/login", 303)
        query = request.url.remove_query_params(PARAMETER).query
        # With two slashes at its beginning a path would be another host's address.
        path = "/" + quote(request.scope["path"].lstrip("/"))
        response = RedirectResponse(f"{path}?{query}".removesuffix("?"), 303)
        is_foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        for token in good:
            if asker is not None and tokens[token] != asker and is_foreign:
                continue
            set_session(response, request, token, tokens)
        return response


def tokens_of(token: str, people: People) -> dict[str, Asker]:
    """Return whom each token logs in: the gateway's own `token`, and those of `people`.

    An empty one, of a file that was never filled, logs nobody in.
    """
    own = {token: THE_USER} if token else {}
    return {**own, **{person.token: person.asker for person in people.all()}}


def set_session(response: Response, request: Request, token: str, tokens: Iterable[str]) -> None:
    """Log the browser in that made the `request`: the `response` sets the cookie of `token`.

    A login as somebody else, by another of the gateway's `tokens`, ends.
    It is sent along where another site's link leads here, so that a link in a web page of a
    terminal or a chat works: what changes something is refused by its origin.
    """
    stale = {cookie_of(ended) for ended in tokens if ended != token}
    for cookie in stale & set(request.cookies):
        response.delete_cookie(cookie)
    response.set_cookie(
        cookie_of(token),
        session_of(token, time.time()),
        max_age=SESSION_S,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def cookie_of(token: str) -> str:
    """Return the cookie's name: gateways on several ports of one host share their cookies."""
    return f"{_COOKIE}_{hashlib.sha256(b'mlscope cookie ' + token.encode()).hexdigest()[:8]}"


def is_authorised(request: Request, token: str) -> bool:
    """Tell whether a `request` has the `token`, or the cookie of it that the login page sets."""
    scheme, _, credentials = request.headers.get(_AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer" and _same(credentials.strip(), token):
        return True
    cookie = cookie_of(token)
    # Thousands of cookies take long to read: of whoever has not logged in, none is.
    if not any(cookie in header for header in request.headers.getlist("cookie")):
        return False
    expires, _, signature = request.cookies.get(cookie, "").partition(".")
    if not (expires.isascii() and expires.isdecimal() and len(expires) < _DIGITS):
        return False
    return _same(signature, _signature(token, int(expires))) and time.time() < int(expires)


def host_of(headers: Mapping[str, str]) -> str | None:
    """Return the host of the header `Host` without its port, in lower case; None for no such."""
    named = _HOST.fullmatch(headers.get("host", ""))
    return (named["name"] or named["address"]).lower() if named else None


def session_of(token: str, now_s: float) -> str:
    """Return the cookie's value, which proves the `token` without revealing it.

    It ends `SESSION_S` after `now_s` (epoch seconds).
    """
    expires = int(now_s) + SESSION_S
    return f"{expires}.{_signature(token, expires)}"


def _signature(token: str, expires: int) -> str:
    return hmac.new(token.encode(), b"mlscope session %d" % expires, hashlib.sha256).hexdigest()


def _same(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(), secret.encode())


def _tickets_of(scope: Scope) -> list[str]:
    """Return the tickets in a query, without reading the rest of it, which may take long."""
    fields: list[bytes] = scope["query_string"].split(b"&")
    return [
        field[len(_TICKET) :].decode("latin-1") for field in fields if field.startswith(_TICKET)
    ]


def _too_many_fields(scope: Scope) -> Response | None:
    """Refuse a query that takes long to read, before it is read."""
    if (count := 1 + scope["query_string"].count(b"&")) <= MOST_QUERY_FIELDS:
        return None
    found, allowed = f"{count} parameters", f"a query of at most {MOST_QUERY_FIELDS} parameters"
    message = f"{found}; allowed: {allowed}"
    return refusal(Refused(error="malformed", message=message, found=found, allowed=allowed))


def _forbidden(message: str) -> Response:
    return refusal(Refused(error="invalid", message=message), 403)
