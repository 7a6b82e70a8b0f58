"""nats-py's client, which leaves no socket open behind a try to connect that failed."""

from typing import Any

from nats.aio.client import Client, Srv


class TidyClient(Client):
    """A client that closes the socket of its last try before it opens the next.

    nats-py (2.16) forgets the open socket of a server that took the connection and then died
    before it had greeted, as one that is starting or being killed may.
    """

    async def _connect_to_server(self, s: Srv) -> None:
        last: Any = self._transport
        if last:
            last.close()
        await super()._connect_to_server(s)
