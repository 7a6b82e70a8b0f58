"""A run's timeline over the bus: its lanes, the spans of a window as Arrow, one span."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from itertools import islice

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for
from mlscope.client.errors import TraceChanged
from mlscope.tasks import end_tasks
from schemas.trace import ShowSpan, ShowTrace, ShowWindow, SpanDetails, TraceOverview, TraceWindow

_ANSWER_S = 120.0
"""The first answer about a long run has to wait until its spans are read."""
_AT_ONCE = 4


async def overview_of(
    bus: Bus, evaluation: str, run: str = "", *, waits: bool = True
) -> TraceOverview:
    """Ask over `bus` for the lanes of a `run` of `evaluation`, without a name the deepest one.

    Unless it `waits`, the answer may be how far the run is prepared. Raises CommandRefused,
    NotAnswering, Denied.
    """
    command = ShowTrace(evaluation=evaluation, run=run, waits=waits)
    return await ask_for(bus, command, TraceOverview, timeout_s=_ANSWER_S)


async def span_of(bus: Bus, evaluation: str, run: str, span: int) -> SpanDetails:
    """Ask over `bus` for one `span` of a `run` of `evaluation`.

    Raises CommandRefused, NotAnswering, Denied.
    """
    command = ShowSpan(evaluation=evaluation, run=run, span=span)
    return await ask_for(bus, command, SpanDetails, timeout_s=_ANSWER_S)


async def window_of(bus: Bus, request: ShowWindow) -> AsyncGenerator[TraceWindow, None]:
    """Yield the parts of the window that `request` describes, in order, as asked for over `bus`.

    Together they are one Arrow stream. Raises CommandRefused, NotAnswering, Denied, and
    TraceChanged where the trace was read again meanwhile.
    """

    async def part_at(offset: int) -> TraceWindow:
        command = request.model_copy(update={"offset": offset})
        return await ask_for(bus, command, TraceWindow, timeout_s=_ANSWER_S)

    first = await part_at(0)
    yield first
    size = len(first.part) or 1
    offsets = iter(range(size, first.total_bytes, size))
    waiting = deque(asyncio.ensure_future(part_at(offset)) for offset in islice(offsets, _AT_ONCE))
    try:
        while waiting:
            part = await waiting.popleft()
            if (part.digest, part.total_bytes) != (first.digest, first.total_bytes):
                raise TraceChanged(request.evaluation, request.run)
            yield part
            if (offset := next(offsets, None)) is not None:
                waiting.append(asyncio.ensure_future(part_at(offset)))
    finally:
        await end_tasks(waiting)
