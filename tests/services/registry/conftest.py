"""The registry's connection to a bus in memory."""

from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "registry") as opened:
        yield opened
