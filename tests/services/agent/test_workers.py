"""Workers that share a batch's samples: order, bounds, ends, and true spans."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.batches import Attempt, columns_of
from mlscope.tracing.clock import now_ns
from schemas.batch import Batch, TraceCaptured
from schemas.level import Level
from services.agent.errors import Stopped
from services.agent.link.batches import unpack_batch
from services.agent.predictors import Tensors
from services.agent.steps import Operator
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import run_streaming, workers_for
from services.agent.worker.recorder import RunRecorder

BATCH, WORKERS, QUERIES = 8, 3, 12
LONG_S = 60.0


def same(value: Any) -> Any:
    return value


class Run:
    """The identity over plain numbers, each prepared by `step`."""

    def __init__(
        self, step: Callable[[Any], Any] = same, predict: Callable[[Tensors], Tensors] | None = None
    ) -> None:
        self.facts: list[Batch] = []
        self.recorder = RunRecorder(Attempt("e", "r", 1, "a"), self._take)
        pipeline = Pipeline((PortOperators("", (Operator("step", step),)),))
        samples = [np.array([number], np.float32) for number in range(BATCH * QUERIES)]
        supply = Supply(pipeline, samples, BATCH, workers=WORKERS)
        self.stages = Stages(supply, predict or copies, self.recorder, Level.MODEL)
        self.slots = [Slot({"x": np.zeros((BATCH, 1), np.float32)}) for _ in range(3)]
        self.done: list[Query] = []

    def go(self, check: Callable[[], None] = lambda: None, queries: int = QUERIES) -> None:
        """Take the queries through."""
        asked = (Query(n, range(n * BATCH, (n + 1) * BATCH), issued_ns=1) for n in range(queries))
        run_streaming(asked, self.stages, self.slots, self.recorder, self.done.append, check)

    def traced(self) -> dict[str, Any]:
        """Return the columns of the run's only batch of spans."""
        self.recorder.flush()
        (columns,) = (columns_of(fact) for fact in self.facts if isinstance(fact, TraceCaptured))
        return columns

    def _take(self, body: bytes) -> bool:
        self.facts.append(unpack_batch(body))
        return True


def copies(inputs: Tensors) -> Tensors:
    return {name: array.copy() for name, array in inputs.items()}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_order_is_kept_and_every_sample_is_in_its_place() -> None:
    run = Run()
    run.go()
    assert [query.index for query in run.done] == list(range(QUERIES))
    answers = [query.outputs["x"].ravel().tolist() for query in run.done if query.outputs]
    assert answers == [list(range(n * BATCH, (n + 1) * BATCH)) for n in range(QUERIES)]


def test_workers_prepare_one_batch_together() -> None:
    together = threading.Barrier(WORKERS)

    def meet(value: Any) -> Any:
        # Passed only where as many samples as there are workers are prepared at one time.
        if value[0] % BATCH < WORKERS:
            together.wait(LONG_S)
        return value

    run = Run(meet)
    run.go(queries=1)
    assert not run.done[0].errors


def test_samples_that_are_no_good_fail_alone_and_are_named_in_order() -> None:
    def torn(value: Any) -> Any:
        if value[0] in (1, 6):
            raise ValueError("torn")
        return value

    run = Run(torn)
    run.go(queries=2)
    assert run.done[0].errors == ["sample 1: step: torn", "sample 6: step: torn"]
    assert run.done[0].failed == {1, 6}
    assert run.done[0].outputs is not None
    assert run.done[0].outputs["x"].ravel().tolist() == [0, 0, 2, 3, 4, 5, 0, 7]
    assert not run.done[1].errors


def test_a_worker_that_breaks_ends_the_run() -> None:
    def bug(value: Any) -> Any:
        if value[0] == 30:
            raise RuntimeError("a bug")
        return value

    with pytest.raises(RuntimeError, match="a bug"):
        Run(bug).go()


def test_no_more_is_prepared_than_there_are_slots() -> None:
    begun: set[int] = set()
    most = 0

    def count(value: Any) -> Any:
        begun.add(int(value[0]) // BATCH)
        return value

    def predict(inputs: Tensors) -> Tensors:
        nonlocal most
        # Of the batches begun, those before this one are predicted, though maybe not finished.
        most = max(most, len(begun) - int(inputs["x"][0, 0]) // BATCH)
        return copies(inputs)

    run = Run(count, predict)
    run.go()
    assert 1 <= most <= len(run.slots)


def test_a_run_that_must_end_does_not_finish_its_batch() -> None:
    seen: list[int] = []
    first, ended = threading.Event(), threading.Event()

    def held(value: Any) -> Any:
        seen.append(int(value[0]))
        first.set()
        ended.wait(LONG_S)
        return value

    def check() -> None:
        if first.is_set():
            ended.set()
            raise Stopped("enough")

    run = Run(held)
    with pytest.raises(Stopped):
        run.go(check)
    assert not run.done
    assert len(seen) < BATCH * QUERIES


def test_spans_have_ids_of_their_own_and_true_times() -> None:
    seen: list[tuple[int, int]] = []

    def noted(value: Any) -> Any:
        seen.append((threading.get_native_id(), now_ns()))
        return value

    run = Run(noted)
    run.go(queries=3)
    columns = run.traced()
    assert sorted(columns["span"].tolist()) == list(range(1, 3 * (BATCH + 2) + 1))
    rows = zip(columns["thread"], columns["start_ns"], columns["duration_ns"], strict=True)
    spans = [row for row, level in zip(rows, columns["parent"] > 0, strict=True) if level]
    for thread, at in seen:
        assert any(thread == t and start <= at <= start + length for t, start, length in spans)


def test_the_predicting_thread_helps_where_it_would_wait() -> None:
    helped = threading.Event()
    predicting: list[int] = []

    def step(value: Any) -> Any:
        if predicting == [threading.get_ident()]:
            helped.set()
        elif value[0] >= BATCH:
            # Of the second batch the workers prepare nothing until somebody else does.
            helped.wait(LONG_S)
        return value

    def predict(inputs: Tensors) -> Tensors:
        predicting[:] = [threading.get_ident()]
        return copies(inputs)

    run = Run(step, predict)
    run.go(queries=3)
    assert helped.is_set()


@pytest.mark.parametrize(
    ("steps", "batch_size", "cores", "predicting", "workers"),
    [
        (0, 32, 8, 1, 1),
        (5, 1, 8, 1, 1),
        (5, 4, 8, 1, 4),
        (5, 32, 8, 1, 7),
        (5, 32, 8, 8, 4),
        (5, 32, 2, 2, 1),
        (5, 32, 1, 1, 1),
        (5, 256, 96, 1, 16),
    ],
)
def test_there_are_as_many_workers_as_can_help(
    steps: int, batch_size: int, cores: int, predicting: int, workers: int
) -> None:
    assert workers_for(steps, batch_size, cores, predicting) == workers
