"""Statistics: summaries of measured values, and their confidence intervals.

Owns: the definitions, each with its source. Pure; NumPy and the standard library only.
Does not know: units, spans, messages, services. Values keep their unit: ns in, ns out.
"""

from mlscope.statistics.blocks import blocks_interval, student_975
from mlscope.statistics.certification import is_certified, minimum_count
from mlscope.statistics.changes import LEAST_CHANGE, certain_change
from mlscope.statistics.clusters import (
    differ_beyond_chance,
    percentile_widening,
    trimmed_widening,
    widened,
)
from mlscope.statistics.errors import NotFinite, NoValues, OutOfRange, StatisticsError
from mlscope.statistics.intervals import (
    Interval,
    Resampling,
    mean_interval,
    percentile_interval,
    ratio_interval,
    wilson,
    winsorised_interval,
)
from mlscope.statistics.ranking import Best, Estimate, are_told_apart, best
from mlscope.statistics.repeats import REPEATS_READ, repeat_limit
from mlscope.statistics.summary import percentile, trimmed_mean
from mlscope.statistics.throughput import OptimalBatch, Throughput, optimal_batch, throughput

__all__ = [
    "LEAST_CHANGE",
    "REPEATS_READ",
    "Best",
    "Estimate",
    "Interval",
    "NoValues",
    "NotFinite",
    "OptimalBatch",
    "OutOfRange",
    "Resampling",
    "StatisticsError",
    "Throughput",
    "are_told_apart",
    "best",
    "blocks_interval",
    "certain_change",
    "differ_beyond_chance",
    "is_certified",
    "mean_interval",
    "minimum_count",
    "optimal_batch",
    "percentile",
    "percentile_interval",
    "percentile_widening",
    "ratio_interval",
    "repeat_limit",
    "student_975",
    "throughput",
    "trimmed_mean",
    "trimmed_widening",
    "widened",
    "wilson",
    "winsorised_interval",
]
