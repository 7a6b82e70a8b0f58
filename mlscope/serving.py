"""The loops of a service, run together until the service is told to stop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def run_until_stopped(
    stop: asyncio.Event,
    *loops: Coroutine[Any, Any, None],
    before_cancel: Callable[[], object] | None = None,
) -> None:
    """Run `loops` until `stop` is set or one of them ends, then cancel and await the others.

    `before_cancel` is called once before they are cancelled. Raises what a loop raised that ended
    by itself.
    """
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(loop) for loop in loops]
    tasks.append(asyncio.create_task(stop.wait()))
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        if before_cancel is not None:
            before_cancel()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
