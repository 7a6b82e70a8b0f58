"""Warm a session up: queries that leave nothing behind but bound arrays, and what they cost."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import PredictFailed
from services.agent.predictors import Predictor
from services.agent.worker.preparation.shares import LEAST_SLOTS
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.prepared import kept_output_bytes
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import RunRecorder

_NO_ATTEMPT = Attempt("none", "none", 0, "none")
_MOST_FAILED_WARMUP = 8
"""Queries that may fail while a model is warmed up."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a session learned when it was warmed up; 0 is unknown."""

    #: that the predictor keeps for a batch's outputs; None unknown
    output_bytes: int | None = None
    #: the least times of a batch after the first one, prepared by one thread and predicted
    prepare_ns: int = 0
    predict_ns: int = 0
    #: the least time of the processor for finishing one; see `is_quick_finish`
    finish_ns: int = 0


def warm_up(supply: Supply, predictor: Predictor, slots: Sequence[Slot], queries: int) -> WarmUp:
    """Run `queries` from a `supply` that leave nothing behind, through each of the `slots`.

    The `predictor` computes them as it does later ones.
    A query all of whose samples make the model raise is replaced by the next one: bad samples at
    the front do not prevent opening. Raises PredictFailed after `_MOST_FAILED_WARMUP` such queries.
    """
    recorder = RunRecorder(_NO_ATTEMPT, lambda _: True)
    stages = Stages(supply, predictor.predict, recorder, Level.NONE, records_queries=False)
    index = failed = 0
    output_bytes: int | None = None
    times_ns = []
    while index - failed < queries:
        first = index * supply.batch_size
        samples = [(first + offset) % len(supply.samples) for offset in range(supply.batch_size)]
        query, slot = Query(index, samples, 0), slots[index % len(slots)]
        index += 1
        began_ns = now_ns()
        stages.prepare(query, slot)
        prepared_ns = now_ns()
        if len(query.unusable) == len(samples):
            query.outputs = predictor.predict(slot.inputs)
        else:
            stages.predict(query)
        predicted_ns, began_finish_ns = now_ns(), time.thread_time_ns()
        stages.finish(query)
        finish_ns = time.thread_time_ns() - began_finish_ns
        times_ns.append((prepared_ns - began_ns, predicted_ns - prepared_ns, finish_ns))
        if query.outputs is not None:
            output_bytes = max(output_bytes or 0, kept_output_bytes(predictor, query.outputs))
        failed += query.outputs is None
        if failed >= _MOST_FAILED_WARMUP:
            raise PredictFailed(query.errors[-1].removeprefix("predict: "))
    if len(times_ns) < 2:
        return WarmUp(output_bytes)
    return WarmUp(output_bytes, *map(min, zip(*times_ns[1:], strict=True)))


def bind_further(predictor: Predictor, slots: Sequence[Slot], queries: int) -> None:
    """Have a `predictor` bind the `slots` that a warm-up of this number of `queries` did not reach.

    They get the batch of the first slot. Without a warm-up nothing is bound.
    """
    for slot in slots[max(queries, LEAST_SLOTS) :] if queries else ():
        for array, warm_array in zip(slot.arrays, slots[0].arrays, strict=True):
            array[:] = warm_array
        predictor.predict(slot.inputs)
