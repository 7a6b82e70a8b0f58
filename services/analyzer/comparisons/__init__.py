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
from services.analyzer.comparisons.drift import drift_note
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

    A caveat of each names the runs that a cancellation cut off, which are left out; another says
    what the intervals leave out.
    """
    notes = [
        f"{source.evaluation}/{run} was cut off by a cancellation and is not compared"
        for source in sources
        for run in sorted(source.cut_off)
    ]
    tables = []
    for comparison in COMPARISONS:
        table = comparison.compute(sources, terms)
        drift = drift_note(sources) if table.rows and comparison is not REGRESSIONS else ""
        caveats = (*notes, *table.caveats, *filter(None, [drift]))
        tables.append(table.model_copy(update={"caveats": caveats}))
    return tuple(tables)


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

TABLES_OF_REPEATS = ("conditions", "latency", "device_conditions")
"""The tables of the further evaluations that show drift."""
