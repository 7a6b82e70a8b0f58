"""Streams of server-sent events: of one evaluation, and of all; a ping every few seconds."""

import json
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import StreamingResponse

from schemas.people import THE_USER, Asker
from services.gateway.live.events import Event, end_of
from services.gateway.live.feeds import Feeds
from services.gateway.parameters.request_values import who_asks

_PING_S = 5.0
"""How often a client hears that its stream lives (static/js/live_source.js waits for it)."""
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Content-Type": "text/event-stream; charset=utf-8",
}


def live_response(feeds: Feeds, request: Request, evaluation: str) -> StreamingResponse:
    """Return the stream of an `evaluation`, resumed after `Last-Event-ID` (or `?after=`).

    `feeds` has the evaluation's feed, `request` says after which event the client resumes.
    Raises TooManyViewers.
    """
    asker = who_asks(request)
    feeds.check_limit(asker)
    after, wants_spans = last_event_id(request), request.query_params.get("spans") == "1"
    events = live_events(feeds, evaluation, after=after, wants_spans=wants_spans, asker=asker)
    return StreamingResponse(events, headers=_HEADERS)


def last_event_id(request: Request) -> int:
    """Return the last sequence that a client has received; 0 if it names none."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


async def live_events(
    feeds: Feeds,
    evaluation: str,
    *,
    after: int,
    wants_spans: bool = False,
    asker: Asker = THE_USER,
    ping_s: float = _PING_S,
) -> AsyncIterator[bytes]:
    """Yield the events of an `evaluation` after sequence `after`, then new ones until it ends.

    They come from its feed in `feeds`, encoded, with spans where `wants_spans`, for `asker`; a ping
    is sent every `ping_s` seconds.
    """
    viewing = feeds.viewing(evaluation, after=after, wants_spans=wants_spans, asker=asker)
    pings = Pings(ping_s)
    async with viewing as (feed, viewer):
        yield b"retry: 1000\n\n"
        while not (feeds.is_closing or feed.is_broken):
            is_over = feed.is_over
            if events := b"".join(event.encoded() for event in viewer.take()):
                yield events
            if is_over:
                yield end_of(feed.scene.status).encoded()
                return
            await viewer.wait(ping_s)
            if ping := pings.due(feed.trouble):
                yield ping


class Pings:
    """When a client is told that its stream is up to date, or why it is not."""

    def __init__(self, period_s: float) -> None:
        """Say so every `period_s` seconds, and at once when it changes."""
        self._period_s = period_s
        self._due_s = time.monotonic() + period_s
        self._trouble = ""

    def due(self, trouble: str) -> bytes:
        """Return a `ping` event if it is time for one; `trouble` is '' while all is well."""
        now_s = time.monotonic()
        if trouble == self._trouble and now_s < self._due_s:
            return b""
        self._trouble, self._due_s = trouble, now_s + self._period_s
        return Event("ping", json.dumps({"trouble": trouble})).encoded()


def overview_response(feeds: Feeds, request: Request) -> StreamingResponse:
    """Return the stream of all evaluations, for the page whose digest the `request` names.

    `feeds` has the feed. Raises TooManyViewers.
    """
    asker = who_asks(request)
    feeds.check_limit(asker)
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    events = overview_events(feeds, digest=text[:64], asker=asker)
    return StreamingResponse(events, headers=_HEADERS)


async def overview_events(
    feeds: Feeds, *, digest: str, ping_s: float = _PING_S, asker: Asker = THE_USER
) -> AsyncIterator[bytes]:
    """Yield events about all evaluations until the gateway stops.

    `feeds` has the feed, `digest` is of the client's page; a ping is sent every `ping_s` seconds,
    and `asker` is the client.
    """
    pings = Pings(ping_s)
    async with feeds.viewing_overview(digest=digest, asker=asker) as (feed, viewer):
        yield b"retry: 1000\n\n"
        while not (feeds.is_closing or feed.is_broken):
            for event in viewer.take():
                yield event.encoded()
            await viewer.wait(ping_s)
            if ping := pings.due(feed.trouble):
                yield ping
