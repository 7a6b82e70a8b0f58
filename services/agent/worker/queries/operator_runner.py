"""Runs the operators of a query, each within a span, and words the failures of its samples."""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlscope.datasets.truth import Truth
from mlscope.tracing.clock import now_ns
from mlscope.tracing.spans import NO_ATTRIBUTES, NO_PARENT
from schemas.level import Level
from services.agent.errors import SampleUnusable
from services.agent.link.preparation_clock import PreparationClock
from services.agent.machine.cores import ANYWHERE
from services.agent.steps import Operator
from services.agent.worker.answers.sample_failure import failure_of
from services.agent.worker.preparation.session_pool import SessionPool
from services.agent.worker.queries.pipeline import ANSWER, PREDICT, PREPARE, QUERY, Pipeline
from services.agent.worker.queries.query import Query
from services.agent.worker.recorder import RunRecorder


@dataclass(slots=True)
class PredictClock:
    """When the current predict call began (CLOCK_MONOTONIC ns); 0 outside of any."""

    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class Supply:
    """What a session serves queries from."""

    pipeline: Pipeline
    samples: Sequence[Any]
    batch_size: int
    predict_clock: PredictClock = field(default_factory=PredictClock)
    #: of the samples that this process's threads prepare
    preparation_clock: PreparationClock = field(default_factory=PreparationClock)
    #: the ground truth of each sample; empty for a dataset without
    truths: Sequence[Truth | None] = ()
    #: threads that prepare the samples of one batch, where no processes do
    workers: int = 1
    #: the processes that prepare streamed samples
    pool: SessionPool | None = None
    #: why there is none where processes would have work
    pool_refusal: str = ""
    #: that the thread which calls the model is kept on
    predicting_cores: frozenset[int] = ANYWHERE


class OperatorRunner:
    """Runs the operators of one run's queries, over the samples of a `supply`.

    From `level` model on, a `recorder` gets a span around each.
    """

    def __init__(self, supply: Supply, recorder: RunRecorder, level: Level) -> None:
        pipeline = supply.pipeline
        self._dataset_samples = supply.samples
        # Each call of inline code has a time limit of its own.
        self._preparation_clock = None if pipeline.code_before else supply.preparation_clock
        self._spans = recorder.spans
        self.traces_steps = level >= Level.MODEL
        ports = (*pipeline.before, *pipeline.after)
        names = (
            QUERY,
            PREDICT,
            PREPARE,
            ANSWER,
            *(code.name for code in (*pipeline.code_before, *pipeline.code_after)),
            *(step.name for port in ports for step in port.steps),
        )
        #: the ids of the names of its spans
        self.name_ids: dict[str, int] = {}
        self.note_names(*names)

    def note_names(self, *names: str) -> None:
        """Let spans have these names."""
        self.name_ids |= {name: self._spans.name_id(name) for name in names}

    def sample(self, query: Query, position: int) -> Any:
        """Return a sample that came with the query, or the dataset's. Raises DatasetError."""
        if query.payload is not None:
            return query.payload[position]
        return self._dataset_samples[query.samples[position]]

    def samples(self, query: Query) -> list[Any]:
        """Return the samples of a batch as they were read, None for bad ones."""
        places = range(len(query.samples))
        return [None if at in query.failed else self.sample(query, at) for at in places]

    def preparing(self, query: Query, position: int) -> contextlib.AbstractContextManager[None]:
        """Let the host know that the sample at a `position` of a `query` is prepared meanwhile."""
        if self._preparation_clock is None:
            return contextlib.nullcontext()
        sample = position if query.payload is not None else query.samples[position]
        return self._preparation_clock.preparing(sample)

    def apply(self, query: Query, span: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
        """Return an operator's result for a `query` and `arguments`; `span` is its span's id."""
        began = now_ns()
        try:
            return operator.apply(*arguments)
        finally:
            if self.traces_steps:
                self.record_span(query, span, operator.name, began)

    def record_span(self, query: Query, span: int, name: str, began: int) -> None:
        """Record a `query`'s span with a `name` and the id `span`, from `began` (ns) until now."""
        self.record_span_until(query, span, name, (began, now_ns()))

    def record_span_until(
        self, query: Query, span: int, name: str, times_ns: tuple[int, int], thread: int = 0
    ) -> None:
        """Record a `query`'s span with a `name` and the id `span`, of these `times_ns`.

        `thread` is the native id of the one that did the work; 0: this one.
        """
        began, ended = times_ns
        row = (span, query.first_span, Level.MODEL, self.name_ids[name], began, ended - began)
        thread = thread or threading.get_native_id()
        self._spans.append((*row, thread, query.index, query.block, NO_ATTRIBUTES))

    def record_root(self, query: Query, name: str, times_ns: tuple[int, int]) -> None:
        """Record a `query`'s root span with a `name`, from and until `times_ns`."""
        began, ended = times_ns
        row = (query.first_span, NO_PARENT, Level.APPLICATION, self.name_ids[name], began)
        thread = threading.get_native_id()
        self._spans.append((*row, ended - began, thread, query.index, query.block, NO_ATTRIBUTES))

    def failure(self, query: Query, position: int, operator: str, reason: object) -> str:
        """Return why the sample at a `position` of a `query` has no answer.

        It has the sample's number, the `operator`, the `reason`, and the sample's name where the
        dataset has one.
        """
        if query.payload is not None:
            return str(SampleUnusable(position, operator, str(reason)))
        return failure_of(self._dataset_samples, query.samples[position], operator, reason)
