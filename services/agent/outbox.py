"""Facts to the bus: batches several at once, outcomes after every batch is stored."""

import asyncio

from mlscope.bus.bus import Bus
from mlscope.bus.errors import StreamFull, Unreachable
from mlscope.bus.window import PublishWindow
from schemas.batch import Batch
from schemas.message import Fact

_WINDOW = 16
_PAUSE_S = 0.5


class BusSink:
    """The bus as a sink. A full stream or a lost server holds it back; nothing is given up."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._window = PublishWindow(bus, size=_WINDOW)

    @property
    def pending(self) -> int:
        """Return how many batches are on their way."""
        return self._window.pending

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> None:  # noqa: A002
        """Send a batch on its way once there is room."""
        await self._window.put(fact, id=id, cause=cause)

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Publish a fact after every batch before it is stored."""
        await self._window.drain()
        while True:
            try:
                await self._bus.publish(fact, id=id, cause=cause)
            except (StreamFull, Unreachable):
                await asyncio.sleep(_PAUSE_S)
            else:
                return

    async def close(self) -> None:
        """Give up on what is still on its way."""
        await self._window.abort()
