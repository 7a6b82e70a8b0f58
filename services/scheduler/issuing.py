"""Claims remote runs that are ready and has their load issued, batches published, runs finished.

A claim is a guarded RunIssued, so that one instance has it. An issuer that fails says so by an
interruption; one that dies is missed by its lease. Either way the attempt is over, never resumed.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgpack

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.window import PublishWindow
from mlscope.load import Load, scenario_named
from schemas.evaluation import RunIssued
from schemas.message import Fact, derived_id
from schemas.plan import WorkOrder
from services.scheduler.commanding import Commander
from services.scheduler.decide import decide_broken
from services.scheduler.effects import Issue, Start, order_of
from services.scheduler.errors import IssuerFailed, Undecided
from services.scheduler.fleet import Limits
from services.scheduler.issued import IssuedLoad, Queries, batches_of
from services.scheduler.recording import Decider, Recorder
from services.scheduler.remote_load import Where, issue_load
from services.scheduler.resolving import samples_of
from services.scheduler.state import EvaluationState, Run

_log = logging.getLogger(__name__)
_PAUSE_S = 1.0

Attempt = tuple[str, str, int]
"""evaluation, run, attempt"""


class Issuing:
    """The loads this scheduler instance issues, one task each."""

    def __init__(self, bus: Bus, recorder: Recorder, where: Where, instance: str) -> None:
        """Issue over connections to `where`; the commander is set before use."""
        self._bus = bus
        self._recorder = recorder
        self._where = where
        self._instance = instance
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self.commander: Commander | None = None
        self.limits = Limits()
        self.lost_after_s = 30.0

    @property
    def under_way(self) -> int:
        """How many loads are being issued."""
        return len(self._tasks)

    def claim(self, issue: Issue) -> None:
        """Take on a run's load, unless it is taken on already."""
        attempt = (issue.evaluation, issue.run, issue.attempt)
        if attempt in self._tasks:
            return
        task = asyncio.get_running_loop().create_task(self._issue(issue))
        self._tasks[attempt] = task
        task.add_done_callback(lambda _: self._tasks.pop(attempt, None))

    def drop_stale(self, state: EvaluationState) -> None:
        """End the issuing of attempts that are over."""
        for attempt, task in list(self._tasks.items()):
            if attempt[0] == state.evaluation and _under_way(state, attempt) is None:
                task.cancel()

    def drop_all_but(self, open_ones: Mapping[str, EvaluationState]) -> None:
        """End the issuing of attempts that are not under way in any open evaluation."""
        for attempt, task in list(self._tasks.items()):
            state = open_ones.get(attempt[0])
            if state is None or _under_way(state, attempt) is None:
                task.cancel()

    async def close(self) -> None:
        """End every load; the lease runs out and the runs are repeated."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _issue(self, issue: Issue) -> None:
        attempt = (issue.evaluation, issue.run, issue.attempt)
        try:
            state = await self._recorder.settle(issue.evaluation, self._claiming(attempt))
            run = _under_way(state, attempt)
            if run is None or run.issuer != self._instance:
                return
            order = order_of(
                state,
                Start(run.agent, issue.evaluation, run.session, run.attempt, (issue.run,)),
            )
            await self._issue_claimed(order, run)
        except Exception as error:  # noqa: BLE001  whatever it was, the attempt must not hang
            _log.warning("load of %s not issued", attempt, exc_info=error)
            reason = str(error) or type(error).__name__
            await self._give_up(attempt, f"its load could not be issued: {reason}")

    def _claiming(self, attempt: Attempt) -> Decider:
        async def claim(state: EvaluationState) -> list[Fact]:
            run = _under_way(state, attempt)
            if run is None or run.issuer or not run.is_ready:
                return []
            evaluation, name, number = attempt
            return [
                RunIssued(evaluation=evaluation, run=name, attempt=number, issuer=self._instance)
            ]

        return claim

    async def _issue_claimed(self, order: WorkOrder, run: Run) -> None:
        load = await asyncio.to_thread(load_of, order, run)
        name = run.plan.run
        publishing = _Publishing(self._bus, order, name, self.lost_after_s)
        try:
            issued = await issue_load(
                self._where, order, name, load, self.lost_after_s, hear=publishing.publish
            )
            await publishing.drain()
        finally:
            await publishing.window.abort()
        body = msgpack.packb(
            {
                "evaluation": order.evaluation,
                "run": name,
                "attempt": order.attempt,
                "query_batches": publishing.batches,
                "queries": issued.queries,
                "failed_queries": issued.failed,
                "failed_samples": sum(issued.failed_samples.values()),
                "lost_queries": issued.lost,
                "late_p99_ns": issued.late_p99_ns,
            }
        )
        await self._finish(order.agent, body)

    async def _finish(self, agent: str, body: bytes) -> None:
        """Tell the agent that all is issued, until it has heard.

        Raises IssuerFailed where it would not, or has not within `run_grace_s`.
        """
        assert self.commander is not None, "set before use"
        patience_s = self.limits.run_grace_s
        deadline_s = time.monotonic() + patience_s
        while True:
            answer = await self.commander.ask(agent, "finish", body)
            if answer is not None and (answer.accepted or answer.error == "stale"):
                return
            if answer is not None and answer.error != "busy":
                raise IssuerFailed(f"the agent would not finish it: {answer.message}")
            if time.monotonic() >= deadline_s:
                raise IssuerFailed(f"the agent did not hear of its end for {patience_s:g} s")
            await asyncio.sleep(_PAUSE_S)

    async def _give_up(self, attempt: Attempt, cause: str) -> None:
        """Record the end of an attempt, until that is done; dropping it ends the wait.

        While this instance lives nobody else takes it for lost.
        """

        async def interrupt(state: EvaluationState) -> list[Fact]:
            run = _under_way(state, attempt)
            if run is None or run.issuer != self._instance:
                return []
            return decide_broken(state, [attempt[1]], attempt[2], cause, self.limits)

        while True:
            try:
                await self._recorder.settle(attempt[0], interrupt)
            except (BusError, Undecided) as error:
                _log.warning("failure of %s not recorded yet: %s", attempt, error)
            else:
                return
            await asyncio.sleep(_PAUSE_S)


class _Publishing:
    """Has the batches of one load published while it goes on.

    A stream that takes none of them for `patience_s` ends it: IssuerFailed.
    """

    def __init__(self, bus: Bus, order: WorkOrder, run: str, patience_s: float) -> None:
        self.window = PublishWindow(bus, size=8)
        self.batches = 0
        self._order = order
        self._run = run
        self._patience_s = patience_s
        self._cause = f"{order.evaluation}/{run}/{order.attempt}"

    async def publish(self, load: IssuedLoad, queries: Queries) -> None:
        """Publish some queries that are over."""
        for batch in batches_of(self._order, self._run, load, queries, self.batches):
            fact_id = derived_id(self._cause, batch.schema_name(), batch.sequence)
            async with self._patiently():
                await self.window.put(batch, id=fact_id, cause=self._cause)
            self.batches += 1

    async def drain(self) -> None:
        """Return once all of them are stored."""
        async with self._patiently():
            await self.window.drain()

    @asynccontextmanager
    async def _patiently(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                yield
        except TimeoutError as error:
            reason = self.window.held_back or "the log is slow"
            raise IssuerFailed(
                f"its queries found no room for {self._patience_s:g} s: {reason}"
            ) from error


def _under_way(state: EvaluationState, attempt: Attempt) -> Run | None:
    """Return the run of an attempt while that is the one under way."""
    run = state.runs.get(attempt[1])
    if run is None or run.attempt != attempt[2] or not run.is_under_way or state.is_ended:
        return None
    return run


def load_of(order: WorkOrder, run: Run) -> Load:
    """Return the load of a run, as the agent would make it."""
    scenario = scenario_named(run.plan.scenario)
    samples = samples_of(order.subject.dataset)
    return scenario(run.plan.parameters, order.session.batch_size, samples)
