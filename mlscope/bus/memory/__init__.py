"""The bus in one process's memory: for tests and tools that need no server.

Owns: a server's state and the buses on it. Knows: no service, no network.
"""

from mlscope.bus.memory.bus import MemoryBus, connect
from mlscope.bus.memory.server import MemoryServer

__all__ = ["MemoryBus", "MemoryServer", "connect"]
