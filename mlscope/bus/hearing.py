"""Live messages on their way to one reader: bounded, the oldest lost first, and counted."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

Subscribe = Callable[["Hearing"], Awaitable[Callable[[], Awaitable[None]]]]
"""Starts the flow into a hearing and returns what ends it."""


class Hearing:
    """An endless iterator of (subject, body); `dropped` counts what a slow reader lost.

    It listens from the first `ready()` or `anext` on; `aclose` ends it.
    """

    def __init__(self, subscribe: Subscribe, *, limit: int = 10_000) -> None:
        """Keep at most `limit` messages nobody read yet."""
        self.dropped = 0
        self._subscribe = subscribe
        self._end: Callable[[], Awaitable[None]] | None = None
        self._limit = limit
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._event = asyncio.Event()
        self._is_closed = False

    async def ready(self) -> Self:
        """Return once messages sent from now on are heard."""
        if self._end is None and not self._is_closed:
            self._end = await self._subscribe(self)
        return self

    def take(self, subject: str, body: bytes) -> None:
        """Accept a message."""
        if len(self._waiting) >= self._limit:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append((subject, body))
        self._event.set()

    def stop(self) -> None:
        """End after what is already here."""
        self._is_closed = True
        self._event.set()

    async def aclose(self) -> None:
        """Stop listening."""
        self.stop()
        self._waiting.clear()
        if self._end is not None:
            end, self._end = self._end, None
            await end()

    def __aiter__(self) -> Self:
        """Return the messages from the first not read yet."""
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        """Return the next subject and body, waiting for it."""
        await self.ready()
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._event.clear()
            await self._event.wait()
        return self._waiting.popleft()
