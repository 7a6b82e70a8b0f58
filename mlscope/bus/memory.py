"""The bus in memory at its place of release 0.1, now `mlscope.testing`. Release 0.3 drops it."""

from mlscope.testing.memory_bus import MemoryBus, MemoryServer, connect

__all__ = ["MemoryBus", "MemoryServer", "connect"]
