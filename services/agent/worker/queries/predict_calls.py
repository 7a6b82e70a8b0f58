"""The predict calls of one run: their spans and layers, and samples that fail alone."""

from collections.abc import Callable, Sequence

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import PredictFailed
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, CallPart, Layer, Pending, Tensors
from services.agent.worker.answers.isolate_samples import (
    Retries,
    failing_samples,
    is_device_failure,
)
from services.agent.worker.queries.operator_runner import OperatorRunner, PredictClock
from services.agent.worker.queries.pipeline import CALL, PREDICT
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.recorder import RunRecorder

BeginCall = Callable[[Tensors], Pending]
"""See `OverlappingPredictor.begin`."""
BegunCall = tuple[int, Pending | None]
"""When a call was begun (CLOCK_MONOTONIC ns), and what waits for it; None: it could not be."""
PredictParts = Callable[[Tensors], tuple[Tensors, Sequence[CallPart]]]
"""See `PartsSource.predict_parts`."""


class PredictCalls:
    """Predicts batches in their slots, one call at a time but those begun ahead."""

    def __init__(
        self,
        predict: Callable[[Tensors], Tensors],
        clock: PredictClock,
        runner: OperatorRunner,
        recorder: RunRecorder,
    ) -> None:
        """Call `predict`, and note in `clock` when; `runner` and `recorder` record the spans."""
        self._predict = predict
        self._predict_parts: PredictParts | None = None
        self._clock, self._runner, self._spans = clock, runner, recorder.spans
        #: query, block and predict span of each call of a capture; None: a sample tried alone
        self._calls: list[tuple[int, int, int] | None] | None = None
        self.retries = Retries()

    def divide_by(self, predict_parts: PredictParts) -> None:
        """Let `trace_parts` use a predictor that tells a call's copies from its computing."""
        self._predict_parts = predict_parts
        self._runner.note_names(CALL, COPY_IN, COMPUTE, COPY_OUT)

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

    def predict_isolating(self, query: Query, slot: Slot) -> tuple[int, int]:
        """Predict the slot of a `query`; return when that began and ended (CLOCK_MONOTONIC ns).

        Where the model raises, the samples that it raises for are found and fail alone; another
        one takes their places in the slot.
        """
        self._clock.since_ns = began = now_ns()
        try:
            query.outputs = self._predict(slot.inputs)
        except PredictFailed as error:
            self._predict_isolated(query, slot, error)
        ended = now_ns()
        self._clock.since_ns = 0
        return began, ended

    def predict(self, query: Query, slot: Slot) -> tuple[int, int]:
        """Predict a prepared `slot`, which stays as it is; return when that began and ended.

        Samples that the model raises for were replaced before: where it raises, all fail.
        """
        self._clock.since_ns = began = now_ns()
        try:
            query.outputs = self._predict(slot.inputs)
        except PredictFailed as error:
            query.fail(str(error))
        ended = now_ns()
        self._clock.since_ns = 0
        return began, ended

    def begin(self, query: Query, slot: Slot, begin: BeginCall) -> Pending | None:
        """Begin the call of a `query` in its `slot` by `begin`; None where it can't be begun."""
        self._clock.since_ns = self._clock.since_ns or query.started_ns
        try:
            return begin(slot.inputs)
        except PredictFailed as error:
            query.fail(str(error))
            return None

    def end(self, query: Query, pending: Pending | None) -> tuple[int, int] | None:
        """Wait for the outputs of a `pending` call; return its times, None where there is none."""
        try:
            query.outputs = pending.wait() if pending is not None else None
        except PredictFailed as error:
            query.fail(str(error))
        ended_ns = now_ns()
        # The call after it was begun meanwhile, and is under way from now on.
        self._clock.since_ns = ended_ns if self._clock.since_ns else 0
        return (query.started_ns, ended_ns) if pending is not None else None

    def begin_isolating(self, slot: Slot, begin: BeginCall) -> BegunCall:
        """Begin the call of a `slot` by `begin`; `end_isolating` ends it, also if that failed."""
        began_ns = now_ns()
        self._clock.since_ns = self._clock.since_ns or began_ns
        try:
            return began_ns, begin(slot.inputs)
        except PredictFailed:
            return began_ns, None

    def end_isolating(self, query: Query, slot: Slot, begun: BegunCall) -> tuple[int, int]:
        """Wait for the outputs of a `begun` call; return when it began and ended.

        Where it fails, the `slot` of the `query` is predicted again, as by `predict_isolating`.
        """
        began_ns, pending = begun
        try:
            query.outputs = pending.wait() if pending is not None else None
        except PredictFailed:
            pending = None
        if pending is None:
            self.predict_isolating(query, slot)
        # The call after it was begun meanwhile, and is under way from now on.
        self._clock.since_ns = ended_ns = now_ns()
        return began_ns, ended_ns

    def end_all(self) -> None:
        """Note that no call is under way any more."""
        self._clock.since_ns = 0

    def record(self, query: Query, span: int, times_ns: tuple[int, int]) -> None:
        """Record the `span` of a `query`'s predict call, of these `times_ns`.

        While layers are captured, note which query the call is of.
        """
        if not self._runner.traces_steps:
            return
        self._runner.record_span_until(query, span, PREDICT, times_ns)
        if self._calls is not None and query.outputs is not None:
            self._calls.append((query.index, query.block, span))

    def trace_parts(self, query: Query, slot: Slot) -> None:
        """Predict a batch in its slot before the clock starts, and record the parts of the call.

        Nothing is recorded where the steps are not traced, or the predictor can't tell the parts.
        Events that tell them apart cost about 0.1 ms a call, so timed calls have none.
        """
        if self._predict_parts is None or not self._runner.traces_steps:
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

    def _predict_isolated(self, query: Query, slot: Slot, error: PredictFailed) -> None:
        """Predict a failed batch again without those of its samples that fail alone, too.

        Where none or all of them do, or the device itself failed, no sample has an answer.
        """
        places = query.good_places
        if len(places) < 2 or is_device_failure(error) or not self.retries.are_useful:
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
            self.retries.note(has_cause=has_cause)
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
