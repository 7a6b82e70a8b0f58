"""The bus over a NATS server with JetStream (2.12 or newer).

Owns: one connection a service, and everything that knows NATS. Knows: no service.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.bus import Bus
from mlscope.bus.nats.bus import NatsBus
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.settings import NatsSettings

__all__ = ["NatsBus", "NatsSettings", "connect"]


@asynccontextmanager
async def connect(
    settings: NatsSettings,
    name: str,
    *,
    timeout_s: float = 30.0,
    patience_s: float = 60.0,
    inbox: str = "",
) -> AsyncIterator[Bus]:
    """Open the bus under a service's name and close it in the end. Raises Unreachable.

    `name` is that of the key, of `permissions.PERMISSIONS`. `timeout_s` bounds the wait for a
    server now, `patience_s` that of every later call for one that is lost. `inbox` narrows where
    answers come, for a key that hears only part of what its name may (`permissions.agent_inbox`).
    """
    connection = Connection(settings, name, patience_s=patience_s, inbox=inbox)
    await connection.open(timeout_s)
    bus: Bus = NatsBus(connection)
    try:
        yield bus
    finally:
        await bus.close()
