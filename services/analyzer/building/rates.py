"""The rate of a run's samples, without the time between its blocks."""

from mlscope.statistics import Throughput
from mlscope.statistics import throughput as rate_of
from schemas.level import Level
from services.analyzer.frames.evaluation import Run, contiguous_ends_ns


def is_for_counters(run: Run) -> bool:
    """Return whether a run reads hardware counters: a profiler may replay each kernel in it."""
    return run.row.level == Level.HARDWARE


def samples_rate(run: Run) -> Throughput | None:
    """Return a run's answered samples per second; None without answers or elapsed time."""
    ends = contiguous_ends_ns(run.answered)
    if len(ends) == 0 or ends.max() <= 0:
        return None
    return rate_of(0, ends, run.answered_samples, blocks=run.answered_blocks)
