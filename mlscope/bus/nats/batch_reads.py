"""How many batches of the log a connection reads at a time, and how large they are.

A server copies whatever a batched Direct Get asks for into a queue without a bound, also for a
client that no longer waits: 1,000 readers of 8 MiB each, repeated every two seconds, took 19 GB.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlscope.bus.errors import Unreachable

AT_ONCE = 4
LEAST_BYTES, MOST_BYTES = 64 * 1024, 8 * 1024 * 1024
_SHRINKS_BY, _GROWS_BY = 8, 2


class BatchReads:
    """Turns of reading; those of one connection share it."""

    def __init__(self) -> None:
        """Begin with the largest batches."""
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._bytes = MOST_BYTES

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """Wait for a turn and lend the number of bytes to ask for.

        A read that ends with Unreachable makes the next ones smaller, a success larger again.
        """
        async with self._turns:
            try:
                yield self._bytes
            except Unreachable:
                self._bytes = max(self._bytes // _SHRINKS_BY, LEAST_BYTES)
                raise
            self._bytes = min(self._bytes * _GROWS_BY, MOST_BYTES)
