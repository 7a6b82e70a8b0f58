"""A connection that ends before its client has sent all: what still comes is read by nobody (I/O).

To close at once would reset the connection, and a client that is still sending would never see its
answer; to read on would have anybody keep the gateway busy with a request that is refused.
"""

import asyncio
from collections.abc import Callable
from typing import Any

REST_S = 10.0
"""The longest that a client may take to end, once it has its answer."""

REST_BYTES = 16 << 20
"""What it may send meanwhile, for programs that look for an answer only once all is sent."""

LAST_S = 1.0
"""How long a client that sends more is left to find its answer."""


class LingeringTransport(asyncio.Transport):
    """A transport that, closed before all was read, waits a little for its client."""

    def __init__(self, transport: asyncio.Transport, give_up: Callable[[], bool]) -> None:
        """Close `transport` at once, unless `give_up` says that the client has yet to send.

        It is called when the connection is closed, and may forget what came.
        """
        super().__init__()
        self._transport = transport
        self._give_up = give_up
        self._rest_bytes = REST_BYTES
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_lingering(self) -> bool:
        """Whether it is closed for all but its client, which may not have seen the answer."""
        return self._end is not None

    def close(self) -> None:
        """Close it once what was written is sent, and the client had time to take it."""
        if self.is_closing():
            return
        if not self._give_up():
            self._transport.close()
            return
        self._abort_in(REST_S)
        # Over TLS the answer itself has to say where it ends.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def discard(self, data: bytes) -> None:
        """Forget `data` that came after the answer."""
        if self._rest_bytes > 0:
            self._rest_bytes -= len(data)
            if self._rest_bytes <= 0:
                self._transport.pause_reading()
                self._abort_in(LAST_S)

    def forget(self) -> None:
        """Await nothing more: the connection is lost."""
        if self._end is not None:
            self._end.cancel()

    def is_closing(self) -> bool:
        """Return whether it is closed, or lingers."""
        return self.is_lingering or self._transport.is_closing()

    def abort(self) -> None:
        """End it at once."""
        self._transport.abort()

    def write(self, data: Any) -> None:
        """Send `data`."""
        self._transport.write(data)

    def pause_reading(self) -> None:
        """Take nothing more in, until it is resumed."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on to take in what comes."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection by `name`, else the `default`."""
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another `protocol`."""
        self._transport.set_protocol(protocol)

    def _abort_in(self, delay_s: float) -> None:
        self.forget()
        self._end = asyncio.get_running_loop().call_later(delay_s, self._transport.abort)
