"""Claims remote runs that are ready, has their loads issued, publishes the queries (I/O).

A claim is a guarded `RunIssued`, so that one scheduler instance has it. A load that fails is ended
by an interruption, and an instance that dies by its lease. Either way the attempt is over: it is
never resumed.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgpack

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.window import PublishWindow
from mlscope.load import Load, scenario_named
from mlscope.load.time_limit import in_time
from mlscope.tasks import end_tasks
from schemas.evaluation import RunIssued
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from services.scheduler.agent_commands import ask_agent
from services.scheduler.decision_log import DecisionLog
from services.scheduler.errors import IssuerFailed, Undecided
from services.scheduler.evaluation.attempts import decide_broken
from services.scheduler.evaluation.effects import Issue, Start, order_of
from services.scheduler.evaluation.state import EvaluationState, Run
from services.scheduler.placement.fleet import Attempt, Limits
from services.scheduler.placement.resolving import samples_of
from services.scheduler.remote_load.continuation import Continuation, continuation_of
from services.scheduler.remote_load.issued import LoadRecord, Queries, batches_of
from services.scheduler.remote_load.processes import BrokerAddress, issue_load

_log = logging.getLogger(__name__)
_PAUSE_S = 1.0


class RemoteLoads:
    """The loads that this scheduler instance issues, one task each."""

    def __init__(
        self,
        bus: Bus,
        log: DecisionLog,
        broker: BrokerAddress,
        instance: str,
        *,
        limits: Limits | None = None,
        lost_after_s: float = 30.0,
    ) -> None:
        """Issue loads for the scheduler `instance`.

        Facts are published on `bus` and decisions recorded in `log`; queries travel over
        connections of their own to `broker`. `limits` bound attempts and waits. A query without
        answer is lost `lost_after_s` after the last answer or issue.
        """
        self._bus = bus
        self._log = log
        self._broker = broker
        self._instance = instance
        self._limits = limits or Limits()
        self._lost_after_s = lost_after_s
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> int:
        """The number of loads that are being issued."""
        return len(self._tasks)

    def claim(self, issue: Issue) -> None:
        """Claim a run and issue its load, unless that is under way."""
        attempt = Attempt(issue.evaluation, issue.run, issue.attempt)
        if attempt not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._claim_and_issue(attempt))
            self._tasks[attempt] = task
            task.add_done_callback(lambda _: self._tasks.pop(attempt, None))

    def cancel_ended(self, state: EvaluationState) -> None:
        """Cancel the loads of an evaluation's attempts that are over."""
        for attempt, task in list(self._tasks.items()):
            if attempt.evaluation == state.evaluation and _run_under_way(state, attempt) is None:
                task.cancel()

    def cancel_all_but(self, states: Mapping[str, EvaluationState]) -> None:
        """Cancel the loads of attempts that are not under way; `states` are by open evaluation."""
        for attempt, task in list(self._tasks.items()):
            state = states.get(attempt.evaluation)
            if state is None or _run_under_way(state, attempt) is None:
                task.cancel()

    async def close(self) -> None:
        """Cancel every load; once the lease has run out, their runs are repeated."""
        await end_tasks(self._tasks.values())

    async def _claim_and_issue(self, attempt: Attempt) -> None:
        async def claim(state: EvaluationState) -> list[Fact]:
            run = _run_under_way(state, attempt)
            if run is None or run.issuer or not run.is_ready:
                return []
            return [
                RunIssued(
                    evaluation=attempt.evaluation,
                    run=attempt.run,
                    attempt=attempt.number,
                    issuer=self._instance,
                )
            ]

        try:
            state = await self._log.settle(attempt.evaluation, claim)
            run = _run_under_way(state, attempt)
            if run is not None and run.issuer == self._instance:
                runs = (attempt.run,)
                start = Start(run.agent, attempt.evaluation, run.session, run.attempt, runs)
                await self._issue(order_of(state, start), run)
        except Exception as error:  # noqa: BLE001  whatever it was, the attempt must not hang
            place = {"evaluation": attempt.evaluation, "run": attempt.run}
            _log.warning("load of %s not issued", attempt, exc_info=error, extra=place)
            reason = str(error) or type(error).__name__
            await self._give_up(attempt, f"its load could not be issued: {reason}")

    async def _issue(self, order: WorkOrder, run: Run) -> None:
        """Issue a claimed load, publish its queries, then tell the agent that it is complete."""
        make = partial(continuation_of_run, order, run)
        continuation = await asyncio.to_thread(in_time, run.plan.scenario, make)
        publishing = _QueryPublisher(self._bus, order, run.run, self._lost_after_s)
        try:
            issued = await issue_load(
                self._broker,
                order,
                run.run,
                continuation,
                self._lost_after_s,
                on_final=publishing.publish,
            )
            await publishing.drain()
        finally:
            await publishing.window.abort()
        blocks_ended, caveat = await asyncio.to_thread(continuation.ending, issued)
        body = msgpack.packb(
            {
                "evaluation": order.evaluation,
                "run": run.run,
                "attempt": order.attempt,
                "query_batches": publishing.batches,
                "queries": issued.queries,
                "failed_queries": issued.failed,
                "failed_samples": sum(issued.failed_samples.values()),
                "lost_queries": issued.lost,
                "late_p99_ns": issued.late_p99_ns,
                "blocks_ended": blocks_ended,
                "stop_caveat": caveat,
            }
        )
        await finish_run(self._bus, order.agent, body, self._limits.run_grace_s)

    async def _give_up(self, attempt: Attempt, cause: str) -> None:
        """Record the end of an attempt, however long that takes; cancelling ends the wait.

        While this instance lives, no other one takes the attempt for lost.
        """

        async def interrupt(state: EvaluationState) -> list[Fact]:
            run = _run_under_way(state, attempt)
            if run is None or run.issuer != self._instance:
                return []
            return decide_broken(state, [attempt.run], attempt.number, cause, self._limits)

        while True:
            try:
                await self._log.settle(attempt.evaluation, interrupt)
            except (BusError, Undecided) as error:
                place = {"evaluation": attempt.evaluation, "run": attempt.run}
                _log.warning("failure of %s not recorded yet: %s", attempt, error, extra=place)
            else:
                return
            await asyncio.sleep(_PAUSE_S)


async def finish_run(bus: Bus, agent: str, body: bytes, timeout_s: float) -> None:
    """Tell an `agent` over `bus` that a load is complete, until it has accepted that.

    `body` is the encoded command `finish`. Raises IssuerFailed where the agent refuses for good, or
    has not accepted within `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        answer = await ask_agent(bus, agent, "finish", body)
        if answer is not None and (answer.accepted or answer.error == "stale"):
            return
        if answer is not None and answer.error != "busy":
            raise IssuerFailed(f"the agent would not finish it: {answer.message}")
        if time.monotonic() >= deadline_s:
            raise IssuerFailed(f"the agent did not accept its end for {timeout_s:g} s")
        await asyncio.sleep(_PAUSE_S)


class _QueryPublisher:
    """Publishes the query batches of one load while it is issued.

    Raises IssuerFailed when the stream takes no batch for `timeout_s`.
    """

    def __init__(self, bus: Bus, order: WorkOrder, run: str, timeout_s: float) -> None:
        self.window = PublishWindow(bus, size=8)
        self.batches = 0
        self._order = order
        self._run = run
        self._timeout_s = timeout_s
        self._cause = f"{order.evaluation}/{run}/{order.attempt}"

    async def publish(self, load: LoadRecord, queries: Queries) -> None:
        """Publish queries whose rows are final."""
        for batch in batches_of(self._order, self._run, load, queries, self.batches):
            fact_id = derived_id(self._cause, batch.schema_name(), batch.sequence)
            async with self._within_timeout():
                await self.window.put(batch, id=fact_id, cause=self._cause)
            self.batches += 1

    async def drain(self) -> None:
        """Return once every batch is stored."""
        async with self._within_timeout():
            await self.window.drain()

    @asynccontextmanager
    async def _within_timeout(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError as error:
            reason = self.window.held_back or "the log is slow"
            message = f"its queries found no room for {self._timeout_s:g} s: {reason}"
            raise IssuerFailed(message) from error


def _run_under_way(state: EvaluationState, attempt: Attempt) -> Run | None:
    """Return the run of an attempt while that attempt is under way."""
    run = state.runs.get(attempt.run)
    if run is None or run.attempt != attempt.number or not run.is_under_way or state.is_ended:
        return None
    return run


def continuation_of_run(order: WorkOrder, run: Run) -> Continuation:
    """Return the continuation of the load of a `run` of an `order`.

    The load's first block is the load that the agent would make.
    """
    scenario = scenario_named(run.plan.scenario)
    samples = samples_of(order.subject.dataset)

    def longer(queries: int) -> Load:
        parameters = {**run.plan.parameters, "queries": queries}
        return scenario(parameters, order.session.batch_size, samples)

    load = scenario(run.plan.parameters, order.session.batch_size, samples)
    return continuation_of(order, run.plan, load, longer)
