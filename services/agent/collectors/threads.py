"""Thread ids as CUPTI and Kineto name threads: the low 32 bits of their pthread. Pure."""

from collections.abc import Mapping

LOW_32 = 0xFFFFFFFF
_LOW_31 = 0x7FFFFFFF


def thread_of(pthread: int, native: Mapping[int, int]) -> int:
    """Return the system's id of a thread; of one unknown to Python, an int32 of its pthread.

    `pthread`: at least its low 32 bits. `native`: as `native_threads` returns them.
    """
    return native.get(pthread & LOW_32, pthread & _LOW_31)
