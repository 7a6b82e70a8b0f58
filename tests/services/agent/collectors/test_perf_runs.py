"""The collector perf in runs of a worker, plain and serialised: what it counts, or why not."""

from pathlib import Path

import pytest

from schemas.batch import TraceCaptured
from schemas.level import Level
from schemas.plan import WorkOrder
from schemas.run import RunCompleted
from services.agent.collectors.perf import collector as perf
from tests.services.agent.builders import Kept, a_run, a_subject, an_order, carried_out

needs_perf = pytest.mark.skipif(
    Level.SYSTEM not in perf.availability().levels, reason="this machine allows no perf events"
)
VARIANTS = pytest.mark.parametrize("variant", ["", "serialised"], ids=["plain", "serialised"])


def counted_order(variant: str, level: str) -> WorkOrder:
    """Return an order as `mlscope run … --trace-level LEVEL --collector perf` makes it."""
    subject = a_subject(collectors={"perf": True})
    order = an_order(subject, (a_run(queries=5, level=level),))
    session = order.session.model_copy(update={"variant": variant})
    return order.model_copy(update={"session": session})


def series_in(kept: Kept) -> set[str]:
    return {name for fact in kept.of(TraceCaptured) for name in fact.name_texts}


@needs_perf
@VARIANTS
async def test_perf_counts_in_plain_and_serialised_runs(variant: str, tmp_path: Path) -> None:
    kept = await carried_out(counted_order(variant, "system"), tmp_path)
    assert {"perf.task-clock", "perf.page-faults"} <= series_in(kept)


@VARIANTS
async def test_a_run_too_shallow_for_perf_says_why(variant: str, tmp_path: Path) -> None:
    kept = await carried_out(counted_order(variant, "framework"), tmp_path)
    completed: RunCompleted = kept.completed()
    assert not any(name.startswith("perf.") for name in series_in(kept))
    assert any(caveat.startswith("collector perf: ") for caveat in completed.caveats)
