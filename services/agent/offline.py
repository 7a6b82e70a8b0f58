"""A whole plan on one machine, without broker or database: the same facts, into a bundle.

Needs numpy, msgpack, PyYAML, pydantic and the plan's framework, nothing else.
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mlscope.assets.opening import AssetSettings
from schemas.agent import AgentAnnounced
from schemas.evaluation import EvaluationPlanned, EvaluationRequested, RunStarted
from schemas.message import Fact, derived_id
from schemas.plan import OfflinePlan, SessionPlan, WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.allowances import NO_MORE, Allowances
from services.agent.bringing import bring_for
from services.agent.bundle import BundleWriter, read_bundle
from services.agent.errors import AgentError
from services.agent.execution import Execution
from services.agent.issued import Outcome
from services.agent.machine import announcement
from services.agent.process import WorkerLimits, WorkerProcess
from services.agent.roofs import Roofs
from services.agent.telling import Sink, Telling, cause_of
from services.agent.variants import environment_of

__all__ = ["SHIPPED_MANIFESTS", "read_bundle", "run_plan"]

SHIPPED_MANIFESTS = Path(__file__).resolve().parent.parent.parent / "manifests"
_RING_BYTES = 16 << 20
_SPOOL_BYTES = 1 << 30
_SILENCE_S = 120.0

Told = Callable[[Fact], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What a machine gives a plan."""

    manifests_folder: Path = SHIPPED_MANIFESTS
    #: where files that are elsewhere are fetched to; without, none are
    assets: AssetSettings | None = None
    #: what models may bring
    allowed: Allowances = NO_MORE
    #: memory that a worker may hold; 0 is no bound
    memory_bytes: int = 0
    #: where devices' roofs are kept; without, they are measured for this plan alone
    roofs_folder: Path | None = None


MODEST = Means()
"""What is shipped, and nothing else."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every session of a plan works with."""

    limits: WorkerLimits
    means: Means
    roofs: Roofs


def run_plan(
    plan: OfflinePlan, out_path: Path, means: Means = MODEST, *, told: Told | None = None
) -> list[Outcome]:
    """Run a plan and write its bundle; return how each run ended, in the plan's order.

    `told` is called with every fact as it is written. A run whose pacing is remote is paced
    here. Raises OSError when the bundle can't be written.
    """
    return asyncio.run(_run_plan(plan, out_path, means, told))


async def _run_plan(
    plan: OfflinePlan, out_path: Path, means: Means, told: Told | None
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def noted(fact: Fact) -> None:
        if isinstance(fact, RunCompleted | RunFailed):
            outcomes.append(fact)
        if told is not None:
            told(fact)

    with BundleWriter(out_path, noted) as bundle, TemporaryDirectory(prefix="mlscope-") as folder:
        roofs = Roofs(means.roofs_folder or Path(folder, "roofs"))
        for session in plan.plan.sessions:
            for order in orders_of(plan, session):
                await roofs.of(order)
        await _introduce(plan, bundle, means.allowed, roofs)
        limits = WorkerLimits(Path(folder), _RING_BYTES, _SPOOL_BYTES, means.memory_bytes)
        for session in plan.plan.sessions:
            await _run_session(plan, session, bundle, Surroundings(limits, means, roofs))
    return outcomes


async def _introduce(plan: OfflinePlan, sink: Sink, allowed: Allowances, roofs: Roofs) -> None:
    """Say what was asked for, what is to be done, and on which machine."""
    cause = derived_id(plan.evaluation, "offline")
    if plan.request is not None:
        asked = EvaluationRequested(
            evaluation=plan.evaluation, request=plan.request, requested_ns=time.time_ns()
        )
        await sink.put(asked, id=derived_id(cause, "requested"), cause=cause)
    planned = EvaluationPlanned(evaluation=plan.evaluation, plan=plan.plan)
    await sink.put(planned, id=derived_id(cause, "planned"), cause=cause)
    incarnation = secrets.token_hex(8)
    for agent in dict.fromkeys(session.agent for session in plan.plan.sessions):
        told = roofs.announced(announcement(agent, incarnation, allowed=allowed))
        fact = AgentAnnounced(agent=agent, announcement=told)
        await sink.put(fact, id=derived_id(incarnation, "announced", agent), cause=cause)


async def _run_session(
    plan: OfflinePlan, session: SessionPlan, sink: Sink, around: Surroundings
) -> None:
    limits, means = around.limits, around.means
    worker: WorkerProcess | None = None
    try:
        for order in orders_of(plan, session):
            await _say_started(order, sink)
            telling = Telling(order, sink)
            try:
                environment = environment_of(session.variant)
                roof = await around.roofs.of(order)
                worker = worker or await WorkerProcess.start(session.session, limits, environment)
                if not worker.has_goods and means.assets is not None:
                    worker.take(await bring_for(order.subject, means.assets))
            except AgentError as error:
                await telling.bury(error)
                continue
            if not await Execution(
                telling, worker, means.manifests_folder, _SILENCE_S, means.allowed, roof
            ).carry_out():
                await worker.close()
                worker = None
    finally:
        if worker is not None:
            await worker.close()


async def _say_started(order: WorkOrder, sink: Sink) -> None:
    for run in order.runs:
        fact = RunStarted(
            evaluation=order.evaluation,
            run=run,
            session=order.session.session,
            attempt=order.attempt,
            agent=order.agent,
            started_ns=time.time_ns(),
        )
        cause = cause_of(order.evaluation, run, order.attempt)
        await sink.put(fact, id=derived_id(cause, "started"), cause=cause)


def orders_of(plan: OfflinePlan, session: SessionPlan) -> Iterator[WorkOrder]:
    """Yield a session's orders, one a group, all of it paced locally."""
    runs = tuple(run.model_copy(update={"pacing": "local"}) for run in session.runs)
    for _, group in itertools.groupby(runs, key=lambda run: run.group):
        yield WorkOrder(
            evaluation=plan.evaluation,
            attempt=1,
            agent=session.agent,
            session=session.model_copy(update={"runs": runs}),
            subject=plan.plan.subject_of(session.session),
            runs=tuple(run.run for run in group),
        )
