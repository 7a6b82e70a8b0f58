"""Turns for answers that take much memory or time while they are made."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.shares import Shares
from services.gateway.errors import TooManyWaiting

MOST_WAITING = 16
"""Answers of a kind that are made or wait for their turn, half of them at most for one person."""


class Turns:
    """Has answers of a kind made one after the other."""

    def __init__(self, kind: str) -> None:
        """Begin with none; `kind` is what waits, as a reader is told."""
        self._kind = kind
        self._turn = asyncio.Lock()
        self._waiting = Shares(MOST_WAITING)

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Wait for the turn of an answer for a `person` ('': the cluster's user).

        Raises TooManyWaiting.
        """
        if not self._waiting.has_room(person):
            raise TooManyWaiting(self._kind)
        with self._waiting.one_of(person):
            async with self._turn:
                yield
