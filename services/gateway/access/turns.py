"""Turns for answers that take much memory or time while they are made."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.gateway.errors import TooManyWaiting

MOST_WAITING = 16
"""Answers of a kind that are made or wait for their turn, half of them at most for one person."""


class Turns:
    """Has answers of a kind made one after the other."""

    def __init__(self, kind: str) -> None:
        """Begin with none; `kind` is what waits, as a reader is told."""
        self._kind = kind
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Wait for the turn of an answer for a `person` ('': the cluster's user).

        Raises TooManyWaiting.
        """
        is_full = self._waiting.total() >= MOST_WAITING
        if is_full or (person and 2 * self._waiting[person] >= MOST_WAITING):
            raise TooManyWaiting(self._kind)
        self._waiting[person] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= Counter([person])
