"""A model measured as an agent does: the same session, groups and facts, into a bundle.

In this process, so that torch is imported and the GPU opened once for all models; `run_plan` does
the same with a worker process for each session.
"""

import asyncio
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.survey.bounds import NO_BOUND, Bound, TimeIsUp
from mlscope.statistics import Estimate
from mlscope.statistics import optimal_batch as best_of
from mlscope.statistics.throughput import GAIN
from schemas.agent import AgentAnnounced
from schemas.evaluation import EvaluationPlanned, RunStarted
from schemas.level import Level
from schemas.message import derived_id
from schemas.plan import OfflinePlan, Plan, RunPlan, SessionPlan, Subject, WorkOrder
from schemas.request import Blocks
from schemas.run import RunCompleted, RunFailed
from schemas.values.identity import new_evaluation_id
from services.agent.default_builders import BUILDERS
from services.agent.host.announcing import announcement
from services.agent.host.offline import SHIPPED_MANIFESTS, orders_of
from services.agent.host.publishing.bundle import BundleSink
from services.agent.host.publishing.outcome_publisher import OutcomePublisher, cause_of
from services.agent.host.roofs.keeping import DeviceRoofs
from services.agent.link.allowances import Allowances
from services.agent.link.batches import unpack_batch
from services.agent.link.messages import PerformOrder
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.session_opener import SessionOpener

AGENT = "here"
ALLOWED = Allowances(builders=(*BUILDERS, "benchmarks.survey"))
LEVELS = (Level.MODEL, Level.FRAMEWORK, Level.SYSTEM)
SINGLE = "b1-single-model"
"""The run of single samples, whose latency is the online one."""
ROOFS = "roofs"
"""In a survey's folder: the roofs that were measured."""

Outcome = RunCompleted | RunFailed


def plan_of(
    subject: Subject,
    batch_sizes: Sequence[int],
    queries: int,
    levels: Sequence[Level],
    blocks: int = 1,
    scenario: str = "online",
) -> OfflinePlan:
    """Return a plan: one session a batch size, one run a level, interleaved in blocks."""
    sessions = [
        SessionPlan(
            session=f"b{size}",
            agent=AGENT,
            batch_size=size,
            runs=tuple(
                RunPlan(
                    run=f"b{size}-{scenario}-{level.name.lower()}",
                    group=0,
                    scenario=scenario,
                    parameters={"queries": queries},
                    level=level,
                    queries=queries,
                )
                for level in levels
            ),
        )
        for size in batch_sizes
    ]
    rule = Blocks(least=blocks, most=blocks)
    subject = subject.model_copy(update={"blocks": rule, "outputs": 0})
    plan = Plan(subject=subject, sessions=tuple(sessions))
    return OfflinePlan(evaluation=new_evaluation_id(), plan=plan)


def online_first(plan: OfflinePlan, queries: int) -> OfflinePlan:
    """Return a plan with a session before the others: single samples at level model."""
    (first,) = plan_of(plan.plan.subject, [1], queries, [Level.MODEL]).plan.sessions
    run = first.runs[0].model_copy(update={"run": SINGLE})
    first = first.model_copy(update={"session": "b1-online", "runs": (run,)})
    sessions = (first, *plan.plan.sessions)
    return plan.model_copy(update={"plan": plan.plan.model_copy(update={"sessions": sessions})})


def measure(
    plan: OfflinePlan,
    path: Path,
    bound: Bound = NO_BOUND,
    core: int | None = None,
    group_type: type[Group] = Group,
) -> list[Outcome]:
    """Measure a plan here and write its bundle; return how each run ended. Raises TimeIsUp.

    With `core` every query is issued from that one. `group_type` performs each order.
    """
    return asyncio.run(_measure(plan, path, bound, core, group_type))


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this thread on one core of the host; on any where that is None. Raises OSError.

    Where neighbours slow some cores, a thread that wakes on another after each pause makes blocks
    of two lengths, 3.5 and 5.0 ms on the machine this was seen on.
    """
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def _measure(
    plan: OfflinePlan, path: Path, bound: Bound, core: int | None, group_type: type[Group]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    cause = derived_id(plan.evaluation, "offline")
    roofs = await roofs_of(plan, path.parent / ROOFS, bound)
    with BundleSink(path) as bundle, TemporaryDirectory(prefix="mlscope-") as folder:
        planned = EvaluationPlanned(evaluation=plan.evaluation, plan=plan.plan)
        await bundle.put(planned, id=derived_id(cause, "planned"), cause=cause)
        announced = roofs.added_to(announcement(AGENT, "one", allowances=ALLOWED))
        fact = AgentAnnounced(agent=AGENT, announcement=announced)
        await bundle.put(fact, id=derived_id(cause, "announced"), cause=cause)
        for number in range(len(plan.plan.sessions)):
            bounded = bound.on(plan)
            for order in orders_of(bounded, bounded.plan.sessions[number]):
                roof = await roofs.roof_for_order(order)
                place = SessionOpener(
                    PerformOrder(order, SHIPPED_MANIFESTS, {}, ALLOWED, roof), Path(folder)
                )
                outcomes += await _order(order, bundle, place, core, group_type)
                bound.judge(outcomes)
    return outcomes


async def roofs_of(plan: OfflinePlan, folder: Path, bound: Bound) -> DeviceRoofs:
    """Return roofs that a folder keeps, those of a plan measured if need be. Raises TimeIsUp.

    Before the plan's first session, whose memory on the device would be in the way.
    """
    roofs = DeviceRoofs(folder)
    try:
        async with asyncio.timeout(None if bound.until == math.inf else bound.left_s):
            for session in plan.plan.sessions:
                for order in orders_of(plan, session):
                    await roofs.roof_for_order(order)
    except TimeoutError as error:
        raise TimeIsUp from error
    return roofs


async def _order(
    order: WorkOrder,
    bundle: BundleSink,
    opener: SessionOpener,
    core: int | None,
    group_type: type[Group],
) -> list[Outcome]:
    """Open, do and close one session's only order."""
    publisher = OutcomePublisher(order, bundle)
    for number, run in enumerate(order.runs):
        cause = cause_of(order.evaluation, run, order.attempt)
        started = RunStarted(
            evaluation=order.evaluation,
            run=run,
            session=order.session.session,
            attempt=order.attempt,
            agent=order.agent,
            started_ns=number,
        )
        await bundle.put(started, id=derived_id(cause, "started"), cause=cause)
    session = opener.open()
    # Packed, as in an agent's ring: rows unpacked would be looked at by each block's collection.
    batches: list[bytes] = []

    def take(body: bytes) -> bool:
        batches.append(body)
        return True

    group = group_type(session, order, Control(), take, lambda _: None, opener)
    try:
        with pinned(core):
            outcomes = list(group.perform())
    finally:
        session.close()
    for body in batches:
        await publisher.publish_batch(unpack_batch(body))
    for outcome in outcomes:
        await publisher.publish_outcome(outcome)
    return outcomes


def medians_ms(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the median service time of each run, in milliseconds."""
    medians = {}
    for outcome in outcomes:
        if isinstance(outcome, RunCompleted):
            blocks = [block.median_ns for block in outcome.blocks]
            medians[outcome.run] = sum(blocks) / len(blocks) / 1e6
    return medians


def disturbed_sizes(medians: Mapping[int, float]) -> list[int]:
    """Return the batch sizes to measure again, where a size ends the rule of `optimal_batch`.

    Those of the doubling that gains too little, where a doubling of larger sizes gains enough: a
    model's throughput levels off once, so that most likely the host was busy meanwhile.
    """
    settled = optimal_batch(medians)
    gains = [
        medians[size] * 2 / medians[2 * size] - 1
        for size in medians
        if size > settled and 2 * size in medians
    ]
    return [settled, 2 * settled] if max(gains, default=0.0) > GAIN else []


def optimal_batch(medians: Mapping[int, float]) -> int:
    """Return the batch size whose doubling raises throughput by no more than 5 % (XSP's rule)."""
    return best_of({size: Estimate(size / spent) for size, spent in medians.items()}).batch_size
