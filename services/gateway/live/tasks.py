"""Tasks that last as long as a context."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

NO_BROKER = "The message broker does not answer; `mlscope status` shows which services run"
"""What streams say of themselves while nothing can come."""


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the context is open."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
