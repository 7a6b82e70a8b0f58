"""A nats-server without users that tests may kill, provisioned anew for each."""

from collections.abc import Iterator

import pytest

from tests.contracts.worlds import NatsWorld, Shape
from tests.places import lent_folder


@pytest.fixture(scope="module")
def open_world() -> Iterator[NatsWorld]:
    """Run a server without users that tests may kill."""
    with lent_folder("open-nats") as folder:
        world = NatsWorld(folder)
        world.server.start()
        yield world
        world.server.stop()


@pytest.fixture
async def world(open_world: NatsWorld) -> NatsWorld:
    """Provision the server anew."""
    await open_world.make(Shape(max_bytes=64 << 20))
    return open_world
