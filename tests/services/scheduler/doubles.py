"""The scheduler's neighbours: an agent that does as told, a collector, an analyzer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.tasks import end_tasks
from schemas.analysis import AnalysisCompleted
from schemas.encoding.codec import decode_body, encode_body, unpack
from schemas.evaluation import EvaluationMeasured
from schemas.message import derived_id
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import (
    ClockOrigin,
    Conditions,
    RunCompleted,
    RunFailed,
    RunReady,
    RunRecorded,
    Tally,
)
from schemas.status import AgentStatus
from schemas.subjects import agent_command
from tests.services.scheduler.samples import an_agent

Script = Callable[[WorkOrder, str], str]
"""What becomes of a run: 'complete', 'hang', 'ready' (for its load), or an error's kind."""


def completes(_: WorkOrder, __: str) -> str:
    return "complete"


def hangs(_: WorkOrder, __: str) -> str:
    return "hang"


@dataclass
class ScriptedAgent:
    """An agent without a worker: it answers commands and says what its script says."""

    bus: Bus
    status: AgentStatus = field(default_factory=an_agent)
    script: Script = completes
    orders: list[WorkOrder] = field(default_factory=list)
    stops: list[tuple[str, int]] = field(default_factory=list)
    closes: list[str] = field(default_factory=list)
    finishes: list[dict[str, object]] = field(default_factory=list)
    refuses: list[str] = field(default_factory=list)
    #: the queries that a run has answered when it is stopped
    answered: int = 0
    _known: set[tuple[str, str, int]] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Return the agent's id."""
        return self.status.announcement.agent

    async def open(self) -> None:
        """Answer commands and be in the catalog."""
        await self.bus.answer(agent_command(self.name, "*"), self._answer, queue=None)
        await self.enter()

    async def enter(self, state: str = "live") -> None:
        """Be in the catalog in a state."""
        status = self.status.model_copy(update={"state": state})
        key = f"agent_{self.name}"
        await self.bus.put("catalog", key, encode_body(status, json_text=True))

    async def _answer(self, asked: ReceivedCommand) -> bytes:
        verb = asked.subject.rsplit(".", 1)[-1]
        if verb == "start":
            return encode_body(self._start(decode_body(WorkOrder, asked.body)))
        body = unpack(asked.body)
        if verb == "stop":
            self.stops.append((body["run"], body["attempt"]))
            self._do(self._report_stop(body))
        elif verb == "close":
            self.closes.append(body["session"])
        elif verb == "finish":
            self.finishes.append(body)
        return encode_body(WorkAnswer(accepted=True))

    def _start(self, order: WorkOrder) -> WorkAnswer:
        if self.refuses:
            return WorkAnswer(accepted=False, error=self.refuses.pop(0))
        new = [r for r in order.runs if (order.evaluation, r, order.attempt) not in self._known]
        self._known |= {(order.evaluation, run, order.attempt) for run in new}
        if new:
            self.orders.append(order)
            self._do(self._run(order, new))
        return WorkAnswer(accepted=True)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_stop(self, about: dict[str, Any]) -> None:
        """Say that a run was stopped, unless it said before how it ended."""
        tally = Tally(query_batches=1, queries=self.answered)
        fact = RunFailed(**about, agent=self.name, error="stopped", message="asked", tally=tally)
        cause = f"{fact.evaluation}/{fact.run}/{fact.attempt}"
        await self.bus.publish(fact, id=derived_id(cause, fact.schema_name()))

    async def _run(self, order: WorkOrder, runs: list[str]) -> None:
        for run in runs:
            await self.say(order, run, self.script(order, run))

    async def say(self, order: WorkOrder, run: str, end: str) -> None:
        """Say how a run ended."""
        if end == "hang":
            return
        about: dict[str, Any] = {
            "evaluation": order.evaluation,
            "run": run,
            "attempt": order.attempt,
            "agent": self.name,
        }
        cause = f"{order.evaluation}/{run}/{order.attempt}"
        if end == "ready":
            await self.bus.publish(RunReady(**about), id=derived_id(cause, "ready"))
            return
        tally = Tally(query_batches=1, queries=5)
        origin = ClockOrigin(monotonic_ns=1, epoch_start_ns=1)
        fact: RunCompleted | RunFailed
        if end == "complete":
            fact = RunCompleted(**about, tally=tally, origin=origin, conditions=Conditions())
        else:
            fact = RunFailed(**about, error=end, message="as scripted", tally=tally)
        await self.bus.publish(fact, id=derived_id(cause, fact.schema_name()))


async def collect(bus: Bus) -> None:
    """Be the collector: record every run that ended, for ever."""
    async for recorded in bus.follow("mlscope.v1.run.>"):
        fact = recorded.fact if recorded else None
        if isinstance(fact, RunCompleted | RunFailed):
            said = RunRecorded(
                evaluation=fact.evaluation,
                run=fact.run,
                attempt=fact.attempt,
                spans=0,
                queries=fact.tally.queries,
                outputs=0,
            )
            cause = f"{fact.evaluation}/{fact.run}/{fact.attempt}"
            await bus.publish(said, id=derived_id(cause, said.schema_name()))


async def analyze(bus: Bus) -> None:
    """Be the analyzer: have tables of what was measured, for ever."""
    async for recorded in bus.follow("mlscope.v1.evaluation.>"):
        fact = recorded.fact if recorded else None
        if isinstance(fact, EvaluationMeasured):
            said = AnalysisCompleted(evaluation=fact.evaluation, tables=("latency",))
            await bus.publish(said, id=derived_id(fact.evaluation, said.schema_name()))


@contextlib.asynccontextmanager
async def neighbours(bus: Bus) -> AsyncIterator[None]:
    """Run a collector and an analyzer for the time of a block."""
    tasks = [asyncio.create_task(collect(bus)), asyncio.create_task(analyze(bus))]
    yield
    await end_tasks(tasks)


def scripted(*ends: str) -> Script:
    """Return a script that gives runs these ends, one after the other, then completes."""
    left: Iterator[str] = iter(ends)
    return lambda _, __: next(left, "complete")
