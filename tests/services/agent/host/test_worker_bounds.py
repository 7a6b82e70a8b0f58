"""What a worker may use of its machine: more ends it, and is said."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.message import Fact
from schemas.plan import WorkOrder
from schemas.run import RunCompleted
from services.agent.host import worker_bounds
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.worker_bounds import Share, WorkerBounds
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.link.bounds import Bounds
from services.agent.machine.free_disk import FreeDisk
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    Kept,
    a_run,
    a_sleepy_subject,
    an_order,
    carried_out,
    limits,
)

GIB = 1 << 30
WIDE = Bounds(memory_bytes=1 << 40, disk_reserve_bytes=1, processes=100_000)


@pytest.fixture(autouse=True)
def _with_sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))


class Disk:
    """What a disk has left, as a test sets it."""

    def __init__(self, room_bytes: int = 1000 * GIB, files: int = 1_000_000) -> None:
        self.free = FreeDisk(room_bytes, files)

    def of(self, _: Path) -> FreeDisk:
        """Return it."""
        return self.free


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return the disk that hosts see."""
    disk = Disk()
    monkeypatch.setattr(worker_bounds, "FreeDisk", disk_class(disk))
    return disk


def disk_class(disk: Disk) -> type[FreeDisk]:
    """Return a class whose `of` is what `disk` has."""
    return type("DiskOfATest", (FreeDisk,), {"of": staticmethod(disk.of), "__slots__": ()})


def endless(**options: int) -> WorkOrder:
    """Return an order that lasts until its worker is ended."""
    return an_order(a_sleepy_subject(predict_ms=20, **options), (a_run(queries=10_000),))


async def test_a_worker_that_holds_too_much_is_ended_for_good(tmp_path: Path) -> None:
    order = endless(takes_bytes=400 << 20)
    failure = (await carried_out(order, tmp_path, bounds=Bounds(memory_bytes=400 << 20))).failed()
    assert failure.error == "memory"
    assert f"it may use {400 << 20}" in failure.message
    assert "MLSCOPE_WORKER_MEMORY_BYTES" in failure.message


async def test_a_worker_that_starts_too_many_processes_is_ended_for_good(tmp_path: Path) -> None:
    failure = (
        await carried_out(endless(starts=300), tmp_path, bounds=Bounds(processes=200))
    ).failed()
    assert failure.error == "processes"
    assert "it may have 200" in failure.message
    assert "MLSCOPE_WORKER_PROCESSES" in failure.message


class Held(Kept):
    """A sink that holds an outcome back until its worker has ended."""

    def __init__(self, worker: WorkerProcess, begun: Path) -> None:
        super().__init__()
        self._worker, self._begun = worker, begun

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Keep a fact; while an outcome waits, there is a file `begun`."""
        if isinstance(fact, RunCompleted):
            self._begun.touch()
            while self._worker.is_alive:  # noqa: ASYNC110  # the host ends it
                await asyncio.sleep(0.02)
        await super().put(fact, id=id, cause=cause)


async def test_a_worker_is_bounded_while_its_outcomes_wait(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    order = an_order(a_sleepy_subject(starts=300, starts_with=str(begun)))
    worker = await WorkerProcess.start("w", limits(tmp_path, bounds=Bounds(processes=200)))
    kept = Held(worker, begun)
    unconfined = replace(DEFAULT_ALLOWANCES, sandbox="off")  # it sees the file
    execution = Execution(OutcomePublisher(order, kept), worker, MANIFESTS, 30.0, unconfined)
    try:
        async with asyncio.timeout(60):
            is_useful = await execution.carry_out()
    finally:
        await worker.close()
    assert kept.completed()
    assert not is_useful


@pytest.fixture
def sleepers() -> Iterator[Callable[[int], int]]:
    """Return what starts so many processes in a group of their own, and returns the group."""
    started: list[subprocess.Popen[bytes]] = []

    def start(count: int) -> int:
        code = f"for n in $(seq {count}); do sleep 60 & done; echo; wait"
        command = ["bash", "-c", code]
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


async def test_processes_of_others_are_not_the_worker_s(
    tmp_path: Path, sleepers: Callable[[int], int]
) -> None:
    """They make the host count the worker's."""
    bounds = WorkerBounds(Bounds(processes=50), tmp_path)
    group = sleepers(10)
    sleepers(100)
    assert await bounds.excess(0, group) is None
    # So many that others, who end meanwhile, hide none.
    assert "had 401 processes" in str(await bounds.excess(0, sleepers(400)))


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[Path]:
    """Lend the folder of a disk of 200 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk of its own")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200m", "none", str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("root may not mount here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("option", ["writes_bytes", "hides_bytes"])
async def test_a_worker_that_fills_the_disk_is_ended_and_its_files_are_gone(
    own_disk: Path, option: str
) -> None:
    order, bounds = endless(**{option: 190 << 20}), Bounds(disk_reserve_bytes=20 << 20)
    failure = (await carried_out(order, own_disk, bounds=bounds)).failed()
    assert failure.error == "disk"
    assert f"a worker must leave {20 << 20} bytes" in failure.message
    assert "MLSCOPE_DISK_RESERVE_BYTES" in failure.message
    assert FreeDisk.of(own_disk).room_bytes > 190 << 20


async def test_a_worker_within_its_bounds_is_left_alone(tmp_path: Path) -> None:
    subject = a_sleepy_subject(predict_ms=20, writes_bytes=1 << 20, starts=20)
    order = an_order(subject, (a_run(queries=20),))
    assert (await carried_out(order, tmp_path, bounds=WIDE)).completed()


@pytest.mark.parametrize(
    ("reserve_bytes", "start_bytes", "kept_bytes"),
    [(GIB, 1000 * GIB, GIB), (GIB, 4 * GIB, GIB // 2), (GIB, 0, 0), (0, 1000 * GIB, 0)],
)
async def test_the_reserve_is_at_most_an_eighth_of_what_was_free(
    tmp_path: Path, disk: Disk, reserve_bytes: int, start_bytes: int, kept_bytes: int
) -> None:
    disk.free = FreeDisk(start_bytes, 0)
    bounds = WorkerBounds(Bounds(disk_reserve_bytes=reserve_bytes), tmp_path)
    disk.free = FreeDisk(kept_bytes, 0)
    assert await bounds.excess(0, 0) is None
    disk.free = FreeDisk(max(0, kept_bytes - 1), 0)
    excess = await bounds.excess(0, 0)
    assert (excess is not None) == (kept_bytes > 0)
    assert excess is None or f"must leave {kept_bytes} bytes" in str(excess)


async def test_files_without_end_are_bounded_too(tmp_path: Path, disk: Disk) -> None:
    bounds = WorkerBounds(Bounds(disk_reserve_bytes=GIB), tmp_path)
    disk.free = FreeDisk(1000 * GIB, 65_536)
    assert await bounds.excess(0, 0) is None
    disk.free = FreeDisk(1000 * GIB, 65_535)
    assert "has room for 65535 files left" in str(await bounds.excess(0, 0))


async def test_an_agent_without_its_folder_bounds_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    bounds = WorkerBounds(Bounds(memory_bytes=1, disk_reserve_bytes=1), folder)
    folder.rmdir()
    assert await bounds.excess(0, 0) is None
    assert "it may use 1" in str(await bounds.excess(os.getpid(), 0))


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
