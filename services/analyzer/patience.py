"""Calls what uses the database again until the database answers (I/O)."""

import asyncio
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from services.analyzer.errors import DatabaseAway

_log = logging.getLogger(__name__)
_MOST_DELAY_S = 5.0

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
