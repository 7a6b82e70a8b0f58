"""The paths of the gateway: pages, `/api` (`rest/routes.py`), files; its responses to errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.client.errors import ClientError, CommandRefused
from mlscope.people import People
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused
from services.gateway.access.body_memory import LARGEST_BODIES
from services.gateway.access.failures import Failures
from services.gateway.access.guard import Guard
from services.gateway.access.turns import Turns
from services.gateway.charts.drawing import Pictures
from services.gateway.errors import (
    BodyTooLarge,
    CannotDraw,
    FileTooSlow,
    NoRoom,
    TooManyBodies,
    TooManyFiles,
    TooManyViewers,
    TooManyWaiting,
    WrongContentType,
)
from services.gateway.live.feeds import Feeds
from services.gateway.live.standing import ClusterStanding
from services.gateway.parameters.short_ids import taking_short_ids
from services.gateway.readiness import Readiness
from services.gateway.recent_catalog import RecentCatalog
from services.gateway.responses import refusal, refused_by
from services.gateway.rest import catalog, metrics, reports
from services.gateway.rest.routes import rest_routes
from services.gateway.running_models import RunningModels
from services.gateway.sample_pictures import SamplePictures
from services.gateway.sent.files import LEAST_BYTES_PER_S
from services.gateway.site import (
    agents,
    analysis,
    compare,
    datasets,
    evaluation,
    exploring,
    frameworks,
    home,
    login,
    models,
    new,
    perfetto,
    status,
    trying,
)
from services.gateway.site import evaluations as evaluation_list
from services.gateway.site import trace as trace_page
from services.gateway.static_files import static_file


def build_app(
    bus: Bus,
    feeds: Feeds,
    *,
    most_bytes: int,
    token: str | None = None,
    own_hosts: frozenset[str] = frozenset(),
    people: People | None = None,
) -> Starlette:
    """Return the gateway's application.

    `bus`: where its requests go; `feeds`: the live streams; `most_bytes`: maximum size of a body;
    `token`: required by everything but the login, if set; `own_hosts`: further accepted host names;
    `people`: those who may log in with tokens of their own.
    """
    people = people or People(Path("nobody"))
    pages = list(taking_short_ids(_pages()))
    app = Starlette(
        routes=[
            *pages,
            Route("/login", login.login, methods=["GET", "POST"]),
            Mount("/api", routes=list(taking_short_ids(rest_routes()))),
            Route("/healthz", catalog.healthy),
            Route("/metrics", metrics.metrics),
            Route("/static/{build}/{path:path}", static_file),
            Route("/perfetto/{path:path}", perfetto.file),
            Route("/samples/{sha256}", datasets.sample),
        ],
        middleware=[
            Middleware(
                Guard,
                token=token,
                own_hosts=own_hosts,
                people=people,
                most_body_bytes=LARGEST_BODIES * most_bytes,
            ),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
        ],
        exception_handlers={
            ClientError: _explain,
            BusError: _explain,
            MalformedMessage: _explain,
            Exception: _fail,
            CannotDraw: _explain_gateway_error,
            NoRoom: _explain_gateway_error,
            TooManyViewers: _explain_gateway_error,
            BodyTooLarge: _explain_gateway_error,
            TooManyBodies: _explain_gateway_error,
            TooManyWaiting: _explain_gateway_error,
            FileTooSlow: _explain_gateway_error,
            TooManyFiles: _explain_gateway_error,
            WrongContentType: _explain_gateway_error,
            404: _not_found,
            405: _wrong_method,
        },
    )
    app.state.bus = bus
    app.state.readiness = Readiness(bus)
    app.state.standing = ClusterStanding(bus)
    app.state.feeds = feeds
    app.state.catalog = RecentCatalog()
    app.state.running_models = RunningModels(app.state.catalog)
    app.state.most_bytes = most_bytes
    app.state.sent_files = None
    app.state.token = token
    app.state.people = people
    app.state.failed_logins = Failures()
    app.state.large_answers = Turns("exports and traces as JSON")
    app.state.large_bodies = Turns("large requests")
    app.state.manifest_checks = Turns("checks of manifests")
    app.state.pictures = Pictures()
    app.state.sample_pictures = SamplePictures(None)
    app.state.home_page = None
    app.state.page_paths = frozenset(route.path for route in pages)
    return app


def _pages() -> list[Route]:
    """Return the routes of pages; the navigation leads to those that it knows by their paths."""
    return [
        Route("/", home.home),
        Route("/evaluations", evaluation_list.evaluations),
        Route("/evaluations/{evaluation}", evaluation.evaluation),
        Route("/evaluations/{evaluation}/trace", trace_page.trace),
        Route("/evaluations/{evaluation}/runs/{run}/perfetto", perfetto.page),
        Route("/evaluations/{evaluation}/analyses", analysis.analyses),
        Route("/evaluations/{evaluation}/analyses/{name}", analysis.analysis),
        Route("/evaluations/{evaluation}/report", reports.report),
        Route("/evaluations/{evaluation}/cancel", evaluation.cancel, methods=["POST"]),
        Route("/compare", compare.compare),
        Route("/explore", exploring.explore),
        Route("/explore/{name}", exploring.exploration),
        Route("/try", trying.try_model),
        Route("/new", new.form, methods=["GET"]),
        Route("/new", new.submit, methods=["POST"]),
        Route("/agents", agents.agents),
        Route("/agents/{agent}", agents.agent),
        Route("/agents/{agent}/price", agents.price, methods=["POST"]),
        Route("/frameworks", frameworks.frameworks),
        Route("/datasets", datasets.datasets),
        Route("/datasets/{name:path}/{version}", datasets.dataset),
        Route("/scenarios", datasets.scenarios),
        Route("/status", status.status),
        Route("/models", models.models),
        Route("/models/{name:path}/{version}", models.model),
    ]


async def _explain(request: Request, error: Exception) -> Response:
    refused = refused_by(error)
    is_unknown_model = isinstance(error, CommandRefused) and refused.error == "unknown"
    if is_unknown_model and request.method == "POST":
        return refusal(refused, 422)
    if not request.url.path.startswith("/api/"):
        return login.error_response(request, refused)
    return refusal(refused)


async def _fail(request: Request, error: Exception) -> Response:
    """Answer where the gateway itself failed; the log has the traceback."""
    refused = refused_by(error)
    if request.url.path.startswith("/api/"):
        return refusal(refused, 500)
    return login.error_response(request, refused, 500)


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
        case FileTooSlow():
            refused = Refused(
                error="invalid",
                message=str(error),
                field="body",
                found=f"{error.received_bytes} bytes within {error.within_s:.0f} s",
                allowed=f"{LEAST_BYTES_PER_S} bytes a second",
            )
            return refusal(refused, 408)
        case CannotDraw() | NoRoom():
            return refusal(Refused(error="unavailable", message=str(error)))
        case WrongContentType():
            refused = Refused(
                error="malformed",
                message=str(error),
                field="Content-Type",
                found=error.media_type,
                allowed=error.allowed,
            )
            return refusal(refused, 415)
    return refusal(Refused(error="busy", message=str(error)))


async def _not_found(request: Request, _: Any) -> Response:
    message = f"nothing at {request.url.path}; /api/openapi.json lists all paths"
    refused = Refused(error="unknown", message=message)
    if request.url.path.startswith("/api/"):
        return refusal(refused)
    return login.error_response(request, refused)


async def _wrong_method(request: Request, _: Any) -> Response:
    """Refuse a method; several routes may share a path, so all of their methods are allowed."""
    methods = ", ".join(sorted(_methods_of(request.app.routes, dict(request.scope))))
    refused = Refused(
        error="invalid",
        message=f"{request.url.path} does not accept {request.method}",
        field="method",
        found=request.method,
        allowed=methods,
    )
    response = refusal(refused, 405)
    response.headers["Allow"] = methods
    return response


def _methods_of(routes: Sequence[BaseRoute], scope: dict[str, Any]) -> set[str]:
    """Return the methods that any of these routes accepts at the path of a request's scope."""
    methods: set[str] = set()
    scope = {**scope, "root_path": scope.get("app_root_path", "")}
    for route in routes:
        matching, _ = route.matches(scope)
        if matching is Match.NONE:
            continue
        if isinstance(route, Mount):
            inside = {**scope, "app_root_path": scope["root_path"] + route.path}
            methods |= _methods_of(route.routes, inside)
        elif isinstance(route, Route):
            methods |= route.methods or set()
    return methods
