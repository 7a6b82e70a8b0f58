"""Whether one client of a live stream has news: what waits, and what ends the wait."""

import asyncio


class WakeSignal:
    """Set by whoever has something for the client; one stream waits for it."""

    def __init__(self) -> None:
        """Begin without news."""
        self._event = asyncio.Event()

    def wake(self) -> None:
        """End the wait: there is news, or the stream is to look whether it should end."""
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Tell whether there is news within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
