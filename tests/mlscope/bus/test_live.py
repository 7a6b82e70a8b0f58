"""Live messages on their way to a slow reader."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mlscope.bus.live import LiveMessages


async def _nobody(_: LiveMessages) -> Callable[[], Awaitable[None]]:
    async def end() -> None:
        return

    return end


async def test_a_slow_reader_loses_the_oldest_and_knows_how_many() -> None:
    hearing = LiveMessages(_nobody, limit=3)
    for n in range(5):
        hearing.accept(str(n), b"")
    assert hearing.dropped == 2
    assert [(await anext(hearing))[0] for _ in range(3)] == ["2", "3", "4"]


async def test_what_is_here_is_read_before_the_end() -> None:
    hearing = LiveMessages(_nobody)
    hearing.accept("a", b"1")
    hearing.stop()
    assert [pair async for pair in hearing] == [("a", b"1")]


async def test_a_waiting_reader_is_woken_by_the_end() -> None:
    hearing = LiveMessages(_nobody)
    waiting = asyncio.ensure_future(anext(hearing))
    await asyncio.sleep(0)
    await hearing.aclose()
    with pytest.raises(StopAsyncIteration):
        await waiting
