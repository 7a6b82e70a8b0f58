"""A computation that was given up keeps nobody waiting."""

import asyncio
import threading
import time

import pytest

from services.analyzer.own_thread import in_own_thread


def test_the_end_of_the_loop_does_not_wait_for_what_was_given_up() -> None:
    may_end = threading.Event()

    async def give_up() -> None:
        async with asyncio.timeout(0.05):
            await in_own_thread(may_end.wait, 20)

    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert time.monotonic() - began_s < 10
    may_end.set()


async def test_results_and_errors_come_to_who_waits() -> None:
    assert await in_own_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(divmod, 7, 0)
