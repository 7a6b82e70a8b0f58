"""How much of a disk files take: all of them, by folder, and deleted ones that are open."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from services.agent.machine.disk_use import (
    INODE_BYTES,
    deleted_bytes,
    folder_bytes,
    free_bytes,
    key_of,
    used_bytes,
)

MIB = 1 << 20
PAGE = mmap.PAGESIZE
WIDE = 1 << 50


def allocated(path: Path, size_bytes: int) -> Path:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
    return path


def test_a_file_counts_with_what_is_allocated(tmp_path: Path) -> None:
    allocated(tmp_path / "full", MIB)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert folder_bytes(tmp_path, WIDE) == MIB + 2 * INODE_BYTES


def test_empty_files_count_too(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert folder_bytes(tmp_path, WIDE) == 100 * INODE_BYTES


def test_a_file_with_two_names_counts_once_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    before_bytes = folder_bytes(tmp_path, WIDE)
    allocated(tmp_path / "in" / "one", MIB)
    (tmp_path / "two").hardlink_to(tmp_path / "in" / "one")
    (tmp_path / "link").symlink_to("/usr")
    assert folder_bytes(tmp_path, WIDE) == before_bytes + MIB + 2 * INODE_BYTES


def test_the_sum_ends_beyond_its_limit(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert folder_bytes(tmp_path, 10 * INODE_BYTES) == 11 * INODE_BYTES


def test_a_folder_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    assert folder_bytes(tmp_path / "none", WIDE) == 0


def test_deleted_files_count_while_a_process_has_them_open(tmp_path: Path) -> None:
    path, pids = allocated(tmp_path / "one", MIB), (os.getpid(), os.getpid())
    before_bytes = deleted_bytes(pids, tmp_path)
    with path.open("rb") as file, path.open("rb"):
        assert deleted_bytes(pids, tmp_path) == before_bytes
        path.unlink()
        assert deleted_bytes(pids, tmp_path) == before_bytes + MIB + INODE_BYTES
        apart = (key_of(os.fstat(file.fileno())),)
        assert deleted_bytes(pids, tmp_path, apart) == before_bytes
    assert deleted_bytes(pids, tmp_path) == before_bytes
    with pytest.raises(FileNotFoundError):
        deleted_bytes((), tmp_path / "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what is mapped")
def test_deleted_files_count_while_a_process_has_them_mapped(tmp_path: Path) -> None:
    path, pids = allocated(tmp_path / "one", MIB), (os.getpid(),)
    before_bytes = deleted_bytes(pids, tmp_path)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    with path.open("rb") as file:
        address = libc.mmap(None, PAGE, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    path.unlink()
    assert deleted_bytes(pids, tmp_path) == before_bytes + MIB + INODE_BYTES
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(PAGE))
    assert deleted_bytes(pids, tmp_path) == before_bytes


def test_processes_that_are_gone_have_nothing_open(tmp_path: Path) -> None:
    assert deleted_bytes((0, 1 << 30), tmp_path) == 0


def test_a_disk_has_what_is_used_and_what_is_free(tmp_path: Path) -> None:
    before_bytes = used_bytes(tmp_path)
    allocated(tmp_path / "large", 2000 * MIB)
    grown_bytes = used_bytes(tmp_path) - before_bytes
    assert grown_bytes > 1000 * MIB, "others may free some meanwhile"
    assert free_bytes(tmp_path) > 0
