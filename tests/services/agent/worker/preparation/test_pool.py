"""Processes that prepare samples: the same bytes as the worker, and faults of every kind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlscope.tracing.clock import now_ns
from schemas.plan import Subject
from services.agent.errors import ProcessesUnavailable
from services.agent.steps import Operator
from services.agent.worker.answers.sample_failure import failure_of
from services.agent.worker.files.datasets import load_samples
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.preparation import pool as pool_module
from services.agent.worker.preparation import processes as processes_module
from services.agent.worker.preparation.layout import ArenaLayout, ArrayShape
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.queries.pipeline import (
    Pipeline,
    StepPlan,
    pipeline_of,
    steps_before,
    steps_of,
)
from services.agent.worker.queries.sample_steps import SampleSteps
from tests.places import shared_files
from tests.services.agent.worker.preparation.pictures import (
    BATCH,
    BROKEN,
    CRASHING,
    GOOD,
    HANGING,
    NAMES,
    RAISING,
    SHAPE,
    SLOTS,
    a_pool,
    an_order,
    pictures,
    plant_faults,
)

LONG_S = 30.0


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder for manifests."""
    return tmp_path_factory.mktemp("manifests")


@pytest.fixture(scope="module")
def subject(manifests: Path) -> Subject:
    """Return a model with pictures."""
    return pictures(manifests)


@pytest.fixture(scope="module")
def order(
    subject: Subject, manifests: Path, tmp_path_factory: pytest.TempPathFactory
) -> PreparationOrder:
    """Return the order to prepare its pictures."""
    return an_order(subject, manifests, tmp_path_factory.mktemp("scratch") / "preparation")


@pytest.fixture(scope="module")
def samples(subject: Subject, manifests: Path) -> Sequence[Any]:
    """Return its pictures, as the worker opens them."""
    return load_samples(subject.dataset, AssetFolder(manifests, "datasets"))


@pytest.fixture(scope="module")
def pool(order: PreparationOrder, samples: Sequence[Any]) -> Iterator[PreparationPool]:
    """Start two processes that are never harmed."""
    with a_pool(order, 2, samples=samples) as opened:
        yield opened


@pytest.fixture
def harmful(
    order: PreparationOrder, samples: Sequence[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PreparationPool]:
    """Start two processes that two pictures do harm to."""
    monkeypatch.setenv("PYTHONPATH", plant_faults(tmp_path / "faults"))
    with a_pool(order, 2, 0.5, samples) as opened:
        yield opened


def never() -> bool:
    """Let a wait go on."""
    return False


def names_in(folder: str) -> list[str]:
    """Return the names in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


def prepared_here(subject: Subject, samples: Sequence[Any], numbers: Sequence[int]) -> Any:
    """Return what the steps make of samples in this process."""
    plan = StepPlan(before=steps_of(subject.model).before)
    steps = SampleSteps(pipeline_of(plan, lambda _: ()))
    array = np.zeros((len(numbers), *SHAPE), np.float32)

    for position, number in enumerate(numbers):
        read = partial(samples.__getitem__, number)
        assert steps.prepare(read, [array], position, applied) is None
    return array


def applied(_: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
    """Return an operator's result."""
    return operator.apply(*arguments)


def prepare(pool: PreparationPool, numbers: Sequence[int], slot: int = 0) -> dict[int, str]:
    """Prepare samples in a slot; return the faults."""
    batch = pool.begin(slot, numbers)
    assert pool.wait(batch, never)
    return batch.faults()


def ends_within(pid: int, seconds: float) -> bool:
    """Wait until a process is gone, or a zombie."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_slots_hold_what_the_worker_itself_would_prepare(
    pool: PreparationPool, subject: Subject, samples: Sequence[Any]
) -> None:
    orders = [[(slot + place) % len(GOOD) for place in range(BATCH)] for slot in range(SLOTS)]
    batches = [pool.begin(slot, numbers) for slot, numbers in enumerate(orders)]
    for batch, numbers in zip(batches, orders, strict=True):
        assert pool.wait(batch, never)
        assert batch.faults() == {}
        expected = prepared_here(subject, samples, numbers)
        assert batch.memory.arrays[0].tobytes() == expected.tobytes()


def test_stamps_lie_between_order_and_end_and_threads_are_other_processes(
    pool: PreparationPool,
) -> None:
    began = now_ns()
    assert prepare(pool, [0] * BATCH) == {}
    memory, ended = pool.slot(0), now_ns()
    times = memory.stamps.reshape(BATCH, -1)
    assert (np.diff(times, axis=1) >= 0).all()
    assert times.min() > began
    assert times.max() < ended
    assert set(memory.threads.tolist()) == set(pool.pids)
    assert os.getpid() not in pool.pids


def test_processes_are_busy_with_their_steps_and_what_lies_between_them(
    pool: PreparationPool,
) -> None:
    began, busy_before = now_ns(), pool.busy_ns
    assert prepare(pool, [0] * BATCH) == {}
    spent, elapsed = pool.busy_ns - busy_before, now_ns() - began
    steps = pool.slot(0).stamps
    assert (steps[..., 1] - steps[..., 0]).sum() < spent < elapsed * pool.processes
    assert pool.busy_ns == busy_before + spent, "and idle without an order"


def test_a_bad_sample_fails_alone_with_the_worker_s_words(
    pool: PreparationPool, subject: Subject, samples: Sequence[Any]
) -> None:
    faults = prepare(pool, [0, BROKEN, 1, BROKEN])
    steps: Pipeline = pipeline_of(StepPlan(before=steps_of(subject.model).before), lambda _: ())
    with pytest.raises(ValueError, match="picture") as raised:
        steps.before[0].steps[0].apply(samples[BROKEN])
    expected = failure_of(samples, BROKEN, "decode", raised.value)
    assert faults == {1: expected, 3: expected}
    assert prepare(pool, [0, 1, 2, 3]) == {}


def test_samples_of_unequal_shapes_fail_alone_with_the_worker_s_words(
    subject: Subject, samples: Sequence[Any], manifests: Path, tmp_path: Path
) -> None:
    port = subject.model.inputs[0]
    port = port.model_copy(update={"steps": (port.steps[0], port.steps[-1])})  # decode and cast
    model = subject.model.model_copy(update={"inputs": (port,)})
    unequal = subject.model_copy(update={"model": model})
    array = np.zeros((2, *shape_of(samples[0])), np.float32)
    own_steps = SampleSteps(pipeline_of(StepPlan(before=steps_of(model).before), lambda _: ()))
    fault = own_steps.prepare(lambda: samples[1], [array], 1, applied)
    assert fault is not None
    with PreparationPool(an_order(unequal, manifests, tmp_path), LONG_S) as pool:
        arrays = (ArrayShape(array.shape, "float32"),)
        pool.map(ArenaLayout(1, 2, 2, 1, arrays), NAMES, samples)
        pool.start(1)
        assert prepare(pool, [0, 1]) == {1: failure_of(samples, 1, *fault)}
        assert pool.slot(0).arrays[0][0].any()


def shape_of(body: bytes) -> tuple[int, int, int]:
    """Return the shape of a picture's channels."""
    width, height = Image.open(BytesIO(body)).size
    return (3, height, width)


def test_processes_import_no_framework(pool: PreparationPool) -> None:
    for pid in pool.pids:
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert not [name for name in ("onnxruntime", "libtorch", "tensorflow") if name in maps]
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 10


def test_a_killed_process_is_replaced_and_its_samples_are_prepared(
    pool: PreparationPool, subject: Subject, samples: Sequence[Any]
) -> None:
    deaths = pool.deaths
    for _ in range(3):
        pool.slot(1).arrays[0][:] = 0
        batch = pool.begin(1, [2] * BATCH)
        os.kill(pool.pids[0], signal.SIGKILL)
        assert pool.wait(batch, never)
        assert batch.faults() == {}
        expected = prepared_here(subject, samples, [2] * BATCH)
        assert batch.memory.arrays[0].tobytes() == expected.tobytes()
    assert 0 < pool.deaths - deaths <= 3
    assert pool.processes == 2


def test_batches_begin_while_a_process_is_replaced(
    order: PreparationOrder,
    samples: Sequence[Any],
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forks, may_fork = threading.Event(), threading.Event()
    fork = processes_module.PreparingProcesses.fork

    def slow_fork(server: processes_module.PreparingProcesses, number: int) -> Any:
        forks.set()
        assert may_fork.wait(LONG_S)
        return fork(server, number)

    with a_pool(order, 1, samples=samples) as pool:
        os.kill(pool.pids[0], signal.SIGSTOP)
        first = pool.begin(0, GOOD[:2])
        monkeypatch.setattr(processes_module.PreparingProcesses, "fork", slow_fork)
        os.kill(pool.pids[0], signal.SIGKILL)
        waiting = threading.Thread(target=pool.wait, args=(first, never))
        waiting.start()
        assert forks.wait(LONG_S)
        began: list[Any] = []
        beginning = threading.Thread(target=lambda: began.append(pool.begin(1, GOOD[:3])))
        beginning.start()
        beginning.join(LONG_S / 10)
        may_fork.set()
        assert began, "a batch can't begin before the process is forked"
        waiting.join(LONG_S)
        assert pool.wait(began[0], never)
        assert [first.faults(), began[0].faults()] == [{}, {}]
        expected = prepared_here(subject, samples, GOOD[:3])
        assert np.array_equal(pool.slot(1).arrays[0][:3], expected)


def test_a_sample_that_ends_every_process_fails_alone(harmful: PreparationPool) -> None:
    faults = prepare(harmful, [0, 1, CRASHING, 2, 3, 4, 5, 0])
    assert faults == {2: f"sample {CRASHING}: prepare: its process was ended by SIGABRT"}
    assert (harmful.deaths, harmful.retries, harmful.processes) == (2, 1, 2)


def test_an_error_of_a_library_costs_no_process(harmful: PreparationPool) -> None:
    faults = prepare(harmful, [0, RAISING, 1, 2])
    assert faults == {1: f"sample {RAISING}: prepare: a bug of the decoder"}
    assert harmful.deaths == 0


def test_a_late_answer_is_never_taken_for_another(
    order: PreparationOrder, samples: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_ANSWER_S", 1.0)
    with a_pool(order, 1, samples=samples) as pool:
        server = int(Path(f"/proc/{pool.pids[0]}/stat").read_text().split()[3])
        batch = pool.begin(0, [3] * BATCH)
        os.kill(server, signal.SIGSTOP)
        os.kill(pool.pids[0], signal.SIGKILL)
        assert pool.wait(batch, never)
        assert batch.faults() == {}
        assert ends_within(server, LONG_S)
        assert pool.processes == 1


def test_a_sample_that_hangs_fails_alone(harmful: PreparationPool) -> None:
    faults = prepare(harmful, [0, HANGING, 1, 2])
    assert faults == {1: f"sample {HANGING}: prepare: took longer than 0.5 s"}
    assert harmful.deaths == 2
    assert prepare(harmful, [0, 1, 2]) == {}


def test_a_stopped_process_is_replaced(order: PreparationOrder, samples: Sequence[Any]) -> None:
    with a_pool(order, 1, 0.5, samples) as pool:
        batch = pool.begin(0, [3] * BATCH)
        while not pool.slot(0).states[:1].any():
            time.sleep(0.001)
        os.kill(pool.pids[0], signal.SIGSTOP)
        assert pool.wait(batch, never)
        assert batch.faults() == {}
        assert pool.deaths == 1


def test_a_new_server_follows_one_that_has_ended(
    order: PreparationOrder, samples: Sequence[Any]
) -> None:
    with a_pool(order, 2, samples=samples) as pool:
        first = set(pool.pids)
        os.kill(int(Path(f"/proc/{pool.pids[0]}/stat").read_text().split()[3]), signal.SIGKILL)
        assert all(ends_within(pid, LONG_S) for pid in first)
        assert prepare(pool, [0] * BATCH) == {}
        assert first.isdisjoint(pool.pids)
        assert pool.processes == 2


def test_processes_are_not_replaced_for_ever(
    harmful: PreparationPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_MOST_DEATHS", 1)
    faults = prepare(harmful, [CRASHING] * 4)
    assert set(faults) == {0, 1, 2, 3}
    later = prepare(harmful, [0, 1])
    assert "1 processes have ended, the last: its process was ended by SIGABRT" in later[0]
    assert harmful.processes == 0


def test_nothing_is_written_after_cancelling(
    order: PreparationOrder, samples: Sequence[Any]
) -> None:
    with a_pool(order, 1, samples=samples) as pool:
        os.kill(pool.pids[0], signal.SIGSTOP)
        batches = [pool.begin(slot, [4] * BATCH) for slot in range(SLOTS)]
        assert not pool.wait(batches[2], lambda: True)
        os.kill(pool.pids[0], signal.SIGCONT)
        pool.cancel()
        last = batches[2].memory
        assert last.states[-1] == 0
        last.arrays[0][:] = 0
        assert prepare(pool, [5] * BATCH) == {}
        assert not last.arrays[0].any()
        assert pool.deaths == 0


def test_cancelling_ends_a_process_that_hangs(harmful: PreparationPool) -> None:
    batch = harmful.begin(0, [HANGING])
    assert not harmful.wait(batch, lambda: True)
    harmful.cancel()
    assert prepare(harmful, [0, 1]) == {}


def test_closing_ends_all_processes_and_descriptors(
    order: PreparationOrder, samples: Sequence[Any]
) -> None:
    descriptors = len(names_in("/proc/self/fd"))
    shared = shared_files()
    pool = a_pool(order, 2, samples=samples)
    pids = pool.pids
    pool.begin(0, [0] * BATCH)
    pool.close()
    assert all(ends_within(pid, LONG_S) for pid in pids)
    assert len(names_in("/proc/self/fd")) == descriptors
    until_s = time.monotonic() + LONG_S
    while left_behind := shared_files() - shared:  # those of other tests' workers go at once
        assert time.monotonic() < until_s, left_behind


def test_nothing_outlives_a_killed_worker(tmp_path: Path) -> None:
    """Where it ends by SIGKILL, the kernel ends its processes, also one that hangs."""
    source = (
        "import sys; from pathlib import Path\n"
        "from tests.services.agent.worker.preparation.pictures import *\n"
        "folder = Path(sys.argv[1]); subject = pictures(folder / 'manifests')\n"
        "pool = a_pool(an_order(subject, folder / 'manifests', folder / 'scratch'), 2)\n"
        "pool.begin(0, [HANGING, HANGING]); print(*pool.pids, flush=True); input()\n"
    )
    (tmp_path / "manifests").mkdir()
    root = Path(__file__).parents[5]
    path = f"{plant_faults(tmp_path / 'faults')}{os.pathsep}{root}"
    command = [sys.executable, "-c", source, str(tmp_path)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        cwd=root,
    ) as worker:
        assert worker.stdout is not None
        pids = [int(text) for text in worker.stdout.readline().split()]
        server = int(Path(f"/proc/{pids[0]}/stat").read_text().split()[3])
        worker.kill()
    assert len(pids) == 2
    assert all(ends_within(pid, LONG_S) for pid in (*pids, server))


def test_a_dataset_that_cannot_be_opened_is_named(order: PreparationOrder, tmp_path: Path) -> None:
    elsewhere = PreparationOrder(order.model, order.dataset, tmp_path, {}, tmp_path / "scratch")
    with pytest.raises(ProcessesUnavailable, match=r"good0\.jpg"):
        a_pool(elsewhere, 1)


def test_processes_run_on_the_cores_that_they_are_given(order: PreparationOrder) -> None:
    core = min(os.sched_getaffinity(0))
    steps = steps_before(steps_of(order.model))
    arrays = (ArrayShape((BATCH, *SHAPE), "float32"),)
    with PreparationPool(order, LONG_S) as pool:
        pool.map(ArenaLayout(SLOTS, BATCH, steps, 1, arrays), NAMES, (), frozenset({core}))
        pool.start(1)
        assert os.sched_getaffinity(pool.pids[0]) == {core}
