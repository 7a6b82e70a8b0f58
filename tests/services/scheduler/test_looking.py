"""Looking at many evaluations leaves the event loop to others."""

import asyncio

from mlscope.testing.memory_bus import MemoryServer, connect
from services.scheduler.placement.fleet import Limits
from services.scheduler.service import Scheduler
from tests.services.scheduler.worlds import quick


async def test_others_go_on_between_two_looks() -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with connect(MemoryServer(), "scheduler") as bus:
        scheduler = Scheduler(bus, quick(), Limits())
        going = asyncio.create_task(go_on())
        await scheduler.advance_each([f"unknown{number}" for number in range(50)])
        going.cancel()
    assert turns >= 40
