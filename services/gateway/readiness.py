"""Whether this gateway hears a question to itself over the bus, as its health check asks (I/O)."""

import asyncio
import time

from mlscope.bus.access.rights import ping
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError

_ANSWER_WITHIN_S = 2.0
_FRESH_S = 1.0


class Readiness:
    """Asks once for all who want to know at the same time, and at most once a second."""

    def __init__(self, bus: Bus) -> None:
        """Ask over `bus`, once `instance` is set: the gateway's own in service discovery."""
        self.instance = ""
        self._bus = bus
        self._turn = asyncio.Lock()
        self._asked_s = -_FRESH_S
        self._is_ready = False

    async def is_ready(self) -> bool:
        """Tell whether an answer came over the bus within a bound."""
        async with self._turn:
            if self.instance and time.monotonic() - self._asked_s >= _FRESH_S:
                subject = ping("gateway", self.instance)
                try:
                    await self._bus.ask(subject, b"", timeout_s=_ANSWER_WITHIN_S)
                    self._is_ready = True
                except BusError:
                    self._is_ready = False
                self._asked_s = time.monotonic()
        return self._is_ready
