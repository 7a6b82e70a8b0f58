"""A model at level full as one evaluation, planned as a scheduler plans a request for it."""

from benchmarks.survey.subjects import Net
from schemas.agent import Announcement
from schemas.level import Level
from schemas.plan import OfflinePlan
from schemas.request import Blocks, Evaluate, ScenarioChoice, SystemNeed
from schemas.status import AgentStatus, Catalog
from schemas.values.identity import new_evaluation_id
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan

QUERIES, BLOCKS = 4, 3
POWER_HZ = 100
"""NVML's samples a second: runs at level system last a second or less."""


def request_of(net: Net, size: int, ncu_s: float) -> Evaluate:
    """Return what one would ask a cluster for; ncu is ended after `ncu_s`."""
    return Evaluate(
        model=net.manifest(),
        dataset=net.dataset(),
        system=SystemNeed(device="gpu"),
        scenarios=(ScenarioChoice(name="online", parameters={"queries": QUERIES}),),
        batch_sizes=(size,),
        trace_level=Level.FULL,
        options=dict(net.options),
        collectors={"nvml": {"rate_hz": POWER_HZ}, "ncu": {"timeout_s": ncu_s}},
        blocks=Blocks(least=BLOCKS, most=BLOCKS),
        outputs=0,
        run_timeout_s=ncu_s,
    )


def plan_of(net: Net, size: int, machine: Announcement, ncu_s: float) -> OfflinePlan:
    """Return a plan for a machine: levels in turn in one session, counters in one of their own.

    Raises RequestRefused.
    """
    catalog = Catalog(agents=(AgentStatus(announcement=machine),))
    request = request_of(net, size, ncu_s)
    planned = plan(request, match(request, catalog, {}), catalog)
    return OfflinePlan(evaluation=new_evaluation_id(), plan=planned, request=request)
