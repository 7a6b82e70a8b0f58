"""The core that is set aside for a thread which feeds a device, with its twin."""

import os
import threading
from pathlib import Path

import pytest

from services.agent.machine.cores import ANYWHERE, LEAST_CORES, cores_set_aside, kept_on

SIXTEEN = frozenset(range(16))


def state_on(folder: Path, core: int) -> Path:
    """Return a file as the kernel has it of a thread that last ran on a core."""
    fields = ["R", *["0"] * 35, str(core), *["0"] * 13]
    path = folder / "stat"
    path.write_text(f"7 (a) b) {' '.join(fields)}\n")
    return path


def topology_of(folder: Path, core: int, siblings: str) -> Path:
    """Return a folder as the kernel has it of a core with these siblings."""
    (folder / f"cpu{core}" / "topology").mkdir(parents=True)
    (folder / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "aside"), [("5,13", {5, 13}), ("4-5", {4, 5}), ("5", {5}), ("5,99", {5})]
)
def test_the_threads_own_core_and_its_twin_are_set_aside(
    tmp_path: Path, siblings: str, aside: set[int]
) -> None:
    topology = topology_of(tmp_path, 5, siblings)
    assert cores_set_aside(SIXTEEN, 16, state_on(tmp_path, 5), topology) == aside


def test_a_core_of_unknown_siblings_is_set_aside_alone(tmp_path: Path) -> None:
    assert cores_set_aside(SIXTEEN, 16, state_on(tmp_path, 5), tmp_path / "none") == {5}


def test_none_is_set_aside_where_there_are_few_or_it_is_not_known(tmp_path: Path) -> None:
    topology, state = topology_of(tmp_path, 5, "5,13"), state_on(tmp_path, 5)
    assert cores_set_aside(frozenset(range(LEAST_CORES - 1)), 16, state, topology) == ANYWHERE
    assert cores_set_aside(SIXTEEN - {5}, 16, state, topology) == ANYWHERE
    assert cores_set_aside(SIXTEEN, 16, tmp_path / "none", topology) == ANYWHERE
    # A container that may keep fewer cores busy has none to spare, however many it sees.
    assert cores_set_aside(SIXTEEN, LEAST_CORES - 1, state, topology) == ANYWHERE
    state.write_text("7 (cat) R 1\n")
    assert cores_set_aside(SIXTEEN, 16, state, topology) == ANYWHERE


def test_this_threads_core_is_one_that_it_may_use() -> None:
    usable = frozenset(os.sched_getaffinity(0)) | frozenset(range(LEAST_CORES))
    assert cores_set_aside(usable, LEAST_CORES) & os.sched_getaffinity(0)


def test_a_thread_is_kept_on_cores_alone_and_only_meanwhile() -> None:
    usable = os.sched_getaffinity(0)
    kept = frozenset({min(usable)})
    seen = []

    def work() -> None:
        with kept_on(kept):
            seen.append(os.sched_getaffinity(0))
        with kept_on(ANYWHERE), kept_on(frozenset({4095})):
            seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [*seen, os.sched_getaffinity(0)] == [kept, usable, usable]
