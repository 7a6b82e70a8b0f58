"""Page-locked arrays: which can be locked, once each, and what a refusal leaves."""

import gc
import mmap

import numpy as np
import pytest

from services.agent.predictors.page_locking import (
    LOCKED,
    PAGEABLE,
    PageLocks,
    has_own_pages,
    page_aligned,
)


class Driver:
    """Notes the calls of a driver that refuses to lock more than `limit_bytes`."""

    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.locked: dict[int, int] = {}
        self.limit_bytes = limit_bytes

    def lock(self, address: int, size_bytes: int) -> None:
        """Lock pages, each once."""
        assert address not in self.locked
        if sum(self.locked.values()) + size_bytes > self.limit_bytes:
            raise RuntimeError("CUDA error: out of memory")
        self.locked[address] = size_bytes

    def unlock(self, address: int) -> None:
        """Unlock pages that are locked."""
        del self.locked[address]


@pytest.mark.parametrize(
    ("shape", "kind"), [((3, 5), "float32"), ((0, 4), "int64"), ((2,), "uint8")]
)
def test_an_aligned_array_is_zeros_on_pages_of_its_own(shape: tuple[int, ...], kind: str) -> None:
    array = page_aligned(shape, kind)
    assert (array.shape, str(array.dtype)) == (shape, kind)
    assert not array.any()
    assert array.flags.writeable
    assert has_own_pages(array)
    assert has_own_pages(array[:])


def test_arrays_of_numpy_and_parts_within_a_page_have_no_pages_of_their_own() -> None:
    assert not has_own_pages(np.zeros(mmap.PAGESIZE, np.uint8))
    assert not has_own_pages(page_aligned((mmap.PAGESIZE,), "uint8")[1:])
    assert not has_own_pages(page_aligned((64, 64), "float32").T)


def test_an_array_is_locked_once_also_for_a_twin_and_unlocked_by_the_last_one() -> None:
    driver, array = Driver(), page_aligned((8, 8), "float32")
    locks, twin = PageLocks(driver.lock, driver.unlock), PageLocks(driver.lock, driver.unlock)
    assert locks.host_memory == PAGEABLE
    assert locks.lock(array)
    assert locks.lock(array)
    assert twin.lock(array)
    assert driver.locked == {array.ctypes.data: array.nbytes}
    assert (locks.host_memory, twin.host_memory) == (LOCKED, LOCKED)
    locks.release()
    assert driver.locked
    assert twin.host_memory == LOCKED
    twin.release()
    assert not driver.locked
    assert (locks.host_memory, twin.host_memory) == (PAGEABLE, PAGEABLE)


def test_locks_that_are_dropped_unlock_their_arrays() -> None:
    driver, array = Driver(), page_aligned((8, 8), "float32")
    locks = PageLocks(driver.lock, driver.unlock)
    assert locks.lock(array)
    del locks
    gc.collect()
    assert not driver.locked


def test_a_refusal_is_kept_and_the_array_stays_usable() -> None:
    driver = Driver(limit_bytes=2 * mmap.PAGESIZE)
    locks = PageLocks(driver.lock, driver.unlock)
    small, large = page_aligned((16,), "uint8"), page_aligned((4 * mmap.PAGESIZE,), "uint8")
    assert locks.lock(small)
    assert not locks.lock(large)
    assert not locks.lock(np.zeros(16))
    assert locks.refusal == "CUDA error: out of memory"
    assert locks.host_memory == PAGEABLE
    large[:] = 1
    locks.release()
    assert not locks.refusal
    assert locks.lock(small)
    locks.release()
