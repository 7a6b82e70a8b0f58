"""Both implementations of the bus, one after the other."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mlscope.bus.bus import Bus
from tests.contracts.worlds import MemoryWorld, NatsWorld, Shape, World, running_nats


@pytest.fixture(scope="session")
def nats_world() -> Iterator[NatsWorld]:
    """Run one nats-server for the session, without users."""
    with running_nats() as world:
        yield world


@pytest.fixture(params=["memory", "nats"])
async def world(request: pytest.FixtureRequest) -> World:
    """Make a provisioned, empty place for buses."""
    chosen: World = (
        MemoryWorld() if request.param == "memory" else request.getfixturevalue("nats_world")
    )
    await chosen.make(Shape())
    return chosen


@pytest.fixture
async def bus(world: World) -> AsyncIterator[Bus]:
    """Open a bus in that place."""
    async with world.connect() as opened:
        yield opened
