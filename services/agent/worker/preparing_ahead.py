"""Decides whether a run's samples are prepared ahead, and prepares them before its first block."""

from mlscope.counts import many
from mlscope.load.load import AHEAD
from services.agent.link.issued_load import shortened
from services.agent.predictors import ArrayBinder, InputHolder
from services.agent.worker.measurement import Measurement
from services.agent.worker.queries.ahead import (
    AheadPass,
    Unpreparable,
    by_order,
    by_samples,
    distinct_batches,
)
from services.agent.worker.session import Session
from services.agent.worker.warming_up import warm_up

DEFAULT = AHEAD
"""When samples are prepared, of a request that does not say it."""
_NOT_HELD = (
    "inputs: device has no effect, because samples are streamed: each call copies its inputs"
)


def prepare_ahead(run: Measurement) -> None:
    """Prepare the batches of a run, unless it asks for streamed samples or they do not fit.

    Where they do not fit, or the model changes them, its samples are streamed, which is a caveat.
    Raises what ends the run: Stopped, RunTimedOut.
    """
    load, session, stages = run.load, run.session, run.stages
    predictor = session.predictor
    holds_inputs = isinstance(predictor, InputHolder) and predictor.holds_inputs
    if (load.samples or DEFAULT) != AHEAD:
        run.caveats += [_NOT_HELD] if holds_inputs else []
        return
    batches = distinct_batches(load)
    if refusal := session.prepared.need(batches):
        run.caveats.append(streamed_caveat(refusal))
        run.caveats += [_NOT_HELD] if holds_inputs else []
        return
    holder = predictor if isinstance(predictor, InputHolder) and holds_inputs else None
    # Inline code may prepare a sample otherwise each time.
    copies_samples = not session.supply.pipeline.code_before
    ahead = AheadPass(stages, session.prepared, holder, copies_samples=copies_samples)
    try:
        answered = ahead.run(batches, run.deadline.check)
    except Unpreparable as error:
        _drop_batches(session, error.reason)
        run.caveats.append(streamed_caveat(session.prepared.refusal))
        run.caveats += [_NOT_HELD] if holds_inputs else []
    else:
        slots = (query.slot for query in answered.values())
        run.prepared_slots = [slot for slot in slots if slot is not None]
        is_local = run.plan.pacing == "local"
        run.batch_of = by_order(answered, load) if is_local else by_samples(answered)
        run.inputs = "device" if holds_inputs else run.inputs
        if ahead.errors:
            calls, reason = many(len(ahead.errors), "call"), shortened(ahead.errors[0])
            run.caveats.append(
                f"{calls} failed before the clock and left no answer, first: {reason}"
            )
    finally:
        stages.kept_outputs.settle(run.recorder)
        run.recorder.flush()


def streamed_caveat(reason: str) -> str:
    """Return the caveat of a run whose samples could not be prepared ahead, for a `reason`."""
    return f"samples were streamed, not prepared ahead: {reason}"


def _drop_batches(session: Session, reason: str) -> None:
    """Free all prepared batches for a `reason`, and warm up the slots of streamed runs again."""
    session.prepared.refuse(reason)
    if isinstance(session.predictor, ArrayBinder):
        session.predictor.forget_arrays()
        warm_up(session.supply, session.predictor, session.slots, len(session.slots))
