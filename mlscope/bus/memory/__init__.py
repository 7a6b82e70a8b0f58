"""The bus in one process's memory: for tests and tools that need no server.

Owns: a server's state and the buses on it. Knows: no service, no network.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Bus
from mlscope.bus.memory.bus import MemoryBus
from mlscope.bus.memory.server import MemoryServer

__all__ = ["MemoryBus", "MemoryServer", "connect"]


@asynccontextmanager
async def connect(
    server: MemoryServer,
    name: str,
    *,
    max_pending_requests: int = 1000,
    patience_s: float = 60.0,
) -> AsyncGenerator[Bus, None]:
    """Open a bus on a memory server and close it in the end."""
    bus: Bus = MemoryBus(
        server, name, max_pending_requests=max_pending_requests, patience_s=patience_s
    )
    try:
        yield bus
    finally:
        await bus.close()
