"""Comparisons of several evaluations, one a file: pure functions from their tables to a table.

Owns: what is compared between evaluations, and when they are too different to compare. Knows: the
tables' columns. Does not know: rows of the database, runs' spans.
"""

from collections.abc import Sequence

from schemas.analysis import Table
from services.analyzer.comparisons.accuracy import COMPARISON as ACCURACY
from services.analyzer.comparisons.changes import KERNELS, LAYERS
from services.analyzer.comparisons.choice import COMPARISON as CHOICE
from services.analyzer.comparisons.cost import COMPARISON as COST
from services.analyzer.comparisons.regressions import COMPARISON as REGRESSIONS
from services.analyzer.comparisons.source import Comparison, Source, Terms
from services.analyzer.comparisons.speedup import COMPARISON as SPEEDUP
from services.analyzer.comparisons.systems import COMPARISON as SYSTEMS
from services.analyzer.comparisons.throughput import COMPARISON as THROUGHPUT

COMPARISONS: tuple[Comparison, ...] = (
    THROUGHPUT,
    SPEEDUP,
    SYSTEMS,
    ACCURACY,
    COST,
    CHOICE,
    REGRESSIONS,
    LAYERS,
    KERNELS,
)
"""Every comparison, in the order of a report."""


def comparisons_of(sources: Sequence[Source], terms: Terms) -> tuple[Table, ...]:
    """Return every comparison of the evaluations `sources` on a user's `terms`.

    A caveat of each names the runs that a cancellation cut off, which are left out.
    """
    notes = [
        f"{source.evaluation}/{run} was cut off by a cancellation and is not compared"
        for source in sources
        for run in sorted(source.cut_off)
    ]
    tables = (comparison.compute(sources, terms) for comparison in COMPARISONS)
    return tuple(table.model_copy(update={"caveats": (*notes, *table.caveats)}) for table in tables)


TABLES_READ = (
    "conditions",
    "latency",
    "blocks",
    "device_conditions",
    "optimal_batch",
    "accuracy",
    "layers",
    "kernels",
)
"""The tables that comparisons read."""
