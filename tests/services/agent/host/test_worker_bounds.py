"""What a worker may use of its machine: more ends it, and is said."""

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.host import worker_bounds
from services.agent.host.removal import remove_tree
from services.agent.host.worker_bounds import Share, WorkerBounds
from services.agent.link.bounds import Bounds
from tests.services.agent.builders import SLEEPY, a_run, a_sleepy_subject, an_order, carried_out

MIB = 1 << 20
WIDE = Bounds(memory_bytes=1 << 40, disk_bytes=1 << 40, processes=100_000)


@pytest.fixture(autouse=True)
def _with_sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))


async def test_a_worker_that_holds_too_much_is_ended_for_good(tmp_path: Path) -> None:
    subject = a_sleepy_subject(predict_ms=20, takes_bytes=400 << 20)
    order = an_order(subject, (a_run(queries=10_000),))
    failure = (await carried_out(order, tmp_path, bounds=Bounds(memory_bytes=400 << 20))).failed()
    assert failure.error == "memory"
    assert f"it may use {400 << 20}" in failure.message
    assert "MLSCOPE_WORKER_MEMORY_BYTES" in failure.message


@pytest.mark.parametrize("option", ["writes_bytes", "hides_bytes"])
async def test_a_worker_that_fills_the_disk_is_ended_for_good(tmp_path: Path, option: str) -> None:
    subject = a_sleepy_subject(predict_ms=20, **{option: 600 << 20})
    order = an_order(subject, (a_run(queries=10_000),))
    failure = (await carried_out(order, tmp_path, bounds=Bounds(disk_bytes=100 << 20))).failed()
    assert failure.error == "disk"
    assert f"may take {100 << 20} bytes" in failure.message
    assert re.search(r"its files take 629\d{6} bytes or more", failure.message)
    assert "MLSCOPE_WORKER_DISK_BYTES" in failure.message


async def test_a_worker_that_starts_too_many_processes_is_ended_for_good(tmp_path: Path) -> None:
    subject = a_sleepy_subject(predict_ms=20, starts=300)
    order = an_order(subject, (a_run(queries=10_000),))
    failure = (await carried_out(order, tmp_path, bounds=Bounds(processes=200))).failed()
    assert failure.error == "processes"
    assert "it may have 200" in failure.message
    assert "MLSCOPE_WORKER_PROCESSES" in failure.message


async def test_a_worker_within_its_bounds_is_left_alone(tmp_path: Path) -> None:
    subject = a_sleepy_subject(predict_ms=20, writes_bytes=100 << 20, starts=20)
    order = an_order(subject, (a_run(queries=20),))
    assert (await carried_out(order, tmp_path, bounds=WIDE)).completed()


def allocated(path: Path, size_bytes: int) -> Path:
    """Return a new file that takes so much of the disk."""
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
    return path


class Worker:
    """A worker's folder and spool, without a process; its host measures them."""

    def __init__(self, folder: Path, bounds: Bounds, spool_bytes: int = 0) -> None:
        self.scratch = folder / "w"
        self.scratch.mkdir()
        self.spool_fd, path = tempfile.mkstemp(dir=folder)
        Path(path).unlink()
        self.bounds = WorkerBounds(bounds, self.scratch, self.spool_fd, spool_bytes)

    def __del__(self) -> None:
        os.close(self.spool_fd)

    async def fault(self) -> str:
        """Return what its host says of its use; '' where that is within its bounds."""
        return str(await self.bounds.excess(os.getpid(), 0) or "")


async def test_a_worker_gets_half_of_a_disk_that_has_little_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_bounds, "free_bytes", lambda _: 400 * MIB)
    worker = Worker(tmp_path, Bounds(disk_bytes=1 << 40))
    allocated(worker.scratch / "one", 150 * MIB)
    assert await worker.fault() == ""
    allocated(worker.scratch / "two", 300 * MIB)
    assert f"may take {200 * MIB} bytes of the disk" in await worker.fault()


async def test_a_worker_on_a_full_disk_may_write_a_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_bounds, "free_bytes", lambda _: 0)
    worker = Worker(tmp_path, Bounds(disk_bytes=1 << 40))
    allocated(worker.scratch / "one", 50 * MIB)
    assert await worker.fault() == ""


async def test_what_others_write_is_not_the_worker_s(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Bounds(disk_bytes=100 * MIB))
    allocated(tmp_path / "of_others", 600 * MIB)
    assert await worker.fault() == ""
    allocated(worker.scratch / "own", 600 * MIB)
    assert "its files take" in await worker.fault()


async def test_the_spool_is_bounded_apart(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Bounds(disk_bytes=100 * MIB), spool_bytes=600 * MIB)
    os.posix_fallocate(worker.spool_fd, 0, 600 * MIB)
    assert await worker.fault() == ""
    os.posix_fallocate(worker.spool_fd, 0, 1200 * MIB)
    assert "its files take" in await worker.fault()


async def test_a_folder_that_cannot_be_measured_is_too_large(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Bounds(disk_bytes=100 * MIB))
    folder = os.open(worker.scratch, os.O_PATH)
    for _ in range(2500):
        os.mkdir("in", dir_fd=folder)  # a path of it would be too long
        inner = os.open("in", os.O_PATH, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    allocated(tmp_path / "of_others", 600 * MIB)
    assert "its folder can't be measured: File name too long" in await worker.fault()
    assert remove_tree(worker.scratch)


async def test_a_worker_without_its_folder_is_measured_all_the_same(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Bounds(disk_bytes=100 * MIB))
    worker.scratch.rmdir()
    assert await worker.fault() == ""
    allocated(tmp_path / "of_others", 600 * MIB)
    assert "its folder can't be measured" in await worker.fault()


async def test_no_bound_is_none(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Bounds())
    allocated(worker.scratch / "own", 600 * MIB)
    assert await worker.fault() == ""


@given(
    limit=st.integers(1, 1000),
    changes=st.lists(st.tuples(st.integers(-300, 300), st.integers(-300, 300)), max_size=30),
)
def test_a_share_above_its_limit_is_measured(limit: int, changes: list[tuple[int, int]]) -> None:
    """Unless others released as much at the very same time."""
    others, own = 1000, 0
    share = Share(limit, others)
    for of_others, of_own in changes:
        others = max(0, others + of_others)
        share.may_exceed(others + own)
        own = max(0, own + of_own)
        may_exceed = share.may_exceed(others + own)
        assert may_exceed or own <= limit
        if may_exceed:
            assert share.note(own) == (own > limit)
