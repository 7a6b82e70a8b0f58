"""Turns for answers that take up to a gigabyte of the gateway's memory while they are made."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.gateway.errors import TooManyLargeAnswers

MOST_WAITING = 16
"""Large answers that are made or wait for their turn, half of them at most for one person."""


class LargeAnswers:
    """Has large answers made one after the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        """Wait for the turn of an answer for a `person` ('': the cluster's user).

        Raises TooManyLargeAnswers.
        """
        is_full = self._waiting.total() >= MOST_WAITING
        if is_full or (person and 2 * self._waiting[person] >= MOST_WAITING):
            raise TooManyLargeAnswers
        self._waiting[person] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= Counter([person])
