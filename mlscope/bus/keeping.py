"""Keeping a delivery through long work: the durable must not take it as lost meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Delivery


@asynccontextmanager
async def keeping(delivery: Delivery, every_s: float) -> AsyncIterator[None]:
    """Ask for more time every `every_s` while inside; a third of the durable's ack wait is good."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(every_s)
            await delivery.working()

    task = asyncio.get_running_loop().create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
