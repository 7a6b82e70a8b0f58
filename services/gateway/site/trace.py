"""The page of a trace: one run of an evaluation on a timeline, or its longest spans as tables."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from mlscope.bus.bus import Bus
from mlscope.client.errors import ClientError
from mlscope.client.timelines import overview_of, window_of
from schemas.trace import ShowWindow
from services.gateway.arrow_columns import columns_of
from services.gateway.bus_requests import status_of
from services.gateway.pages.trace import LONG_COLUMNS, LevelSpans, longest_by_level, trace_view
from services.gateway.parameters.request_values import bus_of, evaluation_of
from services.gateway.rendering import rendered
from services.gateway.responses import refused_by

_MOST_ROWS = 4000
"""Rows asked for: where a run has more spans, the short ones come summed up and are left out."""


async def trace(request: Request) -> Response:
    """GET /evaluations/{id}/trace: the run that `run` names, else the one with most spans.

    With `form=table` tables of its longest spans take the place of the timeline.
    """
    status = await status_of(bus_of(request), evaluation_of(request))
    view = trace_view(status, request.query_params.get("run", ""))
    if request.query_params.get("form") == "table" and view.run is not None:
        try:
            levels = await longest_of(bus_of(request), status.evaluation, view.run.run)
            view = view.with_levels(levels)
        except ClientError as error:
            view = view.with_levels((), refused_by(error).message)
    return rendered(request, view)


async def longest_of(bus: Bus, evaluation: str, run: str) -> Sequence[LevelSpans]:
    """Return the longest spans of a `run` of `evaluation` by level, asked for over `bus`.

    Raises CommandRefused, NotAnswering, Denied, TraceChanged.
    """
    overview = await overview_of(bus, evaluation, run)
    command = ShowWindow(evaluation=evaluation, run=run, limit=_MOST_ROWS, columns=LONG_COLUMNS)
    async with aclosing(window_of(bus, command)) as parts:
        stream = b"".join([part.part async for part in parts])
    columns = await asyncio.to_thread(columns_of, stream)
    return longest_by_level(overview.lanes, columns)
