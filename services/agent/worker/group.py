"""One group of runs in a session: local runs as interleaved blocks, remote runs as queries come."""

import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mlscope.load.errors import LoadError
from mlscope.load.stopping import stop_caveat, stop_reason
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from schemas.plan import RunPlan, WorkOrder
from schemas.request import Blocks
from services.agent.errors import AgentError, DeviceLost, MemoryExhausted, OpenFailed, PredictFailed
from services.agent.link.failures import failed_before_start
from services.agent.link.messages import (
    LoadAwaited,
    Outcome,
    QueryAnswered,
    ToHost,
)
from services.agent.predictors import LayerCapture, LayerSource, OverlappingPredictor
from services.agent.predictors.shapes import first_line
from services.agent.worker.cold_start import is_cold, record_opening
from services.agent.worker.control import Control, RemoteQueries
from services.agent.worker.device_loss import is_device_loss
from services.agent.worker.garbage import freeze_garbage, without_garbage_collection
from services.agent.worker.measurement import Measurement
from services.agent.worker.preparing_ahead import prepare_ahead
from services.agent.worker.queries.ahead import (
    BatchOf,
    in_flight,
    run_ahead,
    run_overlapped,
)
from services.agent.worker.queries.issuing import (
    ClosedLoop,
    closed_loop,
    is_inline,
    open_loop,
    paced,
)
from services.agent.worker.queries.pipeline import steps_after, steps_before
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.streaming import (
    OVERLAPPED,
    OnFinished,
    Unbounded,
    run_inline,
    run_streaming,
)
from services.agent.worker.recorder import HandOver
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

_POLL_S = 0.05
_ONE_BLOCK = ("counters", "cold")
"""Variants of sessions that need one block only: nobody compares their times."""

Send = Callable[[ToHost], None]
"""Sends a message to the host while a run goes on."""


class Group:
    """Performs the runs of one order; `hand_over` takes their batches, `send` their messages.

    They run in an open `session`; `control` has their stops and remote queries, and `opener` opens
    the session again for collectors that replay it.
    """

    def __init__(
        self,
        session: Session,
        order: WorkOrder,
        control: Control,
        hand_over: HandOver,
        send: Send,
        opener: SessionOpener | None = None,
    ) -> None:
        self._session, self._order, self._control = session, order, control
        self._hand_over, self._send = hand_over, send
        self._opener = opener
        #: whether this process can't use its device any more
        self.has_lost_device = False

    def perform(self) -> Iterator[Outcome]:
        """Yield each run's outcome as it ends: local runs together, remote ones in their order."""
        order = self._order
        plans = [plan for plan in order.session.runs if plan.run in order.runs]
        local_runs = []
        self._session.prepared.release()
        for plan in plans:
            try:
                run = Measurement.of(
                    self._session, order, plan, self._control, self._hand_over, self._opener
                )
            except LoadError as error:
                cause = OpenFailed(plan.scenario, str(error))
                yield failed_before_start(order, plan.run, cause)
                continue
            run.caveats += self._session.notes
            if not is_cold(run):
                with _noted_errors(run, order.session.batch_size), run.deadline:
                    prepare_ahead(run)
            if run.batch_of is not None and self._overlaps(run):
                run.calls_in_flight = OVERLAPPED
            if not is_cold(run) and plan.pacing != "remote":
                local_runs.append(run)
                continue
            work = record_opening if is_cold(run) else self._run_remote_load
            if run.error is None:
                self._perform_block(run, work, 0)
            yield self._end(run)
        freeze_garbage()
        yield from self._interleave(local_runs)

    def _overlaps(self, run: Measurement) -> bool:
        """Return whether the calls of a run overlap, once its samples are there.

        Layers are captured one call at a time, and levels are compared with each other: so the
        calls overlap only in orders without layers.
        """
        deepest = max(plan.level for plan in self._order.session.runs)
        is_closed = run.load.due_ns is None and run.plan.pacing == "local"
        can_overlap = isinstance(self._session.predictor, OverlappingPredictor)
        enough = run.load.concurrency >= OVERLAPPED
        return deepest <= Level.MODEL and is_closed and can_overlap and enough

    def _interleave(self, runs: Sequence[Measurement]) -> Iterator[Outcome]:
        """Do a block of each run in turn until the stop rule holds for all of them.

        Yields the outcome of a failed run at once, and those of the others at the end.
        """
        rule, block, began_ns, elapsed_s = self._order.subject.blocks, 0, now_ns(), 0.0
        if self._order.session.variant in _ONE_BLOCK:
            rule = Blocks()
        active = [run for run in runs if run.error is None]
        for run in runs:
            if run.error is not None:
                yield self._end(run)
        while active:
            for run in active:
                self._perform_block(run, partial(self._run_local_load, block=block), block)
                if run.error is not None:
                    yield self._end(run)
            active = [run for run in active if run.error is None]
            block += 1
            elapsed_s = (now_ns() - began_ns) * 1e-9
            lacks = [run.missing_in_result(rule) for run in _headlined(active)]
            missing = next(filter(None, lacks), "")
            if all(stop_reason(rule, run.medians, elapsed_s, missing) for run in active):
                break
            if block == 1:
                # The first capture of layers imported more modules.
                freeze_garbage()
        headlined = _headlined(active) if rule.of == "result" else active
        for run in active:
            run.blocks_ended = stop_reason(rule, run.medians, elapsed_s, missing)
            caveat = stop_caveat(rule, run.medians, run.blocks_ended, missing)
            if caveat and run in headlined:
                run.caveats.append(caveat)
            yield self._end(run)

    def _perform_block(
        self, run: Measurement, work: Callable[[Measurement], None], block: int
    ) -> None:
        """Do a block's work; hand over what was captured after the run's clock has stopped."""
        capture: LayerCapture | None = None
        try:
            with _noted_errors(run, self._order.session.batch_size):
                self._start_processes(run)
                capture = self._begin_capture(run)
                with without_garbage_collection(), run.collectors.block(), run.deadline:
                    work(run)
                run.stages.settle_repeats()
        finally:
            if capture is not None:
                _attach_layers(run, capture)
            run.collectors.attach(run.recorder, block)
            run.stages.kept_outputs.settle(run.recorder)
            run.recorder.flush()

    def _begin_capture(self, run: Measurement) -> LayerCapture | None:
        """Begin to capture a run's layers, where its level asks for that."""
        predictor = self._session.predictor
        if not run.captures_layers or not isinstance(predictor, LayerSource):
            return None
        slots: Sequence[Slot] = self._session.slots
        if run.batch_of is not None:
            slots = run.prepared_slots
        elif not self._is_streamed(run):
            # Where each query waits for the one before, they all use one slot.
            slots = slots[:1]
        try:
            capture = predictor.layers([slot.inputs for slot in slots])
        except Exception as error:
            raise _capture_error(error) from error
        run.stages.predict_with(capture.predict)
        return capture

    def _is_streamed(self, run: Measurement) -> bool:
        """Whether a run's samples are prepared while other queries of it are predicted."""
        is_inline_run = run.plan.pacing != "remote" and is_inline(run.load)
        return run.batch_of is None and not self._is_stepless and not is_inline_run

    def _start_processes(self, run: Measurement) -> None:
        """Start the processes that prepare a run's samples, before its clock starts."""
        pool = self._session.supply.pool
        if pool is None or is_cold(run) or not self._is_streamed(run):
            return
        pool.start()
        predictor = self._session.predictor
        # Threads that prepare would hold up a thread that waits for one call and begins another.
        if pool.is_started and isinstance(predictor, OverlappingPredictor) and self._overlaps(run):
            run.calls_in_flight = OVERLAPPED
            run.stages.begin_call = predictor.begin

    @property
    def _is_stepless(self) -> bool:
        pipeline = self._session.supply.pipeline
        return not (steps_before(pipeline) or steps_after(pipeline))

    def _run_local_load(self, run: Measurement, block: int) -> None:
        load, first_query = run.load, block * run.load.queries
        on_finished = run.new_block()
        check = run.deadline.check
        if load.due_ns is not None:
            with paced(load, run.stages.predicting_cores) as pacer:
                self._control.call_on_stop(run.key, pacer.stop)
                queries = open_loop(load, block, first_query, pacer, check)
                self._run_queries(run, queries, on_finished)
        elif run.batch_of is not None:
            queries = closed_loop(load, block, first_query, Unbounded(), check)
            self._run_closed_ahead(run, run.batch_of, queries, on_finished)
        elif is_inline(load):
            queries = closed_loop(load, block, first_query, Unbounded(), check)
            run_inline(queries, run.stages, self._session.slots[0], run.recorder, on_finished)
        else:
            queries = closed_loop(load, block, first_query, Unbounded(), check)
            self._run_queries(run, queries, on_finished, load.concurrency)
        check()
        run.end_block(block)

    def _run_closed_ahead(
        self,
        run: Measurement,
        batch_of: BatchOf,
        queries: Iterator[Query],
        on_finished: OnFinished,
    ) -> None:
        """Take the queries of a closed loop, prepared ahead; calls overlap where they may."""
        predictor, concurrency = self._session.predictor, run.load.concurrency
        if run.calls_in_flight == 1 or not isinstance(predictor, OverlappingPredictor):
            self._run_queries(run, in_flight(queries, concurrency), on_finished)
            return
        # The queries under way count among those in flight.
        issued = in_flight(queries, concurrency - OVERLAPPED + 1)
        run_overlapped(issued, batch_of, run.stages, predictor.begin, run.recorder, on_finished)

    def _run_remote_load(self, run: Measurement) -> None:
        """Take queries as they come until the issuer ends the load."""
        waiting = self._control.accept_queries(run.key)
        self._send(LoadAwaited(run.plan.run))
        on_finished = run.new_block()

        def answer(query: Query) -> None:
            on_finished(query)
            self._answer(run.plan, query)

        self._run_queries(run, self._received_queries(run, waiting), answer)
        run.end_block(0)

    def _run_queries(
        self,
        run: Measurement,
        queries: Iterator[Query],
        on_finished: OnFinished,
        concurrency: int = 0,
    ) -> None:
        """Take queries through the stages; without steps nothing overlaps, so without threads.

        Those of a closed loop have a `concurrency`.
        """
        slots = self._session.slots
        if run.batch_of is not None:
            recorder = run.recorder
            run_ahead(queries, run.batch_of, run.stages, slots[0], recorder, on_finished)
        elif self._is_stepless:
            run_inline(queries, run.stages, slots[0], run.recorder, on_finished)
        else:
            check = run.deadline.check
            issued = ClosedLoop(queries, concurrency) if concurrency else queries
            run_streaming(issued, run.stages, list(slots), run.recorder, on_finished, check)

    def _received_queries(self, run: Measurement, waiting: RemoteQueries) -> Iterator[Query]:
        """Yield remote queries as they come; answer those that can't be run."""
        while True:
            run.deadline.check()
            try:
                received = waiting.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if received is None:
                run.deadline.check()
                return
            query = Query(
                received.query, received.samples, received.received_ns, block=received.block
            )
            try:
                query.payload = self._session.payload_of(received)
            except ValueError as error:
                query.fail(str(error))
                self._answer(run.plan, query)
            else:
                yield query

    def _answer(self, plan: RunPlan, query: Query) -> None:
        self._send(
            QueryAnswered(
                plan.run,
                query.index,
                query.status,
                query.service_ns,
                query.error,
                query.failed_samples,
            )
        )

    def _end(self, run: Measurement) -> Outcome:
        self._control.forget(run.key)
        outcome = run.outcome()
        self.has_lost_device |= isinstance(run.error, DeviceLost)
        return outcome


@contextlib.contextmanager
def _noted_errors(run: Measurement, batch_size: int) -> Iterator[None]:
    """Keep an error that ends a run, for its outcome."""
    try:
        yield
    except (AgentError, LoadError, OSError) as error:
        run.error = error if isinstance(error, AgentError) else OpenFailed("load", str(error))
    except MemoryError as error:
        # Another attempt would end the same way: a final failure, and not the worker's crash.
        run.error = MemoryExhausted(batch_size, str(error) or "no memory")


def _headlined(runs: Sequence[Measurement]) -> list[Measurement]:
    """Return the runs at the least level, whose results are reported; deeper ones follow them."""
    least = min((run.plan.level for run in runs), default=None)
    return [run for run in runs if run.plan.level == least]


def _attach_layers(run: Measurement, capture: LayerCapture) -> None:
    """Read a block's layers; without them the run's other numbers still hold."""
    try:
        calls = capture.close()
    except Exception as error:  # noqa: BLE001 - frameworks' errors share no root
        run.caveats.append(f"the layers of a block could not be read: {first_line(error)}")
        if run.error is None and isinstance(cause := _capture_error(error), DeviceLost):
            run.error = cause
    else:
        run.attach_layers(calls)
    run.caveats += [note for note in capture.notes if note not in run.caveats]


def _capture_error(error: Exception) -> Exception:
    """Return the error of a run whose framework raised this one while layers were captured."""
    text = first_line(error)
    if is_device_loss(text):
        return DeviceLost(text.removeprefix("predict:").strip())
    return error if isinstance(error, AgentError | OSError | MemoryError) else PredictFailed(text)
