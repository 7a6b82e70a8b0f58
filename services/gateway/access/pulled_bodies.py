"""HTTP connections whose bodies are read as the application asks for them (I/O).

uvicorn reads a body before anybody has decided about its request, and all of it once that is
refused.
"""

import asyncio
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from services.gateway.access.http_reading import BoundedReading
from services.gateway.access.lingering import LingeringTransport


class PullingProtocol(H11Protocol):
    """uvicorn's protocol of one connection, which reads within the bounds of `BoundedReading`.

    An answer that comes before the whole of the body ends the connection.
    """

    conn: BoundedReading
    transport: LingeringTransport

    def __init__(self, config: Config, state: ServerState, app_state: dict[str, Any]) -> None:
        """Serve the application of `config`; `state` and `app_state` are the server's."""
        super().__init__(config, state, app_state)
        self.conn = BoundedReading()
        self._app = self.app
        self.app = self._serve

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(LingeringTransport(transport, self._give_up))

    def data_received(self, data: bytes) -> None:
        """Read what arrived, unless the connection is about to end."""
        if self.transport.is_lingering:
            self.transport.discard(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that its client has left."""
        self.transport.forget()
        super().connection_lost(exc)

    def read_on(self) -> None:
        """Read the next part of the body, from what has arrived or else arrives next."""
        self.conn.ask()
        self.handle_events()

    def shutdown(self) -> None:
        """End the connection once its request is answered; one that only lingers ends at once."""
        if self.transport.is_lingering:
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, as `msg` says, or passes a bound; then end the connection."""
        if self.transport.is_closing():
            return
        status, reason = self.conn.refusal or (400, msg)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = reason.encode() + b"\n"
            phrase = STATUS_PHRASES[status].decode()
            head = (
                f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _give_up(self) -> bool:
        """Return whether the client may be sending yet, of what is answered: it is forgotten."""
        is_refused = self.conn.refusal is not None or self.conn.their_state is h11.ERROR
        self.conn.drop()
        return is_refused or self.conn.awaits_body

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer a request."""
        cycle = self.cycle

        async def receive_next() -> Message:
            if self.conn.holds_data:
                # What is there is read a part at a time: others have their turn in between.
                await asyncio.sleep(0)
            if self.conn.awaits_body and cycle is self.cycle and not self.transport.is_closing():
                self.read_on()
            message = await receive()
            # The next request's head may be there, for which nobody would read on.
            is_own = self.conn.awaits_body and cycle is self.cycle
            if is_own and self.conn.holds_data and not self.transport.is_closing():
                self.flow.pause_reading()
            return message

        async def send_and_end(message: Message) -> None:
            if message["type"] == "http.response.start" and self.conn.awaits_body:
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive_next, send_and_end)
        except ClientDisconnect:
            # Nobody is there to be answered, and nothing has failed.
            if not cycle.disconnected:
                raise
