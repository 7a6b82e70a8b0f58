"""A window of a trace in parts: in order, a few at once, and never of two traces."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.client.errors import CommandRefused, TraceChanged
from mlscope.client.timelines import overview_of, span_of, window_of
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import decode_body, encode_body
from schemas.request import Refused
from schemas.subjects import command_subject
from schemas.trace import ShowSpan, ShowTrace, ShowWindow, TraceOverview, TraceWindow
from tests.mlscope.client.answers import answering
from tests.stories import E

STREAM = bytes(range(100))
WINDOW = ShowWindow(evaluation=E, run="r0", from_ns=5, limit=9)


@pytest.fixture
async def analyzer(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "analyzer") as analyzer:
        yield analyzer


def part_of(stream: bytes, size: int) -> Callable[[ShowWindow], TraceWindow]:
    """Return what answers with `size` bytes of a `stream` from the offset on."""

    def answer(asked: ShowWindow) -> TraceWindow:
        return TraceWindow(
            evaluation=asked.evaluation,
            run=asked.run,
            spans=1,
            rows=1,
            min_ns=0,
            offset=asked.offset,
            total_bytes=len(stream),
            digest=f"d{len(stream)}",
            part=stream[asked.offset : asked.offset + size],
        )

    return answer


@pytest.mark.parametrize("size", [1, 7, 50, 100, 1000])
async def test_the_parts_in_their_order_are_the_stream(analyzer: Bus, bus: Bus, size: int) -> None:
    asked = await answering(analyzer, ShowWindow, part_of(STREAM, size))
    assert b"".join([part.part async for part in window_of(bus, WINDOW)]) == STREAM
    assert {command.model_copy(update={"offset": 0}) for command in asked} == {WINDOW}
    assert len(asked) == -(-len(STREAM) // size)


async def test_an_empty_stream_is_one_part(analyzer: Bus, bus: Bus) -> None:
    asked = await answering(analyzer, ShowWindow, part_of(b"", 10))
    assert [part.part async for part in window_of(bus, WINDOW)] == [b""]
    assert len(asked) == 1


async def test_parts_of_a_trace_that_grew_meanwhile_are_not_joined(analyzer: Bus, bus: Bus) -> None:
    def grows(asked: ShowWindow) -> TraceWindow:
        return part_of(STREAM if asked.offset < 30 else STREAM * 2, 10)(asked)

    await answering(analyzer, ShowWindow, grows)
    parts = []

    async def read() -> None:
        async for part in window_of(bus, WINDOW):
            parts.append(part.part)  # noqa: PERF401 (those before it fails)

    with pytest.raises(TraceChanged, match="spans of r0 were stored meanwhile; ask again"):
        await read()
    assert b"".join(parts) == STREAM[:30]


async def test_a_window_that_is_left_early_waits_for_no_further_part(
    analyzer: Bus, bus: Bus
) -> None:
    first, offsets = encode_body(part_of(STREAM, 1)(WINDOW)), list[int]()

    async def answer_first(command: ReceivedCommand) -> bytes:
        offsets.append(decode_body(ShowWindow, command.body).offset)
        return first if offsets[-1] == 0 else await asyncio.Future()

    await analyzer.answer(command_subject(ShowWindow), answer_first, queue=None)
    parts = window_of(bus, WINDOW)
    await anext(parts)
    reading = asyncio.ensure_future(anext(parts))
    while len(offsets) < 5:  # noqa: ASYNC110
        await asyncio.sleep(0)
    reading.cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(reading, return_exceptions=True)
    assert offsets == [0, 1, 2, 3, 4]


async def test_an_overview_and_a_span_are_asked_for_by_run(analyzer: Bus, bus: Bus) -> None:
    overviews = await answering(
        analyzer, ShowTrace, lambda asked: TraceOverview(evaluation=E, run=asked.run, attempt=1)
    )
    refused = Refused(error="unknown", message="no span 7", field="span")
    spans = await answering(analyzer, ShowSpan, lambda _: refused)
    assert (await overview_of(bus, E, "r0", waits=False)).run == "r0"
    with pytest.raises(CommandRefused, match="no span 7"):
        await span_of(bus, E, "r0", 7)
    assert overviews == [ShowTrace(evaluation=E, run="r0", waits=False)]
    assert spans == [ShowSpan(evaluation=E, run="r0", span=7)]
