"""The publishing window: bounded, loud about what fails, patient with what passes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NotProvisioned
from mlscope.bus.window import PublishWindow
from mlscope.testing.memory_bus import MemoryServer, connect
from tests.contracts.facts import a_batch


@pytest.fixture
def server() -> MemoryServer:
    """Return an empty server."""
    return MemoryServer()


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    """Open a bus on that server."""
    async with connect(server, "agent", patience_s=0.01) as opened:
        yield opened


async def test_a_full_window_makes_who_puts_wait(server: MemoryServer, bus: Bus) -> None:
    window = PublishWindow(bus, size=2)
    server.stop()
    for n in range(2):
        await window.put(a_batch(n), id=str(n))
    third = asyncio.ensure_future(window.put(a_batch(2), id="2"))
    await asyncio.sleep(0.05)
    assert (window.pending, third.done()) == (2, False)
    server.start()
    await third
    await window.drain()
    assert window.pending == 0


async def test_putting_tells_the_sequence(bus: Bus) -> None:
    window = PublishWindow(bus)
    sending = [await window.put(a_batch(n), id=str(n)) for n in range(3)]
    assert sorted([await task for task in sending]) == [1, 2, 3]


async def test_what_fails_for_good_is_raised_by_the_next_call() -> None:
    bare = MemoryServer(streams=(), durables=())
    async with connect(bare, "agent") as bus:
        window = PublishWindow(bus, size=2)
        await window.put(a_batch(0), id="0")
        await asyncio.sleep(0.01)
        with pytest.raises(NotProvisioned):
            await window.put(a_batch(1), id="1")
        await window.put(a_batch(2), id="2")
        with pytest.raises(NotProvisioned):
            await window.drain()
        await window.drain()


async def test_aborting_says_how_many_were_given_up(server: MemoryServer, bus: Bus) -> None:
    window = PublishWindow(bus, size=4)
    server.stop()
    for n in range(3):
        await window.put(a_batch(n), id=str(n))
    assert await window.abort() == 3
    assert window.pending == 0
    await window.drain()
