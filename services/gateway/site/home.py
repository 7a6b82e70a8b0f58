"""The first page."""

import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from services.gateway.bus_requests import overview_of
from services.gateway.pages.comparing.regressions import ORDERS
from services.gateway.pages.home import HomeView, Overview
from services.gateway.parameters.request_values import bus_of, who_asks
from services.gateway.rendering import html_of

_FRESH_S = 2.0
"""For how long a page may be sent again, if nothing but ages changes on it."""


@dataclass(frozen=True, slots=True)
class HomePage:
    """The first page as it was sent last: of which overview, and when."""

    digest: str
    slower: str
    made_s: float
    html: str


async def home(request: Request) -> Response:
    """GET /: what runs now, the fleet, regressions, and the latest evaluations.

    All who view it ask for it again at the same moment, when something changes. So while there is
    a stream, its overview is used and the page is made once.
    """
    typed = request.query_params.get("slower", "")
    slower = typed if typed in ORDERS else "certain"
    is_owner = who_asks(request).is_owner
    overview: Overview | None = request.app.state.feeds.overview if is_owner else None
    if overview is None:
        return HTMLResponse(_html_of(request, await overview_of(bus_of(request)), slower))
    page: HomePage | None = request.app.state.home_page
    now_s = time.monotonic()
    is_same = page is not None and (page.digest, page.slower) == (overview.digest, slower)
    if page is None or not is_same or now_s - page.made_s > _FRESH_S:
        page = HomePage(overview.digest, slower, now_s, _html_of(request, overview, slower))
        request.app.state.home_page = page
    return HTMLResponse(page.html)


def _html_of(request: Request, overview: Overview, slower: str) -> str:
    paths = request.app.state.page_paths
    view = HomeView(
        overview,
        can_compare="/compare" in paths,
        can_start="/new" in paths,
        shows_agents="/agents" in paths,
        shows_history="/explore" in paths,
        slower=slower,
    )
    return html_of(view, paths, request.url.path)
