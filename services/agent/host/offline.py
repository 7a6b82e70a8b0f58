"""Runs a whole plan on one machine, without broker or database: the same facts, in a bundle.

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

from mlscope.exchange.bundle import read_bundle
from schemas.agent import AgentAnnounced
from schemas.evaluation import EvaluationPlanned, EvaluationRequested, RunStarted
from schemas.message import Fact, derived_id
from schemas.plan import OfflinePlan, SessionPlan, WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.errors import AgentError, ContainerRefused
from services.agent.fetching.fetching import FetchSettings, fetch_for_subject
from services.agent.host.announcing import announcement
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerLimits, WorkerProcess
from services.agent.host.publishing.bundle import BundleSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher, Sink, cause_of
from services.agent.host.roofs.keeping import DeviceRoofs
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances
from services.agent.link.bounds import NO_BOUNDS, Bounds
from services.agent.link.messages import Outcome
from services.agent.link.variants import variant_environment

__all__ = ["SHIPPED_MANIFESTS", "read_bundle", "run_plan"]

SHIPPED_MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
_RING_BYTES = 16 << 20
_SPOOL_BYTES = 1 << 30
_SILENCE_S = 120.0

OnFact = Callable[[Fact], None]


@dataclass(frozen=True, slots=True)
class OfflineResources:
    """The resources of a machine that a plan may use."""

    manifests_folder: Path = SHIPPED_MANIFESTS
    #: where files from elsewhere are fetched to; None: none are fetched
    assets: FetchSettings | None = None
    #: what models may use
    allowances: Allowances = DEFAULT_ALLOWANCES
    #: what a worker may use
    bounds: Bounds = NO_BOUNDS
    #: names of variables that workers get although they look like secrets
    passed_variables: tuple[str, ...] = ()
    #: where devices' roofs are kept; None: they are measured for this plan alone
    roofs_folder: Path | None = None


DEFAULT_RESOURCES = OfflineResources()
"""The shipped manifests, and nothing else."""


def run_plan(
    plan: OfflinePlan,
    out_path: Path,
    resources: OfflineResources = DEFAULT_RESOURCES,
    *,
    on_fact: OnFact | None = None,
) -> list[Outcome]:
    """Run a plan with a machine's `resources`, and write its bundle to `out_path`.

    Returns the outcome of every run, in the plan's order. `on_fact` is called with every fact as it
    is written. A run whose pacing is remote is paced here. Raises OSError when the bundle can't be
    written.
    """
    return asyncio.run(_run_plan(plan, out_path, resources, on_fact))


async def _run_plan(
    plan: OfflinePlan, out_path: Path, resources: OfflineResources, on_fact: OnFact | None
) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def note_fact(fact: Fact) -> None:
        if isinstance(fact, RunCompleted | RunFailed):
            outcomes.append(fact)
        if on_fact is not None:
            on_fact(fact)

    with (
        BundleSink(out_path, note_fact) as bundle,
        TemporaryDirectory(prefix="mlscope-") as folder,
    ):
        roofs = DeviceRoofs(resources.roofs_folder or Path(folder, "roofs"))
        orders = (order for session in plan.plan.sessions for order in orders_of(plan, session))
        for order in orders:
            await roofs.roof_for_order(order)
        await _put_introduction(plan, bundle, resources.allowances, roofs)
        limits = WorkerLimits(
            Path(folder),
            _RING_BYTES,
            _SPOOL_BYTES,
            resources.bounds,
            passed_variables=resources.passed_variables,
        )
        for session in plan.plan.sessions:
            await _Session(plan, session, bundle, limits, resources, roofs).run()
    return outcomes


async def _put_introduction(
    plan: OfflinePlan, sink: Sink, allowances: Allowances, roofs: DeviceRoofs
) -> None:
    """Write the facts before the first run: the request, the plan, and the machine."""
    cause = derived_id(plan.evaluation, "offline")
    if plan.request is not None:
        requested = EvaluationRequested(
            evaluation=plan.evaluation, request=plan.request, requested_ns=time.time_ns()
        )
        await sink.put(requested, id=derived_id(cause, "requested"), cause=cause)
    planned = EvaluationPlanned(evaluation=plan.evaluation, plan=plan.plan)
    await sink.put(planned, id=derived_id(cause, "planned"), cause=cause)
    incarnation = secrets.token_hex(8)
    for agent in dict.fromkeys(session.agent for session in plan.plan.sessions):
        described = roofs.added_to(announcement(agent, incarnation, allowances=allowances))
        fact = AgentAnnounced(agent=agent, announcement=described)
        await sink.put(fact, id=derived_id(incarnation, "announced", agent), cause=cause)


@dataclass(frozen=True, slots=True)
class _Session:
    """One session of a plan, and what it runs with."""

    plan: OfflinePlan
    session: SessionPlan
    sink: Sink
    limits: WorkerLimits
    resources: OfflineResources
    roofs: DeviceRoofs

    async def run(self) -> None:
        """Do the session's orders; a worker that can't be used again is replaced."""
        resources = self.resources
        worker: WorkerProcess | None = None
        try:
            for order in orders_of(self.plan, self.session):
                await self._put_started(order)
                publisher = OutcomePublisher(order, self.sink)
                try:
                    if image := order.subject.container:
                        raise ContainerRefused(image, "a plan without a cluster starts none")
                    environment = variant_environment(self.session.variant)
                    roof = await self.roofs.roof_for_order(order)
                    worker = worker or await WorkerProcess.start(
                        self.session.session, self.limits, environment
                    )
                    if not worker.has_assets and resources.assets is not None:
                        worker.keep_assets(await fetch_for_subject(order.subject, resources.assets))
                except AgentError as error:
                    await publisher.fail_open_runs(error)
                    continue
                folder, allowances = resources.manifests_folder, resources.allowances
                execution = Execution(publisher, worker, folder, _SILENCE_S, allowances, roof)
                if not await execution.carry_out():
                    await worker.close()
                    worker = None
        finally:
            if worker is not None:
                await worker.close()

    async def _put_started(self, order: WorkOrder) -> None:
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
            await self.sink.put(fact, id=derived_id(cause, "started"), cause=cause)


def orders_of(plan: OfflinePlan, session: SessionPlan) -> Iterator[WorkOrder]:
    """Yield the orders of a session, one for each group of its runs, all of them paced locally."""
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
