"""A bound on the time in which a scenario of another package makes a load (a thread, a clock)."""

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from mlscope.load.errors import LoadTooSlow
from mlscope.load.scenarios import BUILT_IN

MAKING_S = 15.0
"""How long one load may take: 10 million queries of a built-in scenario take 1 s."""

T = TypeVar("T")


def in_time(scenario: str, make: Callable[[], T], within_s: float = MAKING_S) -> T:
    """Return what `make` returns, or raise what it raises: it makes loads of a `scenario`.

    A scenario of another package may never return. It is called in a thread of its own, and given
    up after `within_s`. Not for an event loop. Raises LoadTooSlow.
    """
    if scenario in BUILT_IN:
        return make()
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # noqa: BLE001 (raised again to who waits)
            made.set_exception(error)

    # A daemon: the process ends without it.
    thread = threading.Thread(target=run, name=f"load of {scenario}", daemon=True)
    thread.start()
    if not wait([made], within_s).done:
        _end(thread)
        raise LoadTooSlow(scenario, within_s)
    return made.result()


def _end(thread: threading.Thread) -> None:
    """End a loop of Python code in a `thread`; compiled code ends when it returns, if ever."""
    identity = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(SystemExit))
