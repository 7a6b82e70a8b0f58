"""Routes whose evaluation may be named by the first digits of its id, as on the command line."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import wraps

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mlscope.client.short_ids import whole_id
from services.gateway.parameters.request_values import bus_of

_NAME = "evaluation"
_Handler = Callable[[Request], Awaitable[Response]]


def taking_short_ids(routes: Iterable[Route]) -> Iterator[Route]:
    """Yield the routes; those with an evaluation in their path take a short id for it."""
    for route in routes:
        if f"{{{_NAME}}}" not in route.path:
            yield route
            continue
        yield Route(route.path, _with_whole_id(route.endpoint), methods=list(route.methods or ()))


def _with_whole_id(handler: _Handler) -> _Handler:
    """Return a handler that sees whole ids alone. It raises CommandRefused for an ambiguous one."""

    @wraps(handler)
    async def handle(request: Request) -> Response:
        text = str(request.path_params[_NAME])
        request.path_params[_NAME] = await whole_id(bus_of(request), text)
        return await handler(request)

    return handle
