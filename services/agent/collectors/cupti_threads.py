"""Threads as CUPTI names them: the low 32 bits of their pthread."""

import threading
from collections.abc import Mapping

_LOW_32 = 0xFFFFFFFF
_LOW_31 = 0x7FFFFFFF


def native_threads() -> Mapping[int, int]:
    """Return the system's numbers of Python's threads, by the low 32 bits of their pthread."""
    return {
        each.ident & _LOW_32: each.native_id
        for each in threading.enumerate()
        if each.ident is not None and each.native_id is not None
    }


def thread_of(pthread: int, native: Mapping[int, int]) -> int:
    """Return a thread's number: the system's, or of one that Python has not, what fits int32."""
    return native.get(pthread & _LOW_32, pthread & _LOW_31)
