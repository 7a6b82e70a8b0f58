"""One group of runs in a session: local ones as interleaved blocks, remote ones as they are fed."""

import contextlib
import gc
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlscope.load.errors import LoadError
from mlscope.tracing.clock import now_ns
from schemas.plan import RunPlan, WorkOrder
from schemas.request import Blocks
from schemas.run import RunCompleted, RunFailed
from services.agent.blocks import another_block, ended_by, ending_note
from services.agent.channel import Words
from services.agent.cold import is_cold, record_opening
from services.agent.control import Control, RemoteQuery
from services.agent.errors import AgentError, DeviceLost, MemoryExhausted, OpenFailed, PredictFailed
from services.agent.inputs import received
from services.agent.issuing import closed_loop, is_inline, open_loop, paced
from services.agent.lost import tells_of_lost_device
from services.agent.measurement import Measurement, failed
from services.agent.pipeline import steps_before, steps_behind
from services.agent.predictors import LayerCapture, LayerSource
from services.agent.predictors.shapes import first_line
from services.agent.query import Query, Slot
from services.agent.recorder import HandOver
from services.agent.reopening import Reopening
from services.agent.session import Session
from services.agent.streaming import Unbounded, Window, run_inline, run_streaming

_LOOK_S = 0.05
_ONCE = ("counters", "cold")
"""Variants of sessions whose times are not of blocks: one is enough."""

Outcome = RunCompleted | RunFailed
Tell = Callable[[Words], None]
"""Says something to the agent while a run goes on."""


class Group:
    """Performs the runs of one order; `hand_over` takes their batches, `tell` answers."""

    def __init__(
        self,
        session: Session,
        order: WorkOrder,
        control: Control,
        hand_over: HandOver,
        tell: Tell,
        reopening: Reopening | None = None,
    ) -> None:
        self._session, self._order, self._control = session, order, control
        self._hand_over, self._tell = hand_over, tell
        self._reopening = reopening
        #: whether its process can use its device no more
        self.has_lost_device = False

    def perform(self) -> Iterator[Outcome]:
        """Yield each run's outcome as it ends: local runs together, remote ones in their order."""
        plans = [plan for plan in self._order.session.runs if plan.run in self._order.runs]
        local = []
        for plan in plans:
            try:
                run = Measurement.of(
                    self._session,
                    self._order,
                    plan,
                    self._control,
                    self._hand_over,
                    self._reopening,
                )
            except LoadError as error:
                yield failed(self._order, plan.run, OpenFailed(plan.scenario, str(error)))
                continue
            run.caveats += self._session.notes
            if is_cold(run):
                self._guarded(run, record_opening, 0)
                yield self._ended(run)
            elif plan.pacing == "remote":
                self._guarded(run, self._remote, 0)
                yield self._ended(run)
            else:
                local.append(run)
        with _settled():
            yield from self._interleave(local)

    def _interleave(self, runs: Sequence[Measurement]) -> Iterator[Outcome]:
        """Do blocks of all runs in turn until the stop rule is met for each that still goes.

        Yields the end of a broken run at once, those of the others when all are through.
        """
        rule, block, began_ns, passed_s = self._order.subject.blocks, 0, now_ns(), 0.0
        if self._order.session.variant in _ONCE:
            rule = Blocks()
        active = list(runs)
        while active:
            for run in active:
                self._guarded(run, lambda run: self._local(run, block), block)  # noqa: B023
                if run.error is not None:
                    yield self._ended(run)
            active = [run for run in active if run.error is None]
            block += 1
            passed_s = (now_ns() - began_ns) * 1e-9
            if not another_block(rule, [run.medians for run in active], passed_s):
                break
            if block == 1:
                # What looked at the model for its first capture imported more.
                _set_aside()
        for run in active:
            run.blocks_ended = ended_by(rule, run.medians, passed_s)
            if note := ending_note(rule, run.medians, run.blocks_ended):
                run.caveats.append(note)
            yield self._ended(run)

    def _guarded(self, run: Measurement, work: Callable[[Measurement], None], block: int) -> None:
        """Do one stretch of a run; what was captured is read and handed over after its clock."""
        capture: LayerCapture | None = None
        try:
            capture = self._begin_layers(run)
            with _uncollected(), run.collecting.block(), run.deadline:
                work(run)
        except (AgentError, LoadError, OSError) as error:
            run.error = error if isinstance(error, AgentError) else OpenFailed("load", str(error))
        except MemoryError as error:
            # Another attempt would end the same way: final, and no crash of the worker's.
            batch_size = self._order.session.batch_size
            run.error = MemoryExhausted(batch_size, str(error) or "no memory")
        finally:
            if capture is not None:
                _attach(run, capture)
            run.collecting.attach(run.recorder, block)
            run.stages.kept.settle(run.recorder)
            run.recorder.flush()

    def _begin_layers(self, run: Measurement) -> LayerCapture | None:
        predictor = self._session.predictor
        if not run.captures_layers or not isinstance(predictor, LayerSource):
            return None
        warmed_with = [slot.inputs for slot in self._slots_of(run)]
        try:
            capture = predictor.layers(warmed_with)
        except Exception as error:
            raise _cause_of(error) from error
        run.stages.predict_with(capture.predict)
        return capture

    def _slots_of(self, run: Measurement) -> Sequence[Slot]:
        """Return the slots that a run's queries go through: one where each waits for the last."""
        slots, is_local = self._session.slots, run.plan.pacing != "remote"
        return slots[:1] if self._is_stepless or (is_local and is_inline(run.load)) else slots

    @property
    def _is_stepless(self) -> bool:
        pipeline = self._session.supply.pipeline
        return not (steps_before(pipeline) or steps_behind(pipeline))

    def _local(self, run: Measurement, block: int) -> None:
        load, first = run.load, block * run.load.queries
        done = run.new_block()
        check = run.deadline.check
        if load.due_ns is not None:
            with paced(load) as pacer:
                self._control.stop_with(run.name, pacer.stop)
                self._run(run, open_loop(load, block, first, pacer, check), done)
        elif is_inline(load):
            queries = closed_loop(load, block, first, Unbounded(), check)
            run_inline(queries, run.stages, self._session.slots[0], run.recorder, done)
        else:
            window = Window(load.concurrency, check)
            queries = closed_loop(load, block, first, window, check)
            self._run(run, queries, _both(done, lambda _: window.leave()))
        check()
        run.end_block(block)

    def _remote(self, run: Measurement) -> None:
        """Take queries as they come until the issuer says that its load is through."""
        intake = self._control.admit(run.name)
        self._tell({"kind": "ready", "run": run.plan.run})
        done = _both(run.new_block(), lambda query: self._answer(run.plan, query))
        queries = self._arriving(run, intake.waiting)
        self._run(run, queries, done)
        run.end_block(0)

    def _run(
        self, run: Measurement, queries: Iterator[Query], done: Callable[[Query], None]
    ) -> None:
        """Take queries through the stages; without steps nothing overlaps, so without threads."""
        slots = self._session.slots
        if self._is_stepless:
            run_inline(queries, run.stages, slots[0], run.recorder, done)
        else:
            check = run.deadline.check
            run_streaming(queries, run.stages, list(slots), run.recorder, done, check)

    def _arriving(
        self, run: Measurement, waiting: "queue.SimpleQueue[RemoteQuery | None]"
    ) -> Iterator[Query]:
        while True:
            run.deadline.check()
            with contextlib.suppress(queue.Empty):
                arrived = waiting.get(timeout=_LOOK_S)
                if arrived is None:
                    run.deadline.check()
                    return
                query = Query(
                    arrived.index, arrived.samples, arrived.arrived_ns, block=arrived.block
                )
                try:
                    query.payload = self._checked(arrived)
                except ValueError as error:
                    query.fail(str(error))
                    self._answer(run.plan, query)
                    continue
                yield query

    def _checked(self, arrived: RemoteQuery) -> Sequence[Any] | None:
        """Return a query's own samples as the pipeline takes them. Raises ValueError."""
        supply, count = self._session.supply, len(self._session.supply.samples)
        if len(arrived.samples) != supply.batch_size:
            raise ValueError(f"{len(arrived.samples)} samples; a query has {supply.batch_size}")
        if arrived.payload is None:
            if not all(0 <= sample < count for sample in arrived.samples):
                raise ValueError(f"samples are numbered 0 to {count - 1}")
            return None
        if supply.pipeline.code_before:
            return list(arrived.payload)
        arrays = self._session.slots[0].arrays
        return [received(body, supply.pipeline.before, arrays) for body in arrived.payload]

    def _answer(self, plan: RunPlan, query: Query) -> None:
        words: Words = {"kind": "answer", "run": plan.run, "query": query.index}
        told = {"status": query.status, "service_ns": query.service_ns, "error": query.error}
        self._tell({**words, **told, "failed": query.failed_samples})

    def _ended(self, run: Measurement) -> Outcome:
        self._control.forget(run.name)
        outcome = run.outcome()
        self.has_lost_device |= isinstance(run.error, DeviceLost)
        return outcome


def _attach(run: Measurement, capture: LayerCapture) -> None:
    """Read a block's layers; without them the run's other numbers still hold."""
    try:
        calls = capture.close()
    except Exception as error:  # noqa: BLE001 - frameworks' errors share no root
        run.caveats.append(f"the layers of a block could not be read: {first_line(error)}")
        if run.error is None and isinstance(lost := _cause_of(error), DeviceLost):
            run.error = lost
    else:
        run.attach_layers(calls)
    run.caveats += [note for note in capture.notes if note not in run.caveats]


def _cause_of(error: Exception) -> Exception:
    """Return what a run ends with when a framework raised this where layers are captured."""
    text = first_line(error)
    if tells_of_lost_device(text):
        return DeviceLost(text.removeprefix("predict:").strip())
    return error if isinstance(error, AgentError | OSError | MemoryError) else PredictFailed(text)


@contextlib.contextmanager
def _settled() -> Iterator[None]:
    """Take what is there now, frameworks and models, out of what blocks' collections look at.

    A million objects of imports cost each block 0.15 s otherwise.
    """
    _set_aside()
    try:
        yield
    finally:
        gc.unfreeze()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep Python's garbage collector out of the measured stretch."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _both(
    first: Callable[[Query], None], second: Callable[[Query], None]
) -> Callable[[Query], None]:
    def done(query: Query) -> None:
        first(query)
        second(query)

    return done
