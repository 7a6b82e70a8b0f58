"""What tests of states share: gateways that they start themselves, and the banner's button."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page

from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from services.gateway.service import serve


@asynccontextmanager
async def gateway(server: MemoryServer, port: int) -> AsyncIterator[str]:
    """Serve at `port` with the settings that a user has; yield the address."""
    stop = asyncio.Event()
    async with connect(server, "gateway") as bus:
        serving = asyncio.create_task(serve(bus, Settings(gateway_port=port), stop))
        await asyncio.sleep(0.1)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            stop.set()
            await serving


async def try_now(page: Page) -> None:
    """Press the banner's button, unless the page is live again by itself."""
    await page.evaluate("document.querySelector('#connection button')?.click()")
