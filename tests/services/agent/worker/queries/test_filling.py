"""Slots filled inline, by threads and by processes: the same bytes, answers, failures and spans."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import now_ns
from mlscope.tracing.spans import Row
from schemas.level import Level
from schemas.plan import Subject
from services.agent.errors import Stopped
from services.agent.link.allowances import PreparationLimits
from services.agent.machine import anonymous_memory
from services.agent.machine.cores import ANYWHERE
from services.agent.predictors import TensorPlace, Tensors
from services.agent.predictors.page_locking import has_own_pages
from services.agent.worker.files.datasets import load_samples
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.preparation import pool as pool_module
from services.agent.worker.preparation.predicting import Predicting
from services.agent.worker.preparation.session_pool import SessionPool
from services.agent.worker.queries.inputs import Inputs
from services.agent.worker.queries.issuing import ClosedLoop
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import (
    Pipeline,
    StepPlan,
    pipeline_of,
    steps_before,
    steps_of,
)
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import run_inline, run_streaming
from services.agent.worker.recorder import RunRecorder
from tests.services.agent.worker.preparation.pictures import (
    BATCH,
    BROKEN,
    CRASHING,
    GOOD,
    NAMES,
    SHAPE,
    SLOTS,
    an_order,
    pictures,
    plant_faults,
)

INPUTS = Inputs(
    (TensorPlace("x", (BATCH, *SHAPE), "float32"), TensorPlace("one", (), "float32")),
    ("x",),
    (TensorPlace(NAMES[0], SHAPE, "float32"),),
    {"one": 1.0},
)
QUERIES = [
    [(first + place) % len(GOOD) for place in range(BATCH)] for first in (0, 3, 1, 5, 2, 4)
] + [[0, BROKEN, 1, 2, BROKEN, 3, 4, 5], [BROKEN] * BATCH]


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder for manifests."""
    return tmp_path_factory.mktemp("manifests")


@pytest.fixture(scope="module")
def subject(manifests: Path) -> Subject:
    """Return a model with pictures."""
    return pictures(manifests)


@dataclass
class Result:
    """What a run left behind."""

    #: the slot of each predict call
    inputs: list[bytes]
    queries: list[Query]
    spans: list[Row]
    notes: list[str]
    conditions: dict[str, int]
    #: the cores that the last predict call might use
    predicted_on: set[int] = field(default_factory=set)

    def untimed_spans(self) -> list[tuple[object, ...]]:
        """Return its spans in order, without times and threads."""
        return sorted((*row[:4], *row[7:]) for row in self.spans)

    def answers(self) -> list[object]:
        """Return each query's answer, with its failures."""
        return [
            (query.index, query.errors, query.failed, query.outputs and query.outputs["y"].tolist())
            for query in self.queries
        ]

    def preparing_threads(self) -> set[int]:
        """Return the threads of the steps, of which each sample has the first, `decode`."""
        (decode,) = {row[3] for row in self.spans if row[0] == 2}
        return {row[6] for row in self.spans if row[3] == decode}


class Runs:
    """Takes the queries through stages whose model is the mean of each sample."""

    def __init__(self, subject: Subject, manifests: Path, scratch: Path) -> None:
        self.subject, self.manifests, self.scratch = subject, manifests, scratch
        plan = StepPlan(before=steps_of(subject.model).before)
        self.pipeline: Pipeline = INPUTS.named(pipeline_of(plan, lambda _: ()))
        #: why there is no pool
        self.refusal = ""
        self._slots: dict[SessionPool, list[Slot]] = {}
        self.samples = load_samples(subject.dataset, AssetFolder(manifests, "datasets"))

    def pool(self, processes: int, timeout_s: float = 60.0) -> SessionPool:
        """Return a begun pool of at most this many processes; close it."""
        order = an_order(self.subject, self.manifests, self.scratch)
        return SessionPool(order, PreparationLimits(processes, timeout_s), processes + 2, SLOTS)

    def slots(self, pool: SessionPool | None, cores: frozenset[int] = ANYWHERE) -> list[Slot]:
        """Return slots, those of a pool started with as many processes as it may have.

        It leaves the `cores` to a device that is fed from there.
        """
        if pool is None:
            return [INPUTS.slot() for _ in range(SLOTS)]
        if pool in self._slots:
            return self._slots[pool]
        steps = steps_before(self.pipeline)
        place = Predicting(0 if cores else 1, cores)
        slots = self._slots[pool] = pool.slots(INPUTS, BATCH, steps, self.samples, place)
        pool.plan(0, 0)
        pool.start()
        return slots

    def run(
        self,
        pool: SessionPool | None = None,
        *,
        inline: bool = False,
        queries: list[list[int]] = QUERIES,
        check: Callable[[], None] = lambda: None,
        in_flight: int = 0,
        cores: frozenset[int] = ANYWHERE,
    ) -> Result:
        """Take the queries through, the third with samples of its own.

        With a number `in_flight` they are those of a closed loop. The thread that predicts is kept
        on the `cores`.
        """
        recorder = RunRecorder(Attempt("e", "r", 1, "a"), lambda _: True, waits_for_flush=True)
        supply = Supply(
            self.pipeline,
            self.samples,
            BATCH,
            workers=3,
            pool=pool,
            pool_refusal=self.refusal,
            predicting_cores=cores,
        )
        result = Result([], [], [], [], {})

        def predict(inputs: Tensors) -> Tensors:
            assert inputs["one"] == 1.0
            result.inputs.append(inputs["x"].tobytes())
            result.predicted_on = os.sched_getaffinity(0)
            return {"y": inputs["x"].mean(axis=(1, 2, 3))}

        stages = Stages(supply, predict, recorder, Level.MODEL)
        issued = [Query(number, samples, now_ns()) for number, samples in enumerate(queries)]
        issued[2].payload = [self.samples[sample] for sample in queries[2]]
        slots = self.slots(pool)
        done = result.queries.append
        if inline:
            run_inline(issued, stages, slots[0], recorder, done)
        else:
            queries_or_loop = ClosedLoop(iter(issued), in_flight) if in_flight else issued
            run_streaming(queries_or_loop, stages, slots, recorder, done, check)
        result.spans = recorder.spans.take()
        result.notes = stages.notes
        result.conditions = stages.prepared_by.conditions
        return result


@pytest.fixture(scope="module")
def runs(subject: Subject, manifests: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return what takes the queries through."""
    return Runs(subject, manifests, tmp_path_factory.mktemp("scratch") / "preparation")


@pytest.fixture(scope="module")
def inline(runs: Runs) -> Result:
    """Return the run in which nothing overlaps."""
    return runs.run(inline=True)


@pytest.fixture
def harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two pictures do harm in processes started from now on."""
    monkeypatch.setenv("PYTHONPATH", plant_faults(tmp_path / "faults"))


@pytest.fixture(params=[1, 2])
def pool(runs: Runs, request: pytest.FixtureRequest) -> Iterator[SessionPool]:
    """Begin a pool of one or two processes."""
    begun = runs.pool(request.param)
    yield begun
    begun.close()


def assert_equal(result: Result, expected: Result) -> None:
    """Compare everything but times and threads."""
    assert result.inputs == expected.inputs
    assert result.answers() == expected.answers()
    assert result.untimed_spans() == expected.untimed_spans()


def test_threads_do_what_is_done_inline(runs: Runs, inline: Result) -> None:
    threads = runs.run()
    assert_equal(threads, inline)
    assert (threads.notes, threads.conditions) == (inline.notes, {})


@pytest.mark.parametrize("cores", [frozenset({min(os.sched_getaffinity(0))}), ANYWHERE])
def test_a_device_is_fed_from_a_core_that_is_left_to_it(runs: Runs, cores: frozenset[int]) -> None:
    usable = os.sched_getaffinity(0)
    with closing(runs.pool(1)) as pool:
        runs.slots(pool, cores)
        result = runs.run(pool, cores=cores)
        assert pool.started is not None
        preparing = os.sched_getaffinity(pool.started.pids[0])
    assert result.predicted_on == (cores or usable)
    assert preparing == (usable - cores or usable)


def test_processes_do_what_is_done_inline(runs: Runs, inline: Result, pool: SessionPool) -> None:
    processes = runs.run(pool)
    assert_equal(processes, inline)
    assert_equal(runs.run(pool, in_flight=2), inline)
    assert processes.notes == inline.notes
    assert pool.started is not None
    count = pool.started.processes
    busy_ns = processes.conditions.pop("prepare_busy_ns")
    assert processes.conditions == {"prepare_processes": count, "prepare_threads": 0}
    assert step_ns(processes, set(pool.started.pids)) < busy_ns < pool.started.busy_ns
    own_payload = {row[6] for row in processes.spans if row[7] == 2}
    assert processes.preparing_threads() - own_payload <= set(pool.started.pids)


def step_ns(result: Result, threads: set[int]) -> int:
    """Return the summed time of the spans of these threads."""
    return sum(row[5] for row in result.spans if row[6] in threads)


def test_a_pool_s_slots_can_be_page_locked(runs: Runs) -> None:
    pool = runs.pool(1)
    try:
        slots = runs.slots(pool)
        assert all(has_own_pages(slot.inputs["x"]) for slot in slots)
        assert [slot.number for slot in slots] == list(range(SLOTS))
    finally:
        pool.close()


@pytest.mark.usefixtures("harm")
def test_a_crash_costs_one_sample_and_is_a_note(runs: Runs, inline: Result) -> None:
    pool = runs.pool(1)
    try:
        queries = [*QUERIES[:3], [0, 1, CRASHING, 2, 3, 4, 5, 0]]
        result = runs.run(pool, queries=queries)
    finally:
        pool.close()
    assert result.inputs[:3] == inline.inputs[:3]
    assert result.queries[3].failed == {2}
    reason = f"sample {CRASHING}: prepare: its process was ended by SIGABRT"
    assert result.queries[3].errors == [reason]
    (note,) = result.notes
    assert note.startswith("2 processes that prepared samples ended, 1 samples were tried again")


@pytest.mark.usefixtures("harm")
def test_threads_prepare_the_next_run_where_no_process_is_left(
    runs: Runs, inline: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_MOST_DEATHS", 0)
    pool = runs.pool(1)
    try:
        failed = runs.run(pool, queries=[*QUERIES[:3], [CRASHING] * BATCH])
        result = runs.run(pool)
    finally:
        pool.close()
    assert failed.queries[3].failed == set(range(BATCH))
    assert_equal(result, inline)
    (note,) = result.notes
    assert "0 processes have ended, the last: its process was ended by SIGABRT" in note
    assert result.conditions == {}


def test_a_run_that_was_not_expected_to_stream_says_who_prepared(
    runs: Runs, inline: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "refusal", "none was begun")
    (note,) = runs.run().notes
    assert note.endswith("which slows it down: none was begun")
    assert runs.run(inline=True).notes == inline.notes


def test_a_stopped_run_ends_at_once_and_the_next_one_is_right(
    runs: Runs, inline: Result, pool: SessionPool
) -> None:
    stops = iter([None, Stopped("by hand")])

    def check() -> None:
        if error := next(stops, None):
            raise error

    with pytest.raises(Stopped):
        runs.run(pool, queries=QUERIES * 20, check=check)
    assert_equal(runs.run(pool), inline)


def test_threads_prepare_where_no_memory_can_be_shared(
    runs: Runs, inline: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymous_memory, "_MOST_SHARE", 0.0)
    pool = runs.pool(1)
    try:
        result = runs.run(pool)
    finally:
        pool.close()
    assert_equal(result, inline)
    (note,) = result.notes
    assert note.startswith("samples were prepared in threads of the predicting process")
    assert "are not available" in note
    assert result.conditions == {}


def test_threads_prepare_where_no_process_can_be_started(
    runs: Runs, inline: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    pool = runs.pool(1)
    assert_equal(runs.run(pool), inline)
    assert "/nowhere/python" in pool.refusal
    assert not pool.is_started
