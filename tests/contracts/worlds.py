"""Two places for buses: a nats-server and this process's memory. Tests see no difference."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from cli.cluster.processes import Command
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus import nats
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, ServerRefused
from mlscope.bus.nats.admin import Admin
from mlscope.bus.streams import (
    BUCKETS,
    DURABLES,
    LEASES,
    STORES,
    STREAMS,
    Bucket,
    Durable,
    Store,
    Stream,
)
from mlscope.testing import memory_bus as memory
from tests.places import lent_folder, state_of

LEASE_TTL_S = 1.0
STORE_NOT_MADE = 10049

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """What a test wants provisioned: sizes and times small enough to wait for."""

    max_bytes: int = 4 << 20
    stores_bytes: int = 32 << 20
    duplicate_window_s: float = 120.0
    ack_wait_s: float = 30.0

    def streams(self) -> list[Stream]:
        """Return the streams, bounded ones at the test's size."""
        window_s = self.duplicate_window_s
        return [
            replace(
                stream,
                max_bytes=self.max_bytes if stream.max_bytes > 0 else -1,
                duplicate_window_s=window_s,
            )
            for stream in STREAMS
        ]

    def durables(self) -> list[Durable]:
        """Return the durables."""
        return [replace(durable, ack_wait_s=self.ack_wait_s) for durable in DURABLES]

    def buckets(self) -> list[Bucket]:
        """Return the buckets, with short leases."""
        return [
            replace(each, ttl_s=LEASE_TTL_S) if each.name == LEASES else each for each in BUCKETS
        ]

    def stores(self) -> list[Store]:
        """Return the object stores at the test's size."""
        return [replace(each, max_bytes=self.stores_bytes) for each in STORES]


@dataclass(frozen=True)
class OpenSettings:
    """Settings of a connection that needs no key."""

    nats_url: str
    max_pending_requests: int = 1000
    tls_authority_file: Path | None = None
    broker_uid: int | None = None

    def nats_seed(self) -> str | None:
        """Return no key."""
        return None


class OpenServer(NatsServer):
    """A nats-server without users: the contract is about the bus, not about who may what."""

    def command(self) -> Command:
        """Write a configuration without accounts."""
        command = super().command()
        conf = self.folder / "nats.conf"
        conf.write_text(conf.read_text().split("accounts {")[0])
        return command


class World(Protocol):
    """A place where buses meet."""

    def connect(
        self, name: str = "tester", *, patience_s: float = 20.0, max_pending_requests: int = 1000
    ) -> AbstractAsyncContextManager[Bus]:
        """Open one more bus."""
        ...

    async def make(self, shape: Shape) -> None:
        """Provision anew, empty."""
        ...

    async def stop(self) -> None:
        """Take the server away, what it holds kept."""
        ...

    async def start(self) -> None:
        """Bring the server back."""
        ...


class MemoryWorld:
    """Buses on a memory server."""

    def __init__(self) -> None:
        self.server = memory.MemoryServer()

    def connect(
        self, name: str = "tester", *, patience_s: float = 20.0, max_pending_requests: int = 1000
    ) -> AbstractAsyncContextManager[Bus]:
        """Open one more bus."""
        return memory.connect(
            self.server, name, patience_s=patience_s, max_pending_requests=max_pending_requests
        )

    async def make(self, shape: Shape) -> None:
        """Begin anew, empty."""
        self.server = memory.MemoryServer(
            streams=shape.streams(),
            durables=shape.durables(),
            buckets=shape.buckets(),
            stores=shape.stores(),
        )

    async def stop(self) -> None:
        """Be unreachable."""
        self.server.stop()

    async def start(self) -> None:
        """Be reachable."""
        self.server.start()


class NatsWorld:
    """Buses on a nats-server of their own."""

    def __init__(self, folder: Path) -> None:
        self.server = OpenServer(folder)

    def connect(
        self, name: str = "tester", *, patience_s: float = 20.0, max_pending_requests: int = 1000
    ) -> AbstractAsyncContextManager[Bus]:
        """Open one more bus."""
        settings = OpenSettings(self.server.url, max_pending_requests)
        return nats.connect(settings, name, patience_s=patience_s)

    async def make(self, shape: Shape) -> None:
        """Delete every stream, then provision. A failure says what the server may have lacked."""
        admin = Admin(OpenSettings(self.server.url))
        await admin.open()
        try:
            for name in await admin.stream_names():
                await admin.delete_stream(name)
            await _make_all(admin, shape)
        except BusError as error:
            folder = self.server.folder
            error.add_note(state_of(folder, folder / "logs" / "nats.log"))
            raise
        finally:
            await admin.close()

    async def stop(self) -> None:
        """SIGKILL."""
        self.server.kill()

    async def start(self) -> None:
        """Start again on the same store; from this thread, with which the server would end."""
        self.server.start()


@contextmanager
def running_nats() -> Iterator[NatsWorld]:
    """Run a nats-server without users."""
    with lent_folder("open-nats") as folder:
        world = NatsWorld(folder)
        world.server.start()
        yield world
        world.server.stop()


async def _make_all(admin: Admin, shape: Shape) -> None:
    for stream in shape.streams():
        await _insist(admin.make_stream, stream)
    for durable in shape.durables():
        await admin.make_durable(durable)
    for bucket in shape.buckets():
        await _insist(admin.make_bucket, bucket)
    for store in shape.stores():
        await _insist(admin.make_store, store)


async def _insist(make: Callable[[T], Awaitable[None]], wanted: T) -> None:
    """Make something of a store of its own; a machine short of something for a moment may fail."""
    for pause_s in (0.2, 1.0, 3.0):
        try:
            return await make(wanted)
        except ServerRefused as error:
            if error.error != STORE_NOT_MADE:
                raise
        await asyncio.sleep(pause_s)
    return await make(wanted)
