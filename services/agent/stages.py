"""What happens to one query: samples are prepared, the batch predicted, the answer finished."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlscope.datasets.truth import Truth
from mlscope.tracing.clock import now_ns
from mlscope.tracing.spans import NO_ATTRIBUTES, NO_PARENT
from schemas.level import Level
from services.agent.alone import (
    UNUSABLE,
    Retries,
    culprits,
    finished_alone,
    for_code,
    is_of_device,
    parted,
    stepped_alone,
)
from services.agent.errors import CodeRaised, PredictFailed, SampleUnusable
from services.agent.finite import are_finite, failed_by, faults_of, output_named
from services.agent.judging import Placing
from services.agent.kept import Answers, KeptOutputs
from services.agent.pipeline import (
    PREDICT,
    QUERY,
    Pipeline,
    PortOperators,
    spans_per_query,
    steps_before,
)
from services.agent.predictors import Layer, Tensors
from services.agent.query import Query, Slot, put
from services.agent.recorder import Recorder
from services.agent.samples import Held
from services.agent.steps import Operator

_LONGER = "their latencies contain that"


@dataclass(slots=True)
class Busy:
    """Since when (CLOCK_MONOTONIC) one predict call lasts; 0 when none does."""

    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class Supply:
    """What a session serves queries from."""

    pipeline: Pipeline
    samples: Sequence[Any]
    batch_size: int
    busy: Busy = field(default_factory=Busy)
    #: what the dataset says is true, by sample; none of a dataset that does not say
    truths: Sequence[Truth | None] = ()
    #: threads that prepare the samples of one batch
    workers: int = 1


class Stages:
    """The three stages of one run's queries, each called by one thread at a time but for `fill`.

    A span is recorded around every operator of every query from level model on. A sample that
    can't be prepared, over which the model raises, or whose answer can't be finished, fails alone:
    the rest of its batch is predicted and answered, with another sample in its place. Which one it
    was is found by trying each alone, which is part of the query's own time; `notes` says of how
    many queries.
    """

    def __init__(
        self,
        supply: Supply,
        predict: Callable[[Tensors], Tensors],
        recorder: Recorder,
        level: Level,
        *,
        outputs: int = 0,
        records_queries: bool = True,
    ) -> None:
        self._supply = supply
        self._busy = supply.busy
        self._before, self._behind = supply.pipeline.before, supply.pipeline.behind
        self._codes_before = supply.pipeline.code_before
        self._codes_behind = supply.pipeline.code_behind
        self._steps_before = steps_before(supply.pipeline)
        #: one input, filled with samples as they are
        self._is_plain = len(self._before) == 1 and not self._steps_before
        if self._is_plain and len(supply.samples):
            samples = supply.samples
            self._is_plain = not isinstance(samples, Held) and not isinstance(samples[0], dict)
        #: the first output as it is
        self._is_bare = self._behind == (PortOperators(""),) and not self._codes_behind
        self._may_be_nan = supply.pipeline.allow_nan
        self._predict = predict
        self._recorder = recorder
        self._level = level
        self._traces = level >= Level.MODEL
        self._spans = recorder.spans
        self.kept = KeptOutputs(outputs, supply.truths, Placing.of(supply.pipeline))
        self._records_queries = records_queries
        #: see `Supply.workers`
        self.workers = supply.workers
        self._names = {
            name: recorder.spans.name_id(name)
            for name in (QUERY, PREDICT, *_step_names(supply.pipeline))
        }
        self._width = spans_per_query(supply.pipeline, supply.batch_size, Level.MODEL)
        #: query, block and predict span of each call of a capture; None: of a sample tried alone
        self._calls: list[tuple[int, int, int] | None] | None = None
        self._predicting, self._finishing = Retries(), Retries()

    @property
    def notes(self) -> list[str]:
        """Return what a reader of the run must know of its answers and their times."""
        again = self._predicting.queries + self._finishing.queries
        said = f"{again} queries were done again sample by sample, as one raised: {_LONGER}"
        return [*self.kept.notes, *([said] if again else [])]

    def prepare(self, query: Query, slot: Slot) -> None:
        """Fill the slot with the query's samples."""
        self.begin(query, slot)
        self.fill(query, range(len(query.samples)))

    def begin(self, query: Query, slot: Slot) -> None:
        """Give a query its slot and its span ids."""
        query.slot = slot
        query.first_span = self._spans.reserve(self._width)
        query.started_ns = now_ns()

    def fill(self, query: Query, positions: Iterable[int]) -> None:
        """Prepare the samples at some places of a batch; several threads may share a batch."""
        assert query.slot is not None
        for position in positions:
            if self._is_plain:
                query.slot.arrays[0][position] = self._sample(query, position)
            else:
                self._prepare_sample(query, query.slot, position)

    def predict(self, query: Query) -> None:
        """Predict the batch, unless none of its samples is any good."""
        assert query.slot is not None
        if query.unfit:
            query.fail_samples(query.unfit)
            if not query.is_answered:
                return
            query.slot.lend(query.failed, len(query.samples))
        self._busy.since_ns = began = now_ns()
        try:
            query.outputs = self._predict(query.slot.inputs)
        except PredictFailed as error:
            self._predict_again(query, query.slot, error)
        self._busy.since_ns = 0
        if self._traces:
            span = query.first_span + 1 + len(query.samples) * self._steps_before
            self._span(query, span, PREDICT, began)
            if self._calls is not None and query.outputs is not None:
                self._calls.append((query.index, query.block, span))

    def finish(self, query: Query) -> None:
        """Post-process, and record the query, its root span and its predictions."""
        answers: Answers | None = None
        if query.outputs is not None and not self._is_bare:
            answers = self._answers(query, query.outputs)
        query.ended_ns = ended = now_ns()
        # Behind the last stamp: it is mlscope's own doubt, no part of the answer.
        if query.outputs is not None and not are_finite(query.outputs):
            self._doubt(query, query.outputs)
        if self._level >= Level.APPLICATION:
            root, name_id = query.first_span, self._names[QUERY]
            duration, thread = ended - query.issued_ns, threading.get_native_id()
            row = (root, NO_PARENT, Level.APPLICATION, name_id, query.issued_ns, duration)
            self._spans.append((*row, thread, query.index, query.block, NO_ATTRIBUTES))
        if self.kept.wants_more and query.outputs is not None:
            if self._is_bare:
                answers = (("", next(iter(query.outputs.values()))),)
            self.kept.keep(self._recorder, query, answers)
        if self._records_queries:
            self._recorder.query(query.row(), query.failed_samples)

    def predict_with(self, predict: Callable[[Tensors], Tensors]) -> None:
        """Predict the queries to come with a capture, and note which call was whose."""
        self._predict = predict
        self._calls = []

    def attach_layers(self, calls: Sequence[Sequence[Layer]]) -> bool:
        """Record the layers of the capture's predict calls under their predict spans.

        False, and nothing recorded, when they are not as many as the calls were.
        """
        noted, self._calls = self._calls or [], None
        if len(noted) != len(calls):
            return False
        for call, layers in zip(noted, calls, strict=True):
            if call is None:
                continue
            query, block, parent = call
            first = self._spans.reserve(len(layers))
            for offset, layer in enumerate(layers):
                name = self._spans.name_id(layer.name)
                row = (first + offset, parent, Level.FRAMEWORK, name, layer.start_ns)
                where = (layer.duration_ns, layer.thread, query, block, layer.attributes)
                self._spans.append((*row, *where))
        return True

    def _sample(self, query: Query, position: int) -> Any:
        """Return a sample that came with the query, or the dataset's. Raises DatasetError."""
        if query.payload is not None:
            return query.payload[position]
        return self._supply.samples[query.samples[position]]

    def _samples(self, query: Query) -> list[Any]:
        """Return the samples of a batch as they were read, None in the places of bad ones."""
        places = range(len(query.samples))
        return [None if at in query.failed else self._sample(query, at) for at in places]

    def _asked_for(self, query: Query, operator: Operator) -> tuple[Any, ...]:
        """Return what an operator behind the model takes beside outputs."""
        return (self._samples(query),) if operator.wants_samples else ()

    def _named(self, query: Query, position: int) -> str:
        """Return a sample's own name in brackets, where the dataset knows one."""
        samples = self._supply.samples
        if query.payload is not None or not isinstance(samples, Held):
            return ""
        name = samples.name_of(query.samples[position])
        return f" ({name})" if name else ""

    def _prepare_sample(self, query: Query, slot: Slot, position: int) -> None:
        span = query.first_span + 1 + position * self._steps_before
        name = "read"
        try:
            value = self._sample(query, position)
            name = "batch"
            for operator in self._codes_before:
                name = operator.name
                value = self._apply(query, span, operator, (value,))
                span += 1
            for port, array in zip(self._before, slot.arrays, strict=True):
                part = value[port.name] if isinstance(value, dict) else value
                for operator in port.steps:
                    name = operator.name
                    part = self._apply(query, span, operator, (part,))
                    span += 1
                name = "batch"
                put(array, position, part)
        except UNUSABLE as error:
            query.unfit[position] = self._unusable(query, position, name, error)
            if isinstance(error, CodeRaised):
                query.raised = error

    def _unusable(self, query: Query, position: int, name: str, reason: object) -> str:
        """Return why a sample has no answer: its number, the step, the reason and its name."""
        sample = query.samples[position] if query.payload is None else position
        return str(SampleUnusable(sample, name, f"{reason}{self._named(query, position)}"))

    def _predict_again(self, query: Query, slot: Slot, error: PredictFailed) -> None:
        """Predict a batch that raised without those of its samples that raise alone, too.

        Where none or all of them do, or it is the device's own trouble, no sample has an answer.
        """
        places = query.good
        if len(places) < 2 or is_of_device(error) or not self._predicting.are_of_use:
            query.fail(str(error))
            return
        try:
            bad = culprits(slot, places, self._try)
            self._predicting.note(found=0 < len(bad) < len(places))
            if not 0 < len(bad) < len(places):
                raise error
            told = bad.items()
            query.fail_samples({at: self._unusable(query, at, PREDICT, e.reason) for at, e in told})
            slot.lend(query.failed, len(query.samples))
            self._busy.since_ns = now_ns()
            query.outputs = self._predict(slot.inputs)
        except PredictFailed as again:
            query.fail(str(again))

    def _try(self, inputs: Tensors) -> None:
        """Predict for nobody; its layers are no query's. Raises PredictFailed."""
        self._busy.since_ns = now_ns()
        self._predict(inputs)
        if self._calls is not None:
            self._calls.append(None)

    def _answers(self, query: Query, outputs: Tensors) -> Answers | None:
        """Return what is left after the steps behind, by output; None when one of them failed."""
        span = query.first_span + 2 + len(query.samples) * self._steps_before
        if self._codes_behind:
            return self._answers_of_code(query, outputs, span)
        answers = []
        for port in self._behind:
            name = PREDICT
            try:
                value = output_named(outputs, port.name)
                for number, operator in enumerate(port.steps):
                    name = operator.name
                    more = [output_named(outputs, other) for other in operator.others]
                    given = (value, *more, *self._asked_for(query, operator))
                    value = self._apply(query, span + number, operator, given)
            except UNUSABLE as error:
                found = self._one_by_one(query, port, outputs)
                if found is None:
                    query.fail(f"{name}: {error}")
                    return None
                value = found
            span += len(port.steps)
            answers.append((port.name, value))
        return answers

    def _answers_of_code(self, query: Query, outputs: Tensors, span: int) -> Answers | None:
        """Return what inline code makes of a batch; None when it raises over all samples."""
        value: Any = for_code(outputs)
        name = PREDICT
        try:
            for operator in self._codes_behind:
                name = operator.name
                given = (value, *self._asked_for(query, operator))
                value = self._apply(query, span, operator, given)
                span += 1
        except UNUSABLE as error:
            query.raised = error if isinstance(error, CodeRaised) else query.raised
            value = self._code_one_by_one(query, outputs)
            if value is None:
                query.fail(f"{name}: {error}")
                return None
        return (("", value),)

    def _code_one_by_one(self, query: Query, outputs: Tensors) -> list[Any] | None:
        """Let code finish each sample alone, in a batch of nothing else; those it raises over fail.

        None when outputs can't be told apart by sample, or it raises over none or all of them. The
        time it takes is the query's own; it has no spans.
        """
        places = query.good
        if len(places) < 2 or not self._finishing.are_of_use:
            return None
        found = finished_alone(self._codes_behind, outputs, places, self._samples(query))
        is_found = found is not None and bool(found.answers) and bool(found.raised)
        self._finishing.note(found=is_found)
        if found is None or not is_found:
            return None
        told = found.raised.items()
        query.fail_samples({at: self._unusable(query, at, *why) for at, why in told})
        return [found.answers.get(place) for place in range(len(query.samples))]

    def _one_by_one(self, query: Query, port: PortOperators, outputs: Tensors) -> list[Any] | None:
        """Finish each sample of a batch alone after its steps raised; those that raise fail.

        None when the outputs can't be told apart by sample, or all of them raise. The time it
        takes is the query's own; it has no spans.
        """
        count = len(query.samples)
        names = {port.name, *(name for step in port.steps for name in step.others)}
        values = parted(outputs, names, count)
        if count == 1 or values is None:
            return None
        found = stepped_alone(port, values, query.good, partial(self._sample, query))
        if not found.answers:
            return None
        told = found.raised.items()
        query.fail_samples({at: self._unusable(query, at, *why) for at, why in told})
        return [found.answers.get(place) for place in range(count)]

    def _doubt(self, query: Query, outputs: Tensors) -> None:
        """Fail the samples whose outputs are no numbers, where these are no answer."""
        count = len(query.samples)
        for fault in faults_of(outputs, self._may_be_nan):
            positions = frozenset(failed_by(fault, count))
            if len(positions) >= count:
                query.fail(str(fault))
                continue
            new = positions - query.failed
            query.fail_samples({each: self._unusable(query, each, PREDICT, fault) for each in new})

    def _apply(self, query: Query, span: int, operator: Operator, values: tuple[Any, ...]) -> Any:
        began = now_ns()
        try:
            return operator.apply(*values)
        finally:
            if self._traces:
                self._span(query, span, operator.name, began)

    def _span(self, query: Query, span: int, name: str, began: int) -> None:
        duration = now_ns() - began
        row = (span, query.first_span, Level.MODEL, self._names[name], began, duration)
        self._spans.append(
            (*row, threading.get_native_id(), query.index, query.block, NO_ATTRIBUTES)
        )


def _step_names(pipeline: Pipeline) -> Iterator[str]:
    yield from (code.name for code in (*pipeline.code_before, *pipeline.code_behind))
    ports = (*pipeline.before, *pipeline.behind)
    yield from (step.name for port in ports for step in port.steps)
