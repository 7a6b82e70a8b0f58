"""One order in one worker: its messages are handled, its batches published, its life watched."""

import asyncio
import contextlib
from pathlib import Path

from mlscope.tracing.clock import now_ns
from schemas.encoding.errors import MalformedMessage
from schemas.plan import WorkOrder
from services.agent.errors import (
    AgentError,
    RingBroken,
    RunTimedOut,
    SampleTimedOut,
    StopIgnored,
    Stopped,
    WorkerDied,
)
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.host.remote_queries import RemoteQueries, failed_answer
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances
from services.agent.link.issued_load import IssuedLoad
from services.agent.link.messages import (
    AttemptKey,
    FinishLoad,
    IssueQuery,
    LoadAwaited,
    OrderDone,
    Outcome,
    PerformOrder,
    QueryAnswered,
    RunEnded,
    StopRun,
    ToHost,
)
from services.agent.link.preparation_clock import preparing_text
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof

_POLL_S = 0.05
_STOP_GRACE_S = 5.0


class Execution:
    """One order in one worker. It ends with an outcome published for every run, in any case.

    Three loops, because a full stream must hold up publishing alone: one handles the worker's
    messages, one publishes its batches, one watches the worker and the stream.
    """

    def __init__(
        self,
        publisher: OutcomePublisher,
        worker: WorkerProcess,
        manifests_folder: Path,
        silence_s: float,
        allowances: Allowances = DEFAULT_ALLOWANCES,
        roof: Roof = NO_ROOF,
    ) -> None:
        """Take the `publisher` of an order, and the `worker` that is to do it.

        `manifests_folder` has the files of models and datasets; a worker that is silent for
        `silence_s` seconds is killed; `allowances` are what models may use, and `roof` is that of
        the order's device.
        """
        self.publisher, self._worker = publisher, worker
        self._manifests_folder, self._silence_s = manifests_folder, silence_s
        self._allowances, self._roof = allowances, roof
        self._tasks = asyncio.TaskGroup()
        self._queries = RemoteQueries()
        self._killed_for: AgentError | None = None
        #: runs that were asked to end: since when (CLOCK_MONOTONIC ns), and why
        self._stopping: dict[str, tuple[int, str]] = {}
        #: the outcomes that the worker reported, and when the last one came
        self._outcomes: dict[str, Outcome] = {}
        self._last_outcome_ns = 0
        self._published: set[str] = set()
        self._has_outcome = asyncio.Event()
        self._is_ring_broken = False
        #: CLOCK_MONOTONIC; since when the worker can't be used, 0 while it can
        self._gone_ns = 0
        publisher.when_ended(self._forget_run)

    @property
    def order(self) -> WorkOrder:
        """The order that is carried out."""
        return self.publisher.order

    @property
    def current_run(self) -> str | None:
        """The run that the worker prepares or measures, None between orders."""
        open_runs = (run for run in self.order.runs if run not in self._outcomes)
        return next(open_runs, None)

    async def carry_out(self) -> bool:
        """Do the order; False when the worker can't be used again. Raises the sink's errors."""
        order = PerformOrder(
            self.order,
            self._manifests_folder,
            dict(self._worker.assets.files),
            self._allowances,
            self._roof,
        )
        container = self._worker.container
        conditions = {} if container is None else container.conditions
        self.publisher.note_host_conditions(conditions)
        await self._worker.send(order)
        try:
            async with self._tasks:
                listening = self._tasks.create_task(self._listen())
                self._tasks.create_task(self._publish(listening))
                self._tasks.create_task(self._watch(listening))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        return listening.result() and self._killed_for is None

    async def stop(self, run: str, reason: str) -> None:
        """Ask a run to end; a worker that does not end it is killed."""
        if run in self.publisher.open_runs:
            self._stopping.setdefault(run, (now_ns(), reason))
            await self._worker.send(StopRun(self._key(run), reason))

    async def query(self, query: IssueQuery, timeout_s: float) -> QueryAnswered:
        """Hand a remote query to the worker and return its answer; it fails after `timeout_s`."""
        if query.key.run not in self.publisher.open_runs:
            return failed_answer(query.key.run, query.query, "the run has ended")
        return await self._queries.answer_to(query, self._worker.send, timeout_s)

    async def finish(self, run: str, load: IssuedLoad) -> None:
        """End a remote run's load; `load` is what its issuer reports of it."""
        self.publisher.note_issued_load(run, load)
        await self._worker.send(FinishLoad(self._key(run)))

    async def _listen(self) -> bool:
        """Handle messages until the worker has done the order; False when it is gone."""
        message: ToHost | None
        try:
            while (message := await self._worker.receive()) and not isinstance(message, OrderDone):
                self._handle_message(message)
        except MalformedMessage as error:
            self._end_worker(WorkerDied(f"sent a message that can't be read: {error}"))
            message = None
        self._has_outcome.set()
        is_done = all(run in self._outcomes for run in self.publisher.open_runs)
        if message is not None and not is_done:
            self._end_worker(WorkerDied("ended the order without the outcomes of all runs"))
        return message is not None and is_done

    def _handle_message(self, message: ToHost) -> None:
        match message:
            case QueryAnswered():
                self._queries.take(message)
            case LoadAwaited(run=run):
                self._tasks.create_task(self.publisher.publish_ready(run))
            case RunEnded(outcome=outcome):
                if not self.publisher.has_ordered(outcome):
                    text = f"{outcome.evaluation}/{outcome.run}/{outcome.attempt}"
                    raise MalformedMessage(field="outcome", found=text, expected="one of its order")
                self._outcomes[outcome.run], self._last_outcome_ns = outcome, now_ns()
                self._has_outcome.set()

    async def _publish(self, listening: "asyncio.Task[bool]") -> None:
        """Publish the batches handed over, and each run's outcome after its last batch."""
        is_last_round = False
        while not is_last_round:
            # Read before the batches: those of a run are handed over before its outcome.
            is_last_round, outcomes = listening.done(), tuple(self._outcomes.values())
            has_ended = is_last_round or any(
                outcome.run not in self._published for outcome in outcomes
            )
            if self._worker.has_due_batches(has_ended=has_ended):
                await self._publish_batches()
            if not self._is_ring_broken:
                for outcome in outcomes:
                    self._publish_outcome(outcome)
            if not is_last_round:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._has_outcome.wait()
                self._has_outcome.clear()
        if self._is_ring_broken or not listening.result():
            error = self._killed_for or await self._worker.death()
            for run in self.publisher.open_runs:
                cause = self._stop_of(run, error) or error
                self._publish_outcome(self.publisher.failure(run, cause))

    async def _publish_batches(self) -> None:
        """Publish every batch that waits."""
        try:
            while not self._is_ring_broken and (fact := next(self._worker.batches(), None)):
                if not self.publisher.has_ordered(fact):
                    raise RingBroken("a batch in the ring is of another order")
                await self.publisher.publish_batch(fact)
        except RingBroken as damage:
            self._is_ring_broken = True
            self._end_worker(damage)

    def _publish_outcome(self, outcome: Outcome) -> None:
        """Begin to publish an outcome; only the end of the order waits for it."""
        if outcome.run not in self._published:
            self._published.add(outcome.run)
            self._tasks.create_task(self.publisher.publish_outcome(outcome))

    def _stop_of(self, run: str, error: AgentError) -> Stopped | None:
        """Return the stop that explains why a run ended with an error; None where none does."""
        if run not in self._stopping:
            return None
        reason = self._stopping[run][1]
        if isinstance(error, StopIgnored):
            return Stopped(f"{reason or 'stopped'}; {error}")
        return Stopped(reason)

    async def _watch(self, listening: "asyncio.Task[bool]") -> None:
        """Kill a worker that does not respond, and drop batches that a full stream refuses."""
        began_ns = now_ns()
        while self.publisher.open_runs or not listening.done():
            await asyncio.sleep(_POLL_S)
            is_watched = not listening.done() and self._killed_for is None
            fault = self._worker_fault(began_ns) if is_watched else None
            # What the model left runs on while outcomes wait to be published.
            if fault is None and self._killed_for is None and self._worker.is_alive:
                fault = await self._worker.excess()
            if fault is not None:
                self._end_worker(fault)
            if listening.done() and not listening.result():
                self._gone_ns = self._gone_ns or now_ns()
            if self.publisher.is_held_back:
                self._drop_refused_batches()

    def _worker_fault(self, began_ns: int) -> AgentError | None:
        """Return why the worker must be killed, or None; the order began at `began_ns`."""
        under_way = set(self.publisher.open_runs).difference(self._outcomes)
        # A stopped run may wait for its turn: it has the grace again when another one ended.
        if under_way and all(self._is_overdue(run, self._last_outcome_ns) for run in under_way):
            return StopIgnored()
        if (late_sample := self._late_sample()) is not None:
            return late_sample
        # A decoder that does not release the interpreter lets no heartbeat through: its sample
        # began after the last heartbeat.
        under_way_s = ((s, _elapsed_s(s.since_ns)) for s in self._worker.samples_under_way)
        samples = preparing_text([s for s, time_s in under_way_s if time_s > self._silence_s / 2])
        if self._worker.silent_s() > self._silence_s:
            return RunTimedOut(self._silence_s, "one predict call, or a heartbeat,", samples)
        order = self.order
        bound_s = sum(plan.timeout_s for plan in order.session.runs if plan.run in order.runs)
        if _elapsed_s(began_ns) > bound_s + self._silence_s:
            return RunTimedOut(bound_s, "opening and running", samples)
        return None

    def _late_sample(self) -> SampleTimedOut | None:
        """Return that a sample is prepared for too long, in the worker's own process, or None."""
        timeout_s = self._allowances.preparation.sample_timeout_s
        oldest = next(iter(self._worker.samples_under_way), None)
        if oldest is None or _elapsed_s(oldest.since_ns) <= timeout_s:
            return None
        return SampleTimedOut(oldest.sample, timeout_s)

    def _drop_refused_batches(self) -> None:
        """Drop what a full stream refuses of runs that were stopped, or lost their worker."""
        for run in self.publisher.open_runs:
            gone_ns = 0 if run in self._outcomes else self._gone_ns
            is_lost = gone_ns > 0 and _elapsed_s(gone_ns) > _STOP_GRACE_S
            if not is_lost and not self._is_overdue(run):
                continue
            self.publisher.drop_refused(run)
            if run in self._outcomes:
                self._publish_outcome(self._outcomes[run])

    def _is_overdue(self, run: str, since_ns: int = 0) -> bool:
        """Return whether a stopped run's grace has passed, counted from `since_ns` or later."""
        if run not in self._stopping:
            return False
        return _elapsed_s(max(since_ns, self._stopping[run][0])) > _STOP_GRACE_S

    def _end_worker(self, error: AgentError) -> None:
        self._killed_for = self._killed_for or error
        self._worker.kill()

    def _forget_run(self, ended_run: str) -> None:
        """Answer the queries that wait for a run that has ended."""
        self._stopping.pop(ended_run, None)
        self._queries.end_run(ended_run)

    def _key(self, run: str) -> AttemptKey:
        return AttemptKey(self.order.evaluation, run, self.order.attempt)


def _elapsed_s(since_ns: int) -> float:
    return (now_ns() - since_ns) * 1e-9
