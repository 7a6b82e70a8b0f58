"""Page-locked host memory: a GPU copies it at the full rate of its link, pageable memory slower.

Pageable memory is copied through a buffer of the driver's: 16 to 18 ms in place of 2.9 ms for a
batch of 154 MB on an H200. Locking is slow itself, so it is done once for each array.
"""

import math
import mmap
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LOCKED, PAGEABLE = "page-locked", "pageable"
"""Kinds of host memory, as conditions name them; a predictor on a GPU says which ones it uses."""

Array = npt.NDArray[Any]


@dataclass(slots=True)
class _Lock:
    """A locked array, which must outlive its lock, and how many predictors rely on it."""

    array: Array
    unlock: Callable[[int], object]
    users: int = 0


_LOCKS: dict[int, _Lock] = {}
"""The locks of this process by address: a model and its twin may use the same arrays."""


def page_aligned(shape: Sequence[int], element_type: str) -> Array:
    """Return zeros of a `shape` and NumPy `element_type` on pages that no other object shares.

    Only such arrays can be page-locked: other objects on their pages would be locked with them,
    and stay locked when they are freed.
    """
    kind = np.dtype(element_type)
    size_bytes = math.prod(shape) * kind.itemsize
    pages = mmap.mmap(-1, max(size_bytes, 1))
    return np.frombuffer(pages, kind, math.prod(shape)).reshape(tuple(shape))


def has_own_pages(array: Array) -> bool:
    """Return whether an array begins on a page and lies in a memory mapping, as an arena's do."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else base
    begins_page = array.ctypes.data % mmap.PAGESIZE == 0
    return isinstance(mapping, mmap.mmap) and begins_page and bool(array.flags.c_contiguous)


class PageLocks:
    """The arrays that one predictor has page-locked.

    `lock` and `unlock` are calls of CUDA: `lock(address, bytes)` raises RuntimeError where the
    driver refuses, as beyond a limit on locked memory.
    """

    def __init__(self, lock: Callable[[int, int], object], unlock: Callable[[int], object]) -> None:
        self._lock, self._unlock = lock, unlock
        #: the addresses of the arrays that it relies on
        self._locked: set[int] = set()
        # A twin may be dropped without being closed.
        weakref.finalize(self, _release, self._locked)
        #: why an array is pageable; '' while all of them are locked
        self.refusal = ""

    @property
    def host_memory(self) -> str:
        """The kind of the memory that inputs are copied from: that of the slowest array."""
        return LOCKED if self._locked and not self.refusal else PAGEABLE

    def lock(self, array: Array) -> bool:
        """Lock an array's memory, once; return whether it is locked.

        An array without pages of its own, or one that the driver refuses, stays as it is.
        """
        address = array.ctypes.data
        if address in self._locked:
            return True
        if address in _LOCKS:
            return self._rely_on(address)
        if not has_own_pages(array):
            self.refusal = self.refusal or "an input shares its pages with other objects"
            return False
        try:
            self._lock(address, array.nbytes)
        except RuntimeError as error:
            self.refusal = self.refusal or str(error)
            return False
        _LOCKS[address] = _Lock(array, self._unlock)
        return self._rely_on(address)

    def _rely_on(self, address: int) -> bool:
        _LOCKS[address].users += 1
        self._locked.add(address)
        return True

    def release(self) -> None:
        """Unlock every array that no other predictor relies on."""
        _release(self._locked)
        self.refusal = ""


def _release(addresses: set[int]) -> None:
    """End the use of locks by one predictor; the last one unlocks the array."""
    for address in addresses:
        lock = _LOCKS[address]
        lock.users -= 1
        if not lock.users:
            lock.unlock(address)
            del _LOCKS[address]
    addresses.clear()
