"""Services that tests start answer once they are ready."""

import asyncio
import contextlib

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer


async def until_answering(bus: Bus, service: str) -> None:
    """Wait until a service answers a ping."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NoAnswer):
                await bus.ask(f"$SRV.PING.{service}", b"", timeout_s=0.2)
                return
            await asyncio.sleep(0.01)
