"""Every path of the gateway, and its responses to errors."""

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mlscope.bus.bus import Bus
from mlscope.client.errors import ClientError, CommandRefused
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused
from services.gateway import api, manifests, site
from services.gateway.errors import BodyTooLarge, TooManyViewers, WrongContentType
from services.gateway.feeds import Feeds
from services.gateway.guard import Guard
from services.gateway.responses import refusal, refused_by

_STATIC = Path(__file__).with_name("static")


def build_app(
    bus: Bus,
    feeds: Feeds,
    *,
    most_bytes: int,
    token: str | None = None,
    own_hosts: frozenset[str] = frozenset(),
) -> Starlette:
    """Return the gateway's application.

    `bus`: where its requests go; `feeds`: the live streams; `most_bytes`: maximum size of a body;
    `token`: required by everything but the login, if set; `own_hosts`: further accepted host names.
    """
    api_routes = [
        Route("/openapi.json", api.openapi),
        Route("/catalog", api.catalog),
        Route("/compare", api.compare),
        Route("/match", api.match, methods=["POST"]),
        Route("/models", manifests.show_models),
        Route("/models/{name:path}", manifests.show_model),
        Route("/manifests", manifests.publish, methods=["POST"]),
        Route("/manifests/{kind}/{name:path}/{version}", manifests.withdraw, methods=["DELETE"]),
        Route("/evaluations", api.list_evaluations, methods=["GET"]),
        Route("/evaluations", api.evaluate, methods=["POST"]),
        Route("/evaluations/{evaluation}", api.show, methods=["GET"]),
        Route("/evaluations/{evaluation}", api.cancel, methods=["DELETE"]),
        Route("/evaluations/{evaluation}/events", api.events),
        Route("/evaluations/{evaluation}/analyses", api.analyses),
        Route("/evaluations/{evaluation}/tables", api.tables),
        Route("/evaluations/{evaluation}/tables/{table}", api.show_table),
    ]
    app = Starlette(
        routes=[
            Route("/", site.front),
            Route("/login", site.login, methods=["GET", "POST"]),
            Route("/evaluations", site.evaluations),
            Route("/evaluations/{evaluation}", site.evaluation),
            Route("/models", site.models),
            Route("/models/{name:path}/{version}", site.model),
            Mount("/api", routes=api_routes),
            Route("/healthz", api.healthy),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Guard, token=token, own_hosts=own_hosts)],
        exception_handlers={
            ClientError: _explain,
            MalformedMessage: _explain,
            TooManyViewers: _explain_gateway_error,
            BodyTooLarge: _explain_gateway_error,
            WrongContentType: _explain_gateway_error,
            404: _not_found,
            405: _wrong_method,
        },
    )
    app.state.bus = bus
    app.state.feeds = feeds
    app.state.most_bytes = most_bytes
    app.state.token = token
    return app


async def _explain(request: Request, error: Exception) -> Response:
    refused = refused_by(error)
    is_unknown_model = isinstance(error, CommandRefused) and refused.error == "unknown"
    if is_unknown_model and request.method == "POST":
        return refusal(refused, 422)
    if not request.url.path.startswith("/api/"):
        return site.error_response(refused)
    return refusal(refused)


async def _explain_gateway_error(_: Request, error: Exception) -> Response:
    match error:
        case BodyTooLarge():
            refused = Refused(
                error="invalid",
                message=str(error),
                field="body",
                found=f"{error.found_bytes} bytes or more",
                allowed=f"{error.most_bytes} bytes",
            )
            return refusal(refused, 413)
        case WrongContentType():
            refused = Refused(
                error="malformed",
                message=str(error),
                field="Content-Type",
                found=error.media_type,
                allowed="application/json",
            )
            return refusal(refused, 415)
    return refusal(Refused(error="busy", message=str(error)))


async def _not_found(request: Request, _: Any) -> Response:
    message = f"nothing at {request.url.path}; /api/openapi.json lists all paths"
    refused = Refused(error="unknown", message=message)
    if request.url.path.startswith("/api/"):
        return refusal(refused)
    return site.error_response(refused)


async def _wrong_method(request: Request, error: Any) -> Response:
    refused = Refused(
        error="invalid",
        message=f"{request.url.path} does not accept {request.method}",
        field="method",
        found=request.method,
        allowed=error.headers["Allow"],
    )
    response = refusal(refused, 405)
    response.headers["Allow"] = error.headers["Allow"]
    return response
