"""nats-py's client, changed in how it takes failed attempts, rejections and plain text."""

import logging
from typing import Any

from nats.aio.client import Client, Srv
from nats.errors import AuthorizationError, Error
from nats.protocol.parser import AUTHORIZATION_VIOLATION

from mlscope.peers import foreign_user, wrong_user


def is_of_use(record: logging.LogRecord) -> bool:
    """Tell whether a record of asyncio is not the one about each TLS connection that ends.

    nats-py (2.16) makes a plain reader of asyncio and gives it a TLS transport afterwards: asyncio
    warns of it at every end of a connection.
    """
    return not str(record.msg).startswith("returning true from eof_received()")


class TidyClient(Client):
    """A client that ends its last attempt, tries again after a rejection, and keeps to TLS.

    nats-py (2.16) loses the open socket of a server that accepts the connection and dies before it
    sends its greeting, as a server that is starting or being killed may. Over TLS it forgets the
    socket of a server that rejects its key and does not end the connection before the next attempt.
    It closes for good when a server ends an open connection because of its key, which another
    server may still take. And it goes on in plain text if a `tls://` server's greeting, which comes
    before TLS, does not ask for TLS: whoever is between the two could leave that out. Nor does it
    mind which user of this machine answers on loopback.
    """

    async def _connect_to_server(self, s: Srv) -> None:
        self.drop_socket()
        await super()._connect_to_server(s)

    def drop_socket(self) -> None:
        """Close the socket at once; over TLS, `close` waits until the server ends its side, too."""
        transport: Any = self._transport
        if transport:
            transport.close()
            transport._bare_io_writer.transport.abort()  # noqa: SLF001 (no other way to it)

    #: the user id that a broker on loopback has; None: anybody may answer
    broker_uid: int | None = None

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        server: Any = self._current_server
        if initial_connection:
            self._expect_own_broker()
        if initial_connection and server.uri.scheme == "tls" and not info.get("tls_required"):
            raise Error("the server does not use TLS, as its address demands")
        await super()._process_info(info, initial_connection)

    def _expect_own_broker(self) -> None:
        transport: Any = self._transport
        ends = [
            transport._bare_io_writer.get_extra_info(name)[:2]  # noqa: SLF001 (no other way to it)
            for name in ("sockname", "peername")
        ]
        user = foreign_user(ends[0], ends[1], self.broker_uid)
        if user is not None:
            raise Error(wrong_user(user))

    async def _process_err(self, err_msg: str) -> None:
        if AUTHORIZATION_VIOLATION in err_msg:
            await self._process_op_err(AuthorizationError())
        else:
            await super()._process_err(err_msg)
