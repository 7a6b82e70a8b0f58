"""The stages of one query: its samples are prepared, its batch predicted, its answer finished."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import CodeRaised, PredictFailed
from services.agent.predictors import (
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    CallPart,
    Layer,
    Pending,
    Tensors,
)
from services.agent.steps import Operator
from services.agent.worker.files.samples import CachedSamples
from services.agent.worker.queries.isolate_samples import (
    Retries,
    failing_samples,
    is_device_failure,
)
from services.agent.worker.queries.kept_outputs import KeptOutputs, OutputAnswers
from services.agent.worker.queries.non_finite import (
    are_finite,
    failed_positions,
    non_finite_outputs,
)
from services.agent.worker.queries.operator_runner import OperatorRunner, Supply
from services.agent.worker.queries.pipeline import (
    ANSWER,
    CALL,
    PREDICT,
    PREPARE,
    QUERY,
    PortOperators,
    spans_per_query,
    steps_before,
)
from services.agent.worker.queries.post_processing import PostProcessing
from services.agent.worker.queries.prepared import checksum_of
from services.agent.worker.queries.prepared_spans import PreparedBy, Stamps, prepared_rows
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.sample_steps import SampleSteps
from services.agent.worker.queries.scoring import ImagePlacement
from services.agent.worker.recorder import RunRecorder

PredictParts = Callable[[Tensors], tuple[Tensors, Sequence[CallPart]]]
"""See `PartsSource.predict_parts`."""
BeginCall = Callable[[Tensors], Pending]
"""See `OverlappingPredictor.begin`."""


class Stages:
    """The three stages of one run's queries, each called by one thread at a time except `fill`.

    From level model on, a span is recorded around every operator of every query. A sample fails
    alone where it can't be prepared, the model raises for it, or its answer can't be finished:
    another sample takes its place, and the rest of its batch is predicted and answered. Which
    sample it was is found by trying each alone, which is part of the query's own time; `notes`
    counts such queries.
    """

    def __init__(
        self,
        supply: Supply,
        predict: Callable[[Tensors], Tensors],
        recorder: RunRecorder,
        level: Level,
        *,
        outputs: int = 0,
        records_queries: bool = True,
        predict_parts: PredictParts | None = None,
    ) -> None:
        """Serve queries from a `supply`, with `predict`, and record them with a `recorder`.

        At most `outputs` samples keep their predictions. Without `records_queries` no rows of
        queries are recorded: the issuer of a remote load does that. `predict_parts` is that of a
        predictor that can tell a call's copies from its computing.
        """
        pipeline, samples = supply.pipeline, supply.samples
        self._clock = supply.predict_clock
        self._steps_before = steps_before(pipeline)
        self._sample_steps = SampleSteps(pipeline)
        #: one input, filled with samples as they are
        self._copies_samples = len(pipeline.before) == 1 and not self._steps_before
        if self._copies_samples and len(samples):
            has_files = isinstance(samples, CachedSamples)
            self._copies_samples = not has_files and not isinstance(samples[0], dict)
        #: the answer is the first output as it is
        self._keeps_output = pipeline.after == (PortOperators(""),) and not pipeline.code_after
        self._allow_nan = pipeline.allow_nan
        self._predict = predict
        self._predict_parts = predict_parts
        self._recorder = recorder
        self._level = level
        self._spans = recorder.spans
        self.kept_outputs = KeptOutputs(outputs, supply.truths, ImagePlacement.of(pipeline))
        self._records_queries = records_queries
        #: see `Supply`
        self.workers, self.pool = supply.workers, supply.pool
        self.prepared_by = PreparedBy()
        self._runner = OperatorRunner(supply, recorder, level)
        if predict_parts is not None:
            self._runner.note_names(CALL, COPY_IN, COMPUTE, COPY_OUT)
        self._post_processing = PostProcessing(pipeline, self._runner)
        self._spans_per_query = spans_per_query(pipeline, supply.batch_size, Level.MODEL)
        #: query, block and predict span of each call of a capture; None: a sample tried alone
        self._calls: list[tuple[int, int, int] | None] | None = None
        self._retries = Retries()

    @property
    def notes(self) -> list[str]:
        """What a reader of the run must know of its answers and their times."""
        repeated = self._retries.queries + self._post_processing.retries.queries
        notes = [*self.kept_outputs.notes, *self.prepared_by.notes]
        if not repeated:
            return notes
        note = (
            f"{repeated} queries were repeated sample by sample because a sample failed: their"
            " latencies include that"
        )
        return [*notes, note]

    def prepare(self, query: Query, slot: Slot) -> None:
        """Fill the slot with the query's samples."""
        self.begin(query, slot)
        self.fill(query, range(len(query.samples)))

    def begin(self, query: Query, slot: Slot) -> None:
        """Give a query its slot and its span ids."""
        query.slot = slot
        query.first_span = self._spans.reserve(self._spans_per_query)
        query.started_ns = now_ns()

    def fill(self, query: Query, positions: Iterable[int]) -> None:
        """Prepare the samples at some positions of a batch; several threads may share a batch."""
        assert query.slot is not None
        for position in positions:
            if self._copies_samples:
                query.slot.arrays[0][position] = self._runner.sample(query, position)
            else:
                self._prepare_sample(query, query.slot, position)

    def record_prepared(self, query: Query, stamps: Stamps, threads: Stamps) -> None:
        """Record the spans of a `query` whose samples processes prepared.

        `stamps` and `threads` are those of `prepared_rows`.
        """
        if self._runner.traces_steps:
            names = self._runner.name_ids
            step_names = [names[name] for name in self._sample_steps.names]
            self._spans.extend(prepared_rows(query, step_names, stamps, threads))

    def predict(self, query: Query) -> None:
        """Predict the batch, unless none of its samples is usable."""
        assert query.slot is not None
        if query.unusable:
            query.fail_samples(query.unusable)
            if not query.is_answered:
                return
            query.slot.replace_samples(query.failed, len(query.samples))
        times_ns = self._predict_slot(query, query.slot)
        span = query.first_span + 1 + len(query.samples) * self._steps_before
        self._record_predict(query, span, times_ns)

    def finish(self, query: Query) -> None:
        """Post-process, and record the query, its root span and its predictions."""
        answers = self._judged_answers(query)
        if self._level >= Level.APPLICATION:
            self._runner.record_root(query, QUERY, (query.issued_ns, query.ended_ns))
        self._keep(query, answers)
        if self._records_queries:
            self._recorder.query(query.row(), query.failed_samples)

    @property
    def traces_steps(self) -> bool:
        """Whether a span is recorded around every operator."""
        return self._runner.traces_steps

    def fill_untraced(self, query: Query, positions: Iterable[int]) -> None:
        """Prepare the samples at some positions of a batch without recording spans."""
        with self._untraced():
            self.fill(query, positions)

    def record_preparation(self, query: Query) -> None:
        """Record the root span of a batch that was prepared ahead, until now."""
        if self._runner.traces_steps:
            self._runner.record_root(query, PREPARE, (query.started_ns, now_ns()))

    def answer_ahead(self, query: Query, first_index: int) -> bool:
        """Predict and post-process a batch in its slot before the clock starts; keep its answers.

        They are those of the run's query `first_index`. The samples that failed are in `query`.
        Returns whether the model raises for some of its samples: others took their places.
        """
        self.predict(query)
        answers = self._judged_answers(query)
        if self._runner.traces_steps:
            self._runner.record_root(query, ANSWER, (query.started_ns, query.ended_ns))
        self._keep(replace(query, index=first_index), answers)
        has_replaced = self._retries.queries > 0
        # Samples tried one by one took no time of a timed query.
        self._retries, self._post_processing.retries = Retries(), Retries()
        return has_replaced

    def trace_parts(self, query: Query, slot: Slot) -> None:
        """Predict a batch in its slot before the clock starts, and record the parts of the call.

        Nothing is recorded where the steps are not traced, or the predictor can't tell the parts.
        Events that tell them apart cost about 0.1 ms a call, so timed calls have none.
        """
        if self._predict_parts is None or not self.traces_steps:
            return
        query.slot = slot
        query.first_span = root = self._spans.reserve(5)
        began = now_ns()
        try:
            _, parts = self._predict_parts(slot.inputs)
        except PredictFailed:
            return  # its timed calls report it
        times_ns = began, now_ns()
        self._runner.record_root(query, CALL, times_ns)
        self._runner.record_span_until(query, root + 1, PREDICT, times_ns)
        query.first_span = root + 1  # the span around the parts
        for number, part in enumerate(parts):
            ended_ns = part.start_ns + part.duration_ns
            self._runner.record_span_until(
                query, root + 2 + number, part.name, (part.start_ns, ended_ns)
            )

    def predict_ahead(self, query: Query, prepared: Query) -> None:
        """Predict a batch that was `prepared` ahead; samples that failed then fail again.

        The query ends when its outputs are in the host's memory.
        """
        slot = self._begin_ahead(query, prepared)
        times_ns = None
        if len(prepared.unusable) < len(query.samples):
            times_ns = self._predict_slot(query, slot)
        self._end_ahead(query, prepared, times_ns)

    def begin_ahead(self, query: Query, prepared: Query, begin: BeginCall) -> Pending | None:
        """Begin to predict the `prepared` batch of a `query` by `begin`; copies overlap others.

        Returns the call to hand to `end_ahead`; None where nothing could be begun.
        """
        slot = self._begin_ahead(query, prepared)
        if len(prepared.unusable) == len(query.samples):
            return None
        self._clock.since_ns = self._clock.since_ns or query.started_ns
        try:
            return begin(slot.inputs)
        except PredictFailed as error:
            self._predict_isolated(query, slot, error)
            return None

    def end_ahead(self, query: Query, prepared: Query, pending: Pending | None) -> None:
        """Wait for the outputs of a `pending` call, and end its `query` of a `prepared` batch."""
        assert query.slot is not None
        try:
            query.outputs = pending.wait() if pending is not None else query.outputs
        except PredictFailed as error:
            self._predict_isolated(query, query.slot, error)
        times_ns = query.started_ns, now_ns()
        # The call after it was begun meanwhile, and is under way from now on.
        self._clock.since_ns = times_ns[1] if self._clock.since_ns else 0
        self._end_ahead(query, prepared, times_ns if pending is not None else None)

    def end_calls(self) -> None:
        """Note that no call is under way any more."""
        self._clock.since_ns = 0

    def _begin_ahead(self, query: Query, prepared: Query) -> Slot:
        assert prepared.slot is not None
        query.slot = prepared.slot
        query.first_span = self._spans.reserve(2)
        query.started_ns = query.ended_ns = now_ns()
        return prepared.slot

    def _end_ahead(self, query: Query, prepared: Query, times_ns: tuple[int, int] | None) -> None:
        """Check and record a query whose predict call began and ended at `times_ns`, if it did.

        Checks and records are mlscope's own and no part of the answer.
        """
        if times_ns is not None:
            query.ended_ns = times_ns[1]
            self._record_predict(query, query.first_span + 1, times_ns)
        query.copy_failures(prepared)
        if query.is_answered and query.outputs is not None and not are_finite(query.outputs):
            self._fail_non_finite(query, query.outputs)
        if prepared.outputs_checksum is not None and self.kept_outputs.may_compare(query):
            self._compare(query, prepared.outputs_checksum)
        if self._level >= Level.APPLICATION:
            self._runner.record_root(query, QUERY, (query.issued_ns, query.ended_ns))
        if self._records_queries:
            self._recorder.query(query.row(), query.failed_samples)

    def predict_with(self, predict: Callable[[Tensors], Tensors]) -> None:
        """Predict the next queries with a capture, and note which query each call is of."""
        self._predict = predict
        self._calls = []

    def attach_layers(self, calls: Sequence[Sequence[Layer]]) -> bool:
        """Record the layers of the capture's predict calls under their predict spans.

        Returns False, and records nothing, when the numbers of calls differ.
        """
        noted_calls, self._calls = self._calls or [], None
        if len(noted_calls) != len(calls):
            return False
        for call, layers in zip(noted_calls, calls, strict=True):
            if call is None:
                continue
            query, block, parent = call
            first = self._spans.reserve(len(layers))
            for offset, layer in enumerate(layers):
                name = self._spans.name_id(layer.name)
                row = (first + offset, parent, Level.FRAMEWORK, name, layer.start_ns)
                context = (layer.duration_ns, layer.thread, query, block, layer.attributes)
                self._spans.append((*row, *context))
        return True

    @contextlib.contextmanager
    def _untraced(self) -> Iterator[None]:
        traces_steps, self._runner.traces_steps = self._runner.traces_steps, False
        try:
            yield
        finally:
            self._runner.traces_steps = traces_steps

    def _predict_slot(self, query: Query, slot: Slot) -> tuple[int, int]:
        """Predict a slot; return when that began and ended (CLOCK_MONOTONIC ns)."""
        self._clock.since_ns = began = now_ns()
        try:
            query.outputs = self._predict(slot.inputs)
        except PredictFailed as error:
            self._predict_isolated(query, slot, error)
        ended = now_ns()
        self._clock.since_ns = 0
        return began, ended

    def _record_predict(self, query: Query, span: int, times_ns: tuple[int, int]) -> None:
        """Record the span of a predict call, and which query a capture's call is of."""
        if not self._runner.traces_steps:
            return
        self._runner.record_span_until(query, span, PREDICT, times_ns)
        if self._calls is not None and query.outputs is not None:
            self._calls.append((query.index, query.block, span))

    def _judged_answers(self, query: Query) -> OutputAnswers | None:
        """Return a query's answers after the last step; samples with a bad one fail."""
        answers: OutputAnswers | None = None
        if query.outputs is not None and not self._keeps_output:
            answers = self._post_processing.answers(query, query.outputs)
        query.ended_ns = now_ns()
        # After the last stamp: this check is mlscope's own and no part of the answer.
        if query.outputs is not None and not are_finite(query.outputs):
            self._fail_non_finite(query, query.outputs)
        return answers

    def _compare(self, query: Query, outputs_checksum: int) -> None:
        """Compare a query's outputs with those of its batch before the clock; keep other ones."""
        if query.outputs is None:
            return
        if checksum_of(query.outputs) == outputs_checksum:
            self.kept_outputs.count_equal(query)
            return
        answers: OutputAnswers | None = None
        other = replace(query, errors=[])
        if not self._keeps_output:
            with self._untraced():
                answers = self._post_processing.answers(other, query.outputs)
        self._keep(other, answers)

    def _keep(self, query: Query, answers: OutputAnswers | None) -> None:
        if self.kept_outputs.has_room and query.outputs is not None:
            if self._keeps_output:
                answers = (("", next(iter(query.outputs.values()))),)
            self.kept_outputs.keep(self._recorder, query, answers)

    def _prepare_sample(self, query: Query, slot: Slot, position: int) -> None:
        first = query.first_span + 1 + position * self._steps_before

        def apply(number: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
            return self._runner.apply(query, first + number, operator, arguments)

        read = partial(self._runner.sample, query, position)
        if fault := self._sample_steps.prepare(read, slot.arrays, position, apply):
            name, error = fault
            query.unusable[position] = self._runner.failure(query, position, name, error)
            if isinstance(error, CodeRaised):
                query.code_error = error

    def _predict_isolated(self, query: Query, slot: Slot, error: PredictFailed) -> None:
        """Predict a failed batch again without those of its samples that fail alone, too.

        Where none or all of them do, or the device itself failed, no sample has an answer.
        """
        places = query.good_places
        if len(places) < 2 or is_device_failure(error) or not self._retries.are_useful:
            query.fail(str(error))
            return

        def predict_one(inputs: Tensors) -> None:
            self._clock.since_ns = now_ns()
            self._predict(inputs)
            if self._calls is not None:
                self._calls.append(None)  # its layers belong to no query

        try:
            failing = failing_samples(slot, places, predict_one)
            has_cause = 0 < len(failing) < len(places)
            self._retries.note(has_cause=has_cause)
            if not has_cause:
                raise error
            reasons = {
                place: self._runner.failure(query, place, PREDICT, cause.reason)
                for place, cause in failing.items()
            }
            query.fail_samples(reasons)
            slot.replace_samples(query.failed, len(query.samples))
            self._clock.since_ns = now_ns()
            query.outputs = self._predict(slot.inputs)
        except PredictFailed as last_error:
            query.fail(str(last_error))

    def _fail_non_finite(self, query: Query, outputs: Tensors) -> None:
        """Fail the samples with NaN or infinite outputs, except outputs where these are valid."""
        count = len(query.samples)
        for fault in non_finite_outputs(outputs, self._allow_nan):
            positions = frozenset(failed_positions(fault, count))
            if len(positions) >= count:
                query.fail(str(fault))
                continue
            failed = positions - query.failed
            query.fail_samples(
                {at: self._runner.failure(query, at, PREDICT, fault) for at in failed}
            )
