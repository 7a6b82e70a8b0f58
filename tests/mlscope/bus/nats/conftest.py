"""A nats-server without users that tests may kill, provisioned anew for each."""

from collections.abc import Iterator

import pytest

from tests.contracts.worlds import NatsWorld, Shape, running_nats


@pytest.fixture(scope="module")
def open_world() -> Iterator[NatsWorld]:
    """Run a server without users that tests may kill."""
    with running_nats() as world:
        yield world


@pytest.fixture
async def world(open_world: NatsWorld) -> NatsWorld:
    """Provision the server anew."""
    await open_world.make(Shape(max_bytes=64 << 20))
    return open_world
