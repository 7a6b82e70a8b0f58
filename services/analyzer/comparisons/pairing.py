"""Runs of two evaluations that are set against each other: those of one load, in their order."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product

from services.analyzer.comparisons.source import Cells, Source

PAIRED_BY = ("agent", "scenario", "batch_size", "level", "variant")
VERSIONS = ("model", "framework", "mlscope_version", "python_version", "checksums")
"""Conditions in which the runs of a pair may differ."""
_PARAMETERS = ("parameters",)
_REPLAY = "counters"
"""The variant of runs whose times include a profiler's replays."""


def paired(first: Source, second: Source) -> tuple[list[tuple[Cells, Cells]], int]:
    """Return the pairs of rows of latency, and how many rows of the second have no partner.

    Rows of one key are paired in their order, those with the same parameters before the others.
    """
    before: dict[tuple[object, ...], list[Cells]] = defaultdict(list)
    for row in latency_rows(first):
        before[key_of(first, row, PAIRED_BY)].append(row)
    rows = latency_rows(second)
    partners: dict[int, Cells] = {}
    for names, (place, row) in product((_PARAMETERS, ()), enumerate(rows)):
        candidates = before[key_of(second, row, PAIRED_BY)] if place not in partners else []
        needed = key_of(second, row, names)
        fitting = (
            candidate for candidate in candidates if key_of(first, candidate, names) == needed
        )
        if partner := next(fitting, None):
            partners[place] = candidates.pop(candidates.index(partner))
    pairs = [(partners[place], row) for place, row in enumerate(rows) if place in partners]
    return pairs, len(rows) - len(pairs)


def latency_rows(source: Source) -> list[Cells]:
    """Return the rows of latency whose times are of the model alone, not of replays."""
    return [
        row
        for row in source.rows("latency")
        if source.conditions.get(row["run"], {}).get("variant") != _REPLAY
    ]


def key_of(source: Source, row: Cells, names: Sequence[str]) -> tuple[object, ...]:
    """Return the cells `names` of a row of latency of `source`, or of its run's conditions."""
    conditions = source.conditions.get(row["run"], {})
    # Tables stored before there were variants lack the column: they hold plain runs.
    return tuple({"variant": "", **conditions, **row}.get(name) for name in names)
