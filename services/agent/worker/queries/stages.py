"""The stages of one query: its samples are prepared, its batch predicted, its answer finished."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from mlscope.counts import many
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import CodeRaised
from services.agent.predictors import Pending, Tensors
from services.agent.steps import Operator
from services.agent.worker.answers.isolate_samples import Retries
from services.agent.worker.answers.kept_outputs import (
    MOST_REPEATS,
    KeptOutputs,
    OutputAnswers,
)
from services.agent.worker.answers.non_finite import (
    are_finite,
    failed_positions,
    non_finite_outputs,
)
from services.agent.worker.answers.post_processing import PostProcessing
from services.agent.worker.answers.scoring import ImagePlacement
from services.agent.worker.files.samples import CachedSamples
from services.agent.worker.preparation.finishing import FinishingProcess
from services.agent.worker.queries.device_decoding import DeviceDecodingFilling
from services.agent.worker.queries.operator_runner import OperatorRunner, Supply
from services.agent.worker.queries.pipeline import (
    ANSWER,
    PREDICT,
    PREPARE,
    QUERY,
    PortOperators,
    spans_per_query,
    steps_before,
)
from services.agent.worker.queries.predict_calls import (
    BeginCall,
    BegunCall,
    PredictCalls,
    PredictParts,
)
from services.agent.worker.queries.prepared import checksum_of
from services.agent.worker.queries.prepared_spans import PreparedBy, PreparedSteps, prepared_rows
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.sample_steps import SampleSteps
from services.agent.worker.recorder import RunRecorder

MOST_DEFERRED = 64
"""Queries of a block whose differing outputs, 1 MiB at most each, wait for the clock to stop."""


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
    ) -> None:
        """Serve queries from a `supply`, with `predict`, and record them with a `recorder`.

        At most `outputs` samples keep their predictions. Without `records_queries` no rows of
        queries are recorded: the issuer of a remote load does that.
        """
        pipeline, samples = supply.pipeline, supply.samples
        self._steps_before = steps_before(pipeline)
        self._sample_steps = SampleSteps(pipeline)
        #: one input, filled with samples as they are
        self._copies_samples = len(pipeline.before) == 1 and not self._steps_before
        self._copies_samples &= not any(port.limits for port in pipeline.before)
        if self._copies_samples and len(samples):
            has_files = isinstance(samples, CachedSamples)
            self._copies_samples = not has_files and not isinstance(samples[0], dict)
        #: the answer is the first output as it is
        self._keeps_output = pipeline.after == (PortOperators(""),) and not pipeline.code_after
        self._allow_nan = pipeline.allow_nan
        self._recorder = recorder
        self._level = level
        self._spans = recorder.spans
        self.kept_outputs = KeptOutputs(outputs, supply.truths, ImagePlacement.of(pipeline))
        #: queries whose outputs differ from their batch's, with copies of them
        self._differing: list[Query] = []
        self._records_queries = records_queries
        #: see `Supply`
        self.workers, self.pool = supply.workers, supply.pool
        self.pool_refusal, self.predicting_cores = supply.pool_refusal, supply.predicting_cores
        self.prepared_by = PreparedBy()
        #: begins the calls of streamed queries, where they overlap; else None
        self.begin_call: BeginCall | None = None
        self._runner = OperatorRunner(supply, recorder, level)
        self._calls = PredictCalls(predict, supply.predict_clock, self._runner, recorder)
        #: see `PredictCalls`
        self.predict_with, self.attach_layers = self._calls.predict_with, self._calls.attach_layers
        self.trace_parts, self.end_calls = self._calls.trace_parts, self._calls.end_all
        self._post_processing = PostProcessing(pipeline, self._runner)
        self._device_decoding = None
        if pipeline.device_decoding is not None:
            names = self._sample_steps.names
            self._device_decoding = DeviceDecodingFilling(
                pipeline.device_decoding, names, self._runner, self._prepare_sample
            )
        self._spans_per_query = spans_per_query(pipeline, supply.batch_size, Level.MODEL)

    @property
    def notes(self) -> list[str]:
        """What a reader of the run must know of its answers and their times."""
        repeated = self._calls.retries.queries + self._post_processing.retries.queries
        notes = [*self.kept_outputs.notes, *self.prepared_by.notes]
        if deaths := self._post_processing.deaths:
            notes.append(f"{many(deaths, 'process')} ended while post-processing; replaced")
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
        if self._device_decoding is not None:
            self._device_decoding.fill(query, query.slot, list(positions))
            return
        for position in positions:
            if self._copies_samples:
                query.slot.arrays[0][position] = self._runner.sample(query, position)
            else:
                read = partial(self._runner.sample, query, position)
                self._prepare_sample(query, query.slot, position, read)

    def record_prepared(self, prepared: PreparedSteps) -> None:
        """Record the spans of a query whose samples processes `prepared`."""
        names = self._runner.name_ids
        step_names = [names[name] for name in self._sample_steps.names]
        self._spans.extend(prepared_rows(prepared, step_names))

    def predict(self, query: Query) -> None:
        """Predict the batch, unless none of its samples is usable."""
        if (slot := self._slot_to_predict(query)) is not None:
            times_ns = self._calls.predict_isolating(query, slot)
            self._calls.record(query, self._predict_span(query), times_ns)

    def begin_predict(self, query: Query, begin: BeginCall) -> BegunCall | None:
        """Begin to predict the batch by `begin`, so that copies overlap other calls.

        Returns the call to hand to `end_predict`; None where no sample is usable.
        """
        slot = self._slot_to_predict(query)
        return None if slot is None else self._calls.begin_isolating(slot, begin)

    def end_predict(self, query: Query, begun: BegunCall | None) -> None:
        """Wait for the outputs of a call that `begin_predict` returned."""
        if begun is not None and query.slot is not None:
            times_ns = self._calls.end_isolating(query, query.slot, begun)
            self._calls.record(query, self._predict_span(query), times_ns)

    def _slot_to_predict(self, query: Query) -> Slot | None:
        """Return a query's slot, good samples in place of bad ones; None where all are bad."""
        assert query.slot is not None
        if query.unusable:
            query.fail_samples(query.unusable)
            if not query.is_answered:
                return None
            query.slot.replace_samples(query.failed, len(query.samples))
        return query.slot

    def _predict_span(self, query: Query) -> int:
        return query.first_span + 1 + len(query.samples) * self._steps_before

    def finish(self, query: Query, apart: FinishingProcess | None = None) -> None:
        """Post-process, and record the query, its root span and its predictions.

        The steps behind the model run in a process, `apart`, if one is given.
        """
        answers = self._judged_answers(query, apart)
        if self._level >= Level.APPLICATION:
            self._runner.record_root(query, QUERY, (query.issued_ns, query.ended_ns))
        self._keep(query, answers)
        if self._records_queries:
            self._recorder.query(query.row(), query.failed_samples)

    @property
    def fills_whole_batches(self) -> bool:
        """Whether all samples of a batch are prepared at once, by the model's device."""
        return self._device_decoding is not None

    @property
    def traces_steps(self) -> bool:
        """Whether a span is recorded around every operator."""
        return self._runner.traces_steps

    def fill_untraced(self, query: Query, positions: Iterable[int]) -> None:
        """Prepare the samples at some positions of a batch by threads, without recording spans."""
        if self._device_decoding is not None:
            with self._untraced():
                self.fill(query, positions)
            return
        with self._untraced(), ThreadPoolExecutor(self.workers) as threads:
            for task in [threads.submit(self.fill, query, [position]) for position in positions]:
                task.result()

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
        has_replaced = self._calls.retries.queries > 0
        # Samples tried one by one took no time of a timed query.
        self._calls.retries, self._post_processing.retries = Retries(), Retries()
        return has_replaced

    def predict_ahead(self, query: Query, prepared: Query) -> None:
        """Predict a batch that was `prepared` ahead; samples that failed then fail again.

        The query ends when its outputs are in the host's memory.
        """
        slot = self._start_ahead(query, prepared)
        times_ns = None
        if len(prepared.unusable) < len(query.samples):
            times_ns = self._calls.predict(query, slot)
        self._record_ahead(query, prepared, times_ns)

    def divide_calls_by(self, predict_parts: PredictParts) -> None:
        """Use a predictor that tells a call's copies from its computing, in `trace_parts`."""
        self._calls.divide_by(predict_parts)

    def begin_ahead(self, query: Query, prepared: Query, begin: BeginCall) -> Pending | None:
        """Begin to predict the `prepared` batch of a `query` by `begin`; copies overlap others.

        Returns the call to hand to `end_ahead`; None where nothing could be begun.
        """
        slot = self._start_ahead(query, prepared)
        if len(prepared.unusable) == len(query.samples):
            return None
        return self._calls.begin(query, slot, begin)

    def end_ahead(self, query: Query, prepared: Query, pending: Pending | None) -> None:
        """Wait for the outputs of a `pending` call, and end its `query` of a `prepared` batch."""
        self._record_ahead(query, prepared, self._calls.end(query, pending))

    def _start_ahead(self, query: Query, prepared: Query) -> Slot:
        assert prepared.slot is not None
        query.slot = prepared.slot
        query.first_span = self._spans.reserve(2)
        query.started_ns = query.ended_ns = now_ns()
        return prepared.slot

    def _record_ahead(
        self, query: Query, prepared: Query, times_ns: tuple[int, int] | None
    ) -> None:
        """Check and record a query whose predict call began and ended at `times_ns`, if it did.

        Checks and records are mlscope's own and no part of the answer.
        """
        if times_ns is not None:
            query.ended_ns = times_ns[1]
            self._calls.record(query, query.first_span + 1, times_ns)
        query.copy_failures(prepared)
        if query.is_answered and query.outputs is not None and not are_finite(query.outputs):
            self._fail_non_finite(query, query.outputs)
        if prepared.outputs_checksum is not None and self.kept_outputs.may_compare(query):
            self._compare(query, prepared.outputs_checksum)
        if self._level >= Level.APPLICATION:
            self._runner.record_root(query, QUERY, (query.issued_ns, query.ended_ns))
        if self._records_queries:
            self._recorder.query(query.row(), query.failed_samples)

    @contextlib.contextmanager
    def _untraced(self) -> Iterator[None]:
        traces_steps, self._runner.traces_steps = self._runner.traces_steps, False
        try:
            yield
        finally:
            self._runner.traces_steps = traces_steps

    def _judged_answers(
        self, query: Query, apart: FinishingProcess | None = None
    ) -> OutputAnswers | None:
        """Return a query's answers after the last step; samples with a bad one fail.

        `apart` as in `finish`.
        """
        answers: OutputAnswers | None = None
        if query.outputs is not None and not self._keeps_output:
            answers = self._post_processing.answers(query, query.outputs, apart)
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
        alike = sum(earlier.samples == query.samples for earlier in self._differing)
        if alike < MOST_REPEATS and len(self._differing) < MOST_DEFERRED:
            outputs = {name: array.copy() for name, array in query.outputs.items()}
            self._differing.append(replace(query, errors=[], outputs=outputs))

    def settle_repeats(self) -> None:
        """Keep the answers that differ from the first ones, once the clock has stopped.

        Post-processing them takes long, and would delay the next queries.
        """
        differing, self._differing = self._differing, []
        retries = replace(self._post_processing.retries)
        for query in differing:
            answers: OutputAnswers | None = None
            if query.outputs is not None and not self._keeps_output:
                with self._untraced():
                    answers = self._post_processing.answers(query, query.outputs)
            self._keep(query, answers)
        # Samples tried one by one took no time of a timed query.
        self._post_processing.retries = retries

    def _keep(self, query: Query, answers: OutputAnswers | None) -> None:
        if self.kept_outputs.has_room and query.outputs is not None:
            if self._keeps_output:
                answers = (("", next(iter(query.outputs.values()))),)
            self.kept_outputs.keep(self._recorder, query, answers)

    def _prepare_sample(
        self, query: Query, slot: Slot, position: int, read: Callable[[], Any]
    ) -> None:
        first = query.first_span + 1 + position * self._steps_before

        def apply(number: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
            return self._runner.apply(query, first + number, operator, arguments)

        with self._runner.preparing(query, position):
            fault = self._sample_steps.prepare(read, slot.arrays, position, apply)
        if fault:
            name, error = fault
            query.unusable[position] = self._runner.failure(query, position, name, error)
            if isinstance(error, CodeRaised):
                query.code_error = error

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
