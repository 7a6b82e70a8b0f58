"""Holds a delivery during long work, so that the server does not redeliver it meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Delivery
from mlscope.bus.errors import BusError
from mlscope.tasks import background_task

_log = logging.getLogger(__name__)


@asynccontextmanager
async def reporting_progress(delivery: Delivery, every_s: float) -> AsyncIterator[None]:
    """Extend the delivery's time every `every_s` seconds while inside the context.

    A third of the durable's `ack_wait_s` is a good interval.
    """

    async def report() -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await delivery.in_progress()
            except BusError as error:
                # The next report may arrive; without one the server would redeliver the fact.
                _log.info("progress not reported: %s", error)

    async with background_task(report()):
        yield
