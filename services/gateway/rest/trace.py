"""REST for traces: a run's lanes, spans of a window as Arrow or JSON, one span, its counters."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlscope.client.timelines import overview_of, span_of, window_of
from mlscope.settings import is_loopback
from schemas.trace import ShowWindow, TraceWindow
from services.gateway.arrow_columns import columns_of
from services.gateway.parameters.query_string import check_is_plain
from services.gateway.parameters.request_values import (
    bus_of,
    evaluation_of,
    integer_of,
    run_of,
    turn_of,
)
from services.gateway.parameters.trace_window import is_json_form, waits_of, window_request
from services.gateway.responses import as_json

ARROW = "application/vnd.apache.arrow.stream"
_GZIP_LEVEL = 1
_GZIP_WINDOW = 31
"""zlib's name for the gzip format."""


async def trace(request: Request) -> Response:
    """GET /api/evaluations/{id}/runs/{run}/trace, or ../trace: lanes, range, what is missing."""
    waits = waits_of(request.query_params.multi_items())
    evaluation, run = evaluation_of(request), run_of(request)
    answer = await overview_of(bus_of(request), evaluation, run, waits=waits)
    return as_json(answer.model_dump(mode="json"))


async def spans(request: Request) -> Response:
    """GET /api/evaluations/{id}/runs/{run}/spans: a window's spans or tiles, Arrow or JSON."""
    query = request.query_params.multi_items()
    command = window_request(evaluation_of(request), run_of(request), query)
    parts = window_of(bus_of(request), command)
    if is_json_form(query):
        async with turn_of(request), aclosing(parts):
            head = await anext(parts)
            stream = b"".join([head.part, *[part.part async for part in parts]])
            columns = await asyncio.to_thread(columns_of, stream)
            return as_json({**_counts(head), "columns": columns})
    head = await anext(parts)
    headers = {f"Mlscope-{name.replace('_', '-')}": str(n) for name, n in _counts(head).items()}
    is_accepted = "gzip" in request.headers.get("accept-encoding", "")
    # On the same machine it takes longer to compress than to send.
    is_gzip = is_accepted and (request.client is None or not is_loopback(request.client.host))
    # Said also where nothing is compressed: the middleware would compress it, slowly.
    headers |= {"Content-Encoding": "gzip" if is_gzip else "identity", "Vary": "Accept-Encoding"}
    content = _bytes_of(head, parts)
    return StreamingResponse(_gzipped(content) if is_gzip else content, 200, headers, ARROW)


async def span(request: Request) -> Response:
    """GET /api/evaluations/{id}/runs/{run}/spans/{span}: a span with attributes and its kin."""
    check_is_plain(request.query_params.multi_items())
    number = integer_of(request, "span")
    answer = await span_of(bus_of(request), evaluation_of(request), run_of(request), number)
    return as_json(answer.model_dump(mode="json"))


async def series(request: Request) -> Response:
    """GET /api/evaluations/{id}/runs/{run}/series: sampled counters, with times and values."""
    check_is_plain(request.query_params.multi_items())
    evaluation, bus = evaluation_of(request), bus_of(request)
    overview = await overview_of(bus, evaluation, run_of(request))
    counters = {lane.lane: lane for lane in overview.lanes if lane.group == "counter"}
    rows: dict[str, list[Any]] = {"lane": [], "start": [], "value": []}
    if counters:
        command = ShowWindow(
            evaluation=evaluation,
            run=overview.run,
            lanes=tuple(counters),
            columns=("lane", "start", "value"),
        )
        async with turn_of(request), aclosing(window_of(bus, command)) as parts:
            stream = b"".join([part.part async for part in parts])
            rows = await asyncio.to_thread(columns_of, stream)
    listed = []
    for lane in counters.values():
        places = [place for place, number in enumerate(rows["lane"]) if number == lane.lane]
        listed.append(
            {
                "key": lane.key,
                "title": lane.title,
                "unit": lane.level,
                "device": lane.device,
                "at_ns": [rows["start"][place] for place in places],
                "value": [rows["value"][place] for place in places],
            }
        )
    return as_json({"evaluation": evaluation, "run": overview.run, "series": listed})


def _counts(head: TraceWindow) -> dict[str, int]:
    return {"spans": head.spans, "rows": head.rows, "min_ns": head.min_ns}


async def _bytes_of(head: TraceWindow, parts: AsyncIterator[TraceWindow]) -> AsyncIterator[bytes]:
    yield head.part
    async for part in parts:
        yield part.part


async def _gzipped(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    async for part in content:
        if compressed := await asyncio.to_thread(compressor.compress, part):
            yield compressed
    yield compressor.flush()
