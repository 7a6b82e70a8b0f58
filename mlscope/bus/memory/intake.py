"""Commands on their way to one answerer: the next waits while refusals have no room, as in NATS."""

import asyncio
from collections import deque

from mlscope.bus.answering import Answering, Respond
from mlscope.bus.bus import Asked


class Intake:
    """Hands commands on in order, at once for as long as there is room."""

    def __init__(self, answering: Answering) -> None:
        """Feed `answering`."""
        self._answering = answering
        self._waiting: deque[tuple[Asked, Respond | None]] = deque()
        self._room: asyncio.Task[None] | None = None

    def take(self, asked: Asked, respond: Respond | None) -> None:
        """Accept a command."""
        self._waiting.append((asked, respond))
        if self._room is None:
            self._hand_on()

    def _hand_on(self) -> None:
        while self._waiting:
            if not self._answering.take(*self._waiting.popleft()):
                self._room = asyncio.get_running_loop().create_task(self._answering.room())
                self._room.add_done_callback(self._resume)
                return

    def _resume(self, room: asyncio.Task[None]) -> None:
        self._room = None
        if not room.cancelled():
            self._hand_on()

    def close(self) -> None:
        """Let go of what waits."""
        self._waiting.clear()
        if self._room is not None:
            self._room.cancel()
