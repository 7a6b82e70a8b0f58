"""Tasks and processes that end with what started them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel `tasks` and return once all of them have ended, however they do."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the context is open."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end_tasks([task])


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process if it still runs, and return once it has ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()
