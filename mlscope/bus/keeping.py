"""Keeping a delivery through long work: the durable must not take it as lost meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Delivery
from mlscope.bus.errors import BusError

_log = logging.getLogger(__name__)


@asynccontextmanager
async def keeping(delivery: Delivery, every_s: float) -> AsyncIterator[None]:
    """Ask for more time every `every_s` while inside; a third of the durable's ack wait is good."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await delivery.working()
            except BusError as error:
                # The next one may be heard: to stop asking would give the delivery away.
                _log.info("not heard: %s", error)

    task = asyncio.get_running_loop().create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
