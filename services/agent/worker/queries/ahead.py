"""Runs whose samples are prepared ahead: each distinct batch once, before the clock starts.

The pass before the clock fills a slot for each batch and takes it through predict and
post-processing: that warms the slot up, and its answers are the ones that are kept and judged. In
the clock a query is predicted from its batch's slot, and nothing else happens.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice

from mlscope.load.load import Load
from mlscope.tracing.batches import ABSENT
from mlscope.tracing.clock import now_ns
from services.agent.errors import PredictFailed
from services.agent.link.issued_load import shortened
from services.agent.machine.cores import kept_on
from services.agent.predictors import InputHolder, Pending
from services.agent.worker.answers.isolate_samples import is_memory_failure
from services.agent.worker.queries.issuing import Check
from services.agent.worker.queries.predict_calls import BeginCall
from services.agent.worker.queries.prepared import (
    BatchName,
    PreparedBatch,
    PreparedBatches,
    checksum_of,
)
from services.agent.worker.queries.query import Query, Slot, bytes_of
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import OVERLAPPED, OnFinished
from services.agent.worker.recorder import RunRecorder

MIN_PARTS_CALLS, MAX_PARTS_CALLS, PARTS_NS = 5, 20, 1_000_000_000
"""Calls whose parts are recorded before the clock, and the time after which no more are made."""
TRACED_SAMPLES = 256
"""Samples whose preparation a traced run records; later ones are copied where they are known."""

MAX_COMPARED_BYTES = 1 << 20
"""Outputs of a batch that are compared with those of timed queries: checking more takes long."""


_NO_MEMORY = "memory for its batches is exhausted"
_IN_PLACE = "the model changes its inputs in place"


class Unpreparable(Exception):
    """A run's batches can't be prepared ahead, for a reason."""

    def __init__(self, reason: str) -> None:
        """Give the reason."""
        self.reason = reason
        super().__init__(reason)


def distinct_batches(load: Load) -> dict[BatchName, int]:
    """Return the first query of each distinct batch of a load, in the order of these queries."""
    batches: dict[BatchName, int] = {}
    for query, samples in enumerate(load.sample_indices.tolist()):
        batches.setdefault(tuple(samples), query)
    return batches


class AheadPass:
    """Prepares and answers the batches of one run before its clock starts."""

    def __init__(
        self,
        stages: Stages,
        prepared: PreparedBatches,
        holder: InputHolder | None = None,
        *,
        copies_samples: bool,
    ) -> None:
        """Fill slots of `prepared` by `stages`, and copy them to a device if a `holder` is given.

        With `copies_samples` a sample that was prepared in another place is copied from there.
        """
        self._stages, self._prepared, self._holder = stages, prepared, holder
        self._copies_samples = copies_samples
        #: a place of each sample that was prepared
        self._places: dict[int, tuple[Slot, int]] = {}
        self._traced_samples = 0
        #: of batches that the model raised for as a whole
        self.errors: list[str] = []

    def run(self, batches: Mapping[BatchName, int], check: Check) -> dict[BatchName, Query]:
        """Return the answered query of each of the `batches`, given with their first queries.

        `check` raises when the run must end. Raises Unpreparable.
        """
        answered = {name: self._answered(name, first, check) for name, first in batches.items()}
        # Record the parts of some calls, of each batch in turn, for about `PARTS_NS`.
        until_ns = now_ns() + PARTS_NS
        for number, (name, query) in enumerate(islice(cycle(answered.items()), MAX_PARTS_CALLS)):
            if query.slot is None or (number >= MIN_PARTS_CALLS and now_ns() > until_ns):
                break
            check()
            self._stages.trace_parts(_untimed(name), query.slot)
        return answered

    def _answered(self, name: BatchName, first_index: int, check: Check) -> Query:
        check()
        batch = self._prepared.get(name)
        if batch is None or batch.checksum is None or self._is_traced:
            batch = self._filled(name)
        query = _untimed(name)
        query.unusable, query.code_error = dict(batch.unusable), batch.code_error
        self._stages.begin(query, batch.slot)
        if self._stages.answer_ahead(query, first_index):
            # The slot has other samples in place of those that the model raises for.
            self._prepared.keep(name, replace(batch, checksum=None))
        elif batch.is_changed:
            raise Unpreparable(_IN_PLACE)
        elif not batch.unusable:
            self._places |= {sample: (batch.slot, place) for place, sample in enumerate(name)}
        self._hold(batch.slot)
        self._check_answer(query)
        return query

    def _check_answer(self, query: Query) -> None:
        """Note the outputs of an untimed query, or why it has none. Raises Unpreparable."""
        outputs, query.outputs = query.outputs, None
        if outputs is None:
            if any(map(is_memory_failure, query.errors)):
                raise Unpreparable(f"{_NO_MEMORY}: {shortened(query.errors[-1])}")
            if len(query.unusable) < len(query.samples):
                # A call in the clock may succeed, for all but the samples that are unusable.
                self.errors += query.errors[len(query.unusable) :]
                query.errors, query.failed = [], frozenset()
                query.fail_samples(query.unusable)
        elif outputs:
            if reason := self._prepared.count_outputs(outputs):
                raise Unpreparable(reason)
            if bytes_of(outputs) <= MAX_COMPARED_BYTES:
                query.outputs_checksum = checksum_of(outputs)

    @property
    def _is_traced(self) -> bool:
        """Whether the preparation of the next batch is recorded, also where it is prepared."""
        return self._stages.traces_steps and self._traced_samples < TRACED_SAMPLES

    def _filled(self, name: BatchName) -> PreparedBatch:
        """Prepare a batch; its bad samples are replaced by a good one, as `predict` does."""
        try:
            query, slot = _untimed(name), self._prepared.take_slot(name)
        except MemoryError as error:
            raise Unpreparable(f"{_NO_MEMORY}: {error}") from error
        if self._holder is not None:
            self._holder.release(slot.inputs)
        self._stages.begin(query, slot)
        if self._is_traced or not self._copies_samples:
            self._stages.fill(query, range(len(name)))
            self._stages.record_preparation(query)
            self._traced_samples += len(name)
        else:
            self._fill_by_copies(query, slot)
        if 0 < len(query.unusable) < len(name):
            slot.replace_samples(query.unusable.keys(), len(name))
        batch = PreparedBatch(slot, checksum_of(slot.inputs), query.unusable, query.code_error)
        self._prepared.keep(name, batch)
        return batch

    def _hold(self, slot: Slot) -> None:
        """Copy a slot to the device, where it asks for that, and predict it once from there.

        Raises Unpreparable.
        """
        if self._holder is None:
            return
        try:
            self._holder.hold(slot.inputs)
        except PredictFailed as error:
            raise Unpreparable(f"the device took no copy of a batch: {error.reason}") from error
        with suppress(PredictFailed):  # its timed calls report it
            self._holder.predict(slot.inputs)
        if not self._holder.is_held_unchanged(slot.inputs):
            raise Unpreparable(_IN_PLACE)

    def _fill_by_copies(self, query: Query, slot: Slot) -> None:
        """Prepare each sample once, by several threads; where it occurs again, copy it."""
        first_places: dict[int, int] = {}
        for place, sample in enumerate(query.samples):
            first_places.setdefault(sample, place)
        unknown = [place for sample, place in first_places.items() if sample not in self._places]
        self._stages.fill_untraced(query, unknown)
        for place, sample in enumerate(query.samples):
            first_place = first_places[sample]
            source, source_place = self._places.get(sample, (slot, first_place))
            if first_place in query.unusable:
                query.unusable[place] = query.unusable[first_place]
            elif (source, source_place) != (slot, place):
                slot.copy_sample(place, source, source_place)


def _untimed(name: BatchName) -> Query:
    return Query(ABSENT, name, now_ns(), block=ABSENT)


BatchOf = Callable[[Query], Query | None]
"""Returns the prepared batch of a query; None where it has to be prepared in the clock."""


def by_order(batches: Mapping[BatchName, Query], load: Load) -> BatchOf:
    """Return what finds the batch of a local query: its number in the `load` tells which it is."""
    prepared = [batches[tuple(samples)] for samples in load.sample_indices.tolist()]
    count = len(prepared)
    return lambda query: prepared[query.index % count]


def by_samples(batches: Mapping[BatchName, Query]) -> BatchOf:
    """Return what finds the batch of a remote query, which may come with samples of its own."""

    def batch_of(query: Query) -> Query | None:
        return batches.get(tuple(query.samples)) if query.payload is None else None

    return batch_of


def in_flight(queries: Iterable[Query], limit: int) -> Iterator[Query]:
    """Yield `queries` in order, so that `limit` of them are issued and not ended yet."""
    waiting: deque[Query] = deque()
    for query in queries:
        waiting.append(query)
        if len(waiting) >= limit:
            yield waiting.popleft()
    yield from waiting


def run_ahead(
    queries: Iterable[Query],
    batch_of: BatchOf,
    stages: Stages,
    slot: Slot,
    recorder: RunRecorder,
    on_finished: OnFinished,
) -> None:
    """Predict each of the `queries` from its prepared batch, one after the other.

    `batch_of` finds it; a query without one goes through all `stages` in the `slot`. `on_finished`
    is called with each query, and the `recorder` flushes its rows when they are due.
    """
    with kept_on(stages.predicting_cores):
        for query in queries:
            prepared = batch_of(query)
            if prepared is None:
                stages.prepare(query, slot)
                stages.predict(query)
                stages.finish(query)
            else:
                stages.predict_ahead(query, prepared)
            on_finished(query)
            recorder.flush_due(query.ended_ns)


def run_overlapped(
    queries: Iterable[Query],
    batch_of: BatchOf,
    stages: Stages,
    begin: BeginCall,
    recorder: RunRecorder,
    on_finished: OnFinished,
) -> None:
    """Predict each of the `queries` from its prepared batch, `OVERLAPPED` of them at a time.

    Each has a batch by `batch_of`. `begin` begins a call, so that the copies of one overlap the
    computing of another; queries end in the order in which they began, by `stages`. `on_finished`
    is called with each, and the `recorder` flushes its rows when they are due.
    """
    begun: deque[tuple[Query, Query, Pending | None]] = deque()

    def end_oldest() -> None:
        query, prepared, pending = begun.popleft()
        stages.end_ahead(query, prepared, pending)
        on_finished(query)
        recorder.flush_due(query.ended_ns)

    with kept_on(stages.predicting_cores):
        try:
            for query in queries:
                prepared = batch_of(query)
                assert prepared is not None, "only local queries overlap"
                begun.append((query, prepared, stages.begin_ahead(query, prepared, begin)))
                if len(begun) >= OVERLAPPED:
                    end_oldest()
            while begun:
                end_oldest()
        finally:
            # Of a run that was stopped: the next one must not begin on a busy device.
            for _, _, pending in begun:
                with suppress(PredictFailed):
                    if pending is not None:
                        pending.wait()
            stages.end_calls()
