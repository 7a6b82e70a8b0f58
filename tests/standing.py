"""Fixtures that clients' tests share: a memory bus, and stand-ins for the services on it.

A conftest takes them by importing their names.
"""

from collections.abc import AsyncIterator

import pytest

from mlscope.testing.memory_bus import MemoryServer
from tests.stand_ins import StandIns, stand_ins


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def standing(server: MemoryServer) -> AsyncIterator[StandIns]:
    async with stand_ins(server) as standing:
        yield standing
