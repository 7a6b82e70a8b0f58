"""Live messages for one reader, in a bounded buffer that drops and counts the oldest."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

Subscribe = Callable[["LiveMessages"], Awaitable[Callable[[], Awaitable[None]]]]
"""Subscribes the given messages and returns the coroutine function that unsubscribes them."""


class LiveMessages:
    """An endless iterator of (subject, body); `dropped` counts the messages a slow reader lost.

    The first `ready()` or `anext` subscribes; `aclose` unsubscribes.
    """

    def __init__(self, subscribe: Subscribe, *, limit: int = 10_000) -> None:
        """Buffer at most `limit` unread messages of what `subscribe` subscribes to."""
        self.dropped = 0
        self._subscribe = subscribe
        self._end: Callable[[], Awaitable[None]] | None = None
        self._limit = limit
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._event = asyncio.Event()
        self._is_closed = False

    async def ready(self) -> Self:
        """Return once the subscription is in place: messages sent from now on are received."""
        if self._end is None and not self._is_closed:
            self._end = await self._subscribe(self)
        return self

    def accept(self, subject: str, body: bytes) -> None:
        """Buffer a message; drop the oldest when the buffer is full."""
        if len(self._waiting) >= self._limit:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append((subject, body))
        self._event.set()

    def stop(self) -> None:
        """End the iteration after the messages already buffered."""
        self._is_closed = True
        self._event.set()

    async def aclose(self) -> None:
        """Unsubscribe and drop the buffered messages."""
        self.stop()
        self._waiting.clear()
        if self._end is not None:
            end, self._end = self._end, None
            await end()

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        """Wait for the next message and return its subject and body."""
        await self.ready()
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._event.clear()
            await self._event.wait()
        return self._waiting.popleft()
