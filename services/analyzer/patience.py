"""How long the database is waited for, and rows that it lacks (I/O)."""

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from services.analyzer.errors import CountMissing, DatabaseAway

_log = logging.getLogger(__name__)
_MOST_DELAY_S = 5.0
_COUNT_DELAYS_S = (0.05, 0.1, 0.2, 0.4, 0.8)
_FIRST_ROWS_DELAY_S, _MOST_ROWS_DELAY_S = 2.0, 60.0
TRIES_FOR_ROWS = 35
"""How often rows are looked for that a restored database lacks: for half an hour in all.

Until then the collector has read full streams, which have up to 6 GiB, and stored what they have.
"""

P = ParamSpec("P")
T = TypeVar("T")


async def until_available(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `act`, which uses the database, with its arguments in a thread until it answers."""
    delay_s = 0.1
    while True:
        try:
            return await asyncio.to_thread(act, *args, **kwargs)
        except DatabaseAway as error:
            _log.warning("the database does not answer, retrying in %.1f s: %s", delay_s, error)
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, _MOST_DELAY_S)


async def until_counted(read: Callable[..., T], *args: object) -> T:
    """Call `read` as `until_available` does, a few times within 1.6 s while a count is missing.

    The last time it need not wait for counts (`awaits_counts`) that the collector may never note.
    Raises CountMissing where one is sure to come.
    """
    for delay_s in _COUNT_DELAYS_S:
        try:
            return await until_available(read, *args)
        except CountMissing:
            await asyncio.sleep(delay_s)
    return await until_available(read, *args, awaits_counts=False)


def rows_delay_s(tries: int) -> float:
    """Return how long rows that a database lacks are waited for after so many `tries`, from 1."""
    return min(_FIRST_ROWS_DELAY_S * 2.0 ** min(tries - 1, 16), _MOST_ROWS_DELAY_S)
