"""Comparisons of several evaluations, one a file: pure functions from their tables to a table.

Owns: what is told of evaluations side by side, and when they are too unlike for that. Knows: the
tables' columns. Does not know: rows of the database, runs' spans.
"""

from services.analyzer.across.accuracy import COMPARISON as ACCURACY
from services.analyzer.across.choice import COMPARISON as CHOICE
from services.analyzer.across.cost import COMPARISON as COST
from services.analyzer.across.regressions import COMPARISON as REGRESSIONS
from services.analyzer.across.source import Comparison
from services.analyzer.across.speedup import COMPARISON as SPEEDUP
from services.analyzer.across.systems import COMPARISON as SYSTEMS
from services.analyzer.across.throughput import COMPARISON as THROUGHPUT

COMPARISONS: tuple[Comparison, ...] = (
    THROUGHPUT,
    SPEEDUP,
    SYSTEMS,
    ACCURACY,
    COST,
    CHOICE,
    REGRESSIONS,
)
"""Every comparison, in the order of a report."""

READ = (
    "conditions",
    "latency",
    "blocks",
    "device_conditions",
    "optimal_batch",
    "accuracy",
)
"""The tables that comparisons read."""
