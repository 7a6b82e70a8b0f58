"""Queries on threads with bounded room."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlscope.load.scenarios import scenario_named
from mlscope.tracing.batches import Attempt
from schemas.level import Level
from services.agent.errors import RunTimedOut, Stopped
from services.agent.link.messages import AttemptKey
from services.agent.predictors import Tensors
from services.agent.worker.control import Control, Deadline
from services.agent.worker.queries.issuing import ClosedLoop, closed_loop
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import Unbounded, run_inline, run_streaming
from services.agent.worker.recorder import RunRecorder

_LONG_S = 60.0
_FEW = 5
SAMPLES = [np.array([number], np.float32) for number in range(50)]


class Model:
    """The identity; counts how many batches are in it at once, and raises when told."""

    def __init__(self, raises_at: int = -1) -> None:
        self.calls = 0
        self.raises_at = raises_at
        self.pause_s = 0.0

    def predict(self, inputs: Tensors) -> Tensors:
        """Return what came."""
        self.calls += 1
        time.sleep(self.pause_s)
        if self.calls == self.raises_at:
            raise RuntimeError("a bug")
        return {name: array.copy() for name, array in inputs.items()}


def stages_and(model: Model) -> tuple[Stages, RunRecorder, list[Slot]]:
    recorder = RunRecorder(Attempt("e", "r", 1, "a"), lambda _: True)
    supply = Supply(Pipeline(), SAMPLES, 1)
    slots = [Slot({"x": np.zeros((1, 1), np.float32)}) for _ in range(4)]
    return Stages(supply, model.predict, recorder, Level.MODEL), recorder, slots


def never() -> None:
    """Let the run go on."""


def queries(count: int) -> Iterator[Query]:
    for index in range(count):
        yield Query(index, [index % 50], issued_ns=index)


def answers(done: list[Query]) -> list[float]:
    assert all(query.outputs is not None for query in done)
    return [float(query.outputs["x"][0, 0]) for query in done if query.outputs is not None]


def test_order_is_kept_and_every_answer_is_its_query_s() -> None:
    stages, recorder, slots = stages_and(Model())
    done: list[Query] = []
    run_streaming(queries(200), stages, slots, recorder, done.append, never)
    assert [query.index for query in done] == list(range(200))
    assert answers(done) == [index % 50 for index in range(200)]


class Read(list[Any]):
    """Samples that say when one was read."""

    def __init__(self) -> None:
        super().__init__(SAMPLES)
        self.was_read = [threading.Event() for _ in SAMPLES]

    def __getitem__(self, index: Any) -> Any:
        self.was_read[index].set()
        return super().__getitem__(index)


def test_reading_predicting_and_finishing_overlap() -> None:
    model, read, predicted = Model(), Read(), threading.Event()

    def predict(inputs: Tensors) -> Tensors:
        """Predict once the next sample was read: never, where one waits for the other."""
        is_last = model.calls == _FEW - 1
        assert is_last or read.was_read[model.calls + 1].wait(_LONG_S), "reading waits"
        if model.calls:
            predicted.set()
        return model.predict(inputs)

    def finished(query: Query) -> None:
        assert query.index or predicted.wait(_LONG_S), "predicting waits"
        done.append(query)

    recorder = RunRecorder(Attempt("e", "r", 1, "a"), lambda _: True)
    stages = Stages(Supply(Pipeline(), read, 1), predict, recorder, Level.MODEL)
    slots = [Slot({"x": np.zeros((1, 1), np.float32)}) for _ in range(4)]
    done: list[Query] = []
    run_streaming(queries(_FEW), stages, slots, recorder, finished, never)
    assert [query.errors for query in done] == [[]] * _FEW


def test_inline_is_the_same() -> None:
    stages, recorder, slots = stages_and(Model())
    done: list[Query] = []
    run_inline(queries(60), stages, slots[0], recorder, done.append)
    assert answers(done) == [index % 50 for index in range(60)]


def test_a_stage_that_breaks_ends_the_run() -> None:
    stages, recorder, slots = stages_and(Model(raises_at=3))
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="a bug"):
        run_streaming(queries(500), stages, slots, recorder, lambda _: None, never)
    assert threading.active_count() == before


def test_an_issuer_that_breaks_leaves_no_thread() -> None:
    def torn() -> Iterator[Query]:
        yield from queries(3)
        raise Stopped("enough")

    stages, recorder, slots = stages_and(Model())
    before = threading.active_count()
    with pytest.raises(Stopped):
        run_streaming(torn(), stages, slots, recorder, lambda _: None, never)
    assert threading.active_count() == before


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_closed_loop_bounds_what_is_in_flight(count: int) -> None:
    load = scenario_named("batched")({"queries": count, "concurrency": 3}, 1, 50)
    flying, most = 0, 0
    stages, recorder, slots = stages_and(Model())
    done: list[int] = []

    def counted() -> Iterator[Query]:
        nonlocal flying, most
        for query in closed_loop(load, 0, 0, Unbounded(), never):
            flying += 1
            most = max(most, flying)
            yield query

    def finished(query: Query) -> None:
        nonlocal flying
        flying -= 1
        done.append(query.index)

    loop = ClosedLoop(counted(), load.concurrency)
    run_streaming(loop, stages, slots, recorder, finished, never)
    assert most == min(3, count)
    assert done == list(range(count))


def test_a_stage_that_fails_ends_a_closed_loop_with_its_own_error() -> None:
    load = scenario_named("batched")({"queries": 500, "concurrency": 2}, 1, 50)
    stages, recorder, slots = stages_and(Model(raises_at=7))
    loop = ClosedLoop(closed_loop(load, 0, 0, Unbounded(), never), load.concurrency)
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="a bug"):
        run_streaming(loop, stages, slots, recorder, lambda _: None, never)
    assert threading.active_count() == before


def test_a_stopped_closed_loop_ends() -> None:
    control = Control()
    key = AttemptKey("e", "r", 1)
    deadline = Deadline(control, key, 60.0)
    load = scenario_named("batched")({"queries": 500, "concurrency": 3}, 1, 50)
    stages, recorder, slots = stages_and(Model())
    done: list[Query] = []

    def finished(query: Query) -> None:
        done.append(query)
        if len(done) == 20:
            control.stop(key, "cancelled")

    loop = ClosedLoop(closed_loop(load, 0, 0, Unbounded(), deadline.check), load.concurrency)
    with deadline, pytest.raises(Stopped, match="cancelled"):
        run_streaming(loop, stages, slots, recorder, finished, deadline.check)
    assert 20 <= len(done) <= 20 + load.concurrency


def test_a_deadline_ends_a_run() -> None:
    deadline = Deadline(Control(), AttemptKey("e", "r", 1), 0.0)
    with deadline, pytest.raises(RunTimedOut, match="longer than 0 s"):
        deadline.check()


def test_what_still_waits_is_left_undone_when_the_run_must_end() -> None:
    done: list[Query] = []

    def enough() -> None:
        if done:
            raise Stopped("enough")

    slow = Model()
    stages, recorder, slots = stages_and(slow)
    slow.pause_s = 0.02
    with pytest.raises(Stopped):
        run_streaming(queries(500), stages, slots, recorder, done.append, enough)
    assert 0 < len(done) < 500
