"""Memory without a name: shared by its descriptor, within what is available."""

import errno
import mmap
import os
from pathlib import Path

import pytest

from services.agent.machine.anonymous_memory import anonymous_memory

DESCRIPTORS = Path("/proc/self/fd")


def test_two_mappings_are_one_memory_of_zeros() -> None:
    fd = anonymous_memory("shared", 3 * mmap.PAGESIZE, mmap.PAGESIZE)
    first, second = mmap.mmap(fd, 0), mmap.mmap(fd, 0)
    os.close(fd)
    assert not any(first[:])
    first[5000] = 42
    assert (second[5000], len(second)) == (42, 3 * mmap.PAGESIZE)


def test_more_than_there_is_is_refused_and_leaves_no_descriptor() -> None:
    descriptors = len(list(DESCRIPTORS.iterdir()))
    with pytest.raises(OSError, match="bytes are not available"):
        anonymous_memory("huge", 1 << 60, 1 << 60)
    assert len(list(DESCRIPTORS.iterdir())) == descriptors


def test_an_older_kernel_makes_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.memfd_create

    def made_by_linux_6_2(name: str, flags: int) -> int:
        if flags & 8:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return make(name, flags)

    monkeypatch.setattr(os, "memfd_create", made_by_linux_6_2)
    fd = anonymous_memory("older", 4096, 4096)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_a_system_without_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(OSError, match="not implemented"):
        anonymous_memory("none", 4096, 4096)
