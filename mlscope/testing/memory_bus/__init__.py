"""The bus in the memory of one process, for tests and tools that need no server.

Public: `MemoryServer`, `MemoryBus`, `connect`. Owns: a server's state and the buses on it.
Knows: no service, no network. `mlscope.testing` shows how a test uses it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus.bus import MemoryBus
from mlscope.testing.memory_bus.server import MemoryServer

__all__ = ["MemoryBus", "MemoryServer", "connect"]


@asynccontextmanager
async def connect(
    server: MemoryServer,
    name: str,
    *,
    max_pending_requests: int = 1000,
    patience_s: float = 60.0,
) -> AsyncGenerator[Bus, None]:
    """Open the bus of the service `name` on a memory server and close it on exit.

    `max_pending_requests` bounds the commands that wait before further ones are refused as busy;
    `patience_s` bounds the wait of a call while the server is stopped.
    """
    bus: Bus = MemoryBus(
        server, name, max_pending_requests=max_pending_requests, patience_s=patience_s
    )
    try:
        yield bus
    finally:
        await bus.close()
