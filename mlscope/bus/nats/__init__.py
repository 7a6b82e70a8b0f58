"""The bus over a NATS server with JetStream (2.12 or newer): everything that knows NATS.

Two clients, and a question, because a load issuer must not share its thread with an event loop:

- `connect`: the bus of a service (`NatsBus`), asynchronous, on the library nats-py.
- `dial`: one blocking connection for an issuer of load. It returns a `BrokerSocket` and the
  `Parser` of the frames received on it; `publication` and `subscription` return the bytes to send.
  It speaks the NATS protocol itself, on the standard library alone.
- `is_answered`: one blocking question on a connection of its own, for health checks.

Knows: no service. Only the names below are public; the modules of this package are internal to it,
except for `connection`, `log`, `settings` and `admin`, on which `mlscope.assets` and
`mlscope.provision` build.
"""

from typing import TYPE_CHECKING, Any

from mlscope.bus.nats.asking import is_answered
from mlscope.bus.nats.broker_socket import CHUNK_BYTES, BrokerSocket
from mlscope.bus.nats.dialing import ClientRefused, dial
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.wire import PING, PONG, Frame, Parser, publication, subscription

if TYPE_CHECKING:
    from mlscope.bus.nats.bus import NatsBus, connect

__all__ = [
    "CHUNK_BYTES",
    "PING",
    "PONG",
    "BrokerSocket",
    "ClientRefused",
    "Frame",
    "NatsBus",
    "NatsSettings",
    "Parser",
    "connect",
    "dial",
    "is_answered",
    "publication",
    "subscription",
]


def __getattr__(name: str) -> Any:
    """Load the asynchronous client on first use: an issuer of load starts without it."""
    if name not in ("NatsBus", "connect"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import mlscope.bus.nats.bus

    return getattr(mlscope.bus.nats.bus, name)
