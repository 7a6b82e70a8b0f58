"""Computes in a thread that the process does not wait for when it ends (I/O)."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_own_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `function` returns for its arguments, from a thread of its own.

    A computation that its caller has given up goes on. The threads of `asyncio.to_thread` are
    waited for when the loop ends; this one is not. Raises what `function` raises.
    """
    result: Future[T] = Future()
    # Now the future can't be cancelled: the thread may set it, whoever still waits.
    result.set_running_or_notify_cancel()

    def compute() -> None:
        try:
            result.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 (raised again where it is awaited)
            result.set_exception(error)

    threading.Thread(target=compute, name="analysis", daemon=True).start()
    return await asyncio.wrap_future(result)
