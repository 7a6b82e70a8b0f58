"""Received commands on their way to a queue: they wait while it has no room, as with NATS."""

import asyncio
from collections import deque

from mlscope.bus.command_queue import CommandQueue, Respond
from mlscope.bus.records import ReceivedCommand


class Intake:
    """Passes commands on in order, at once while there is room."""

    def __init__(self, commands: CommandQueue) -> None:
        """Pass on to the queue `commands`."""
        self._commands = commands
        self._waiting: deque[tuple[ReceivedCommand, Respond | None]] = deque()
        self._room: asyncio.Task[None] | None = None  # waits for room in the queue

    def take(self, command: ReceivedCommand, respond: Respond | None) -> None:
        """Accept a command; `respond` is None when the sender expects no answer."""
        self._waiting.append((command, respond))
        if self._room is None:
            self._pass_on()

    def _pass_on(self) -> None:
        def resume(room: asyncio.Task[None]) -> None:
            self._room = None
            if not room.cancelled():
                self._pass_on()

        while self._waiting:
            if not self._commands.accept(*self._waiting.popleft()):
                self._room = asyncio.get_running_loop().create_task(self._commands.wait_for_room())
                self._room.add_done_callback(resume)
                return

    def close(self) -> None:
        """Drop the waiting commands."""
        self._waiting.clear()
        if self._room is not None:
            self._room.cancel()
