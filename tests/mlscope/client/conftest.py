"""A requester on a memory bus, and stand-ins for the services it asks."""

from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient
from mlscope.testing.memory_bus import MemoryServer, connect
from tests.stand_ins import StandIns
from tests.standing import server, standing

__all__ = ["server", "standing"]


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "requester") as bus:
        yield bus


@pytest.fixture
async def client(bus: Bus, standing: StandIns) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=bus) as client:
        yield client
