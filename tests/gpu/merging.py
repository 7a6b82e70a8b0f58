"""Bundles of one model as one: `python -m tests.gpu.merging OUT BUNDLE…`.

What was measured in two plans, as layers and kernels in one and counters in another, is then one
evaluation of the first one's load: a replay counts one call, whatever its load was called. Sessions
and runs must have names of their own.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas.agent import AgentAnnounced
from schemas.codec import decode
from schemas.evaluation import EvaluationPlanned
from schemas.message import Fact
from services.agent.bundle import BundleWriter, read_bundle


def merged(out: Path, paths: Sequence[Path]) -> None:
    """Write bundles as one, under the first one's evaluation. Raises BundleBroken."""
    facts = [decode(body) for path in paths for body in read_bundle(path)]
    planned = [fact for _, fact in facts if isinstance(fact, EvaluationPlanned)]
    announced = [fact for _, fact in facts if isinstance(fact, AgentAnnounced)]
    first = planned[0]
    load = first.plan.sessions[0].runs[0]
    same = {"parameters": load.parameters, "queries": load.queries}
    sessions = tuple(
        each.model_copy(update={"runs": tuple(run.model_copy(update=same) for run in each.runs)})
        for one in planned
        for each in one.plan.sessions
    )
    whole = first.model_copy(update={"plan": first.plan.model_copy(update={"sessions": sessions})})
    asyncio.run(_write(out, [whole, announced[0], *_measured([fact for _, fact in facts], first)]))


def _measured(facts: Sequence[Fact], first: EvaluationPlanned) -> list[Fact]:
    """Return what was measured, as of the first one's evaluation."""
    found = [each for each in facts if not isinstance(each, EvaluationPlanned | AgentAnnounced)]
    return [each.model_copy(update={"evaluation": first.evaluation}) for each in found]


async def _write(out: Path, facts: Sequence[Fact]) -> None:
    with BundleWriter(out) as bundle:
        for number, fact in enumerate(facts):
            await bundle.put(fact, id=f"merged-{number}", cause="merged")


if __name__ == "__main__":
    merged(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
