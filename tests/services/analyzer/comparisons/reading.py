"""Evaluations of described runs, as comparisons read them."""

from collections.abc import Sequence
from typing import Any

from schemas.analysis import Table
from services.analyzer.comparisons import COMPARISONS, TABLES_READ
from services.analyzer.comparisons.source import Comparison, Source, Terms
from services.analyzer.tables import ANALYSES
from tests.services.analyzer.golden import frames_in

NO_TERMS = Terms()


def source(evaluation: str, *runs: dict[str, Any], **more: Any) -> Source:
    """Return an evaluation of these runs."""
    frames = frames_in({"runs": list(runs), **more})
    tables = [each.compute(frames) for each in ANALYSES if each.name in TABLES_READ]
    return Source(evaluation, {table.name: table for table in tables})


def batch(size: int, ns: int, count: int = 40, wobble: int = 0, **more: Any) -> dict[str, Any]:
    """Return a run of queries of `size` samples, each `ns` long, one after the other.

    With `wobble` every second one takes that much longer.
    """
    queries, at = [], 0
    for n in range(count):
        spent = ns + wobble * (n % 2)
        queries.append([n, 0, size, None, at, at, at + spent, spent, 0])
        at += spent
    told = {"run": f"b{size}", "batch_size": size, "agent": "a", "model": "m", "model_version": "1"}
    return told | {"queries": queries} | more


def all_tables(*evaluations: str) -> list[Table]:
    """Return every comparison of evaluations of two batch sizes, each slower than the one before.

    Their runs have four blocks each, so that blocks are compared.
    """
    sources = [
        source(name, *(_blocks(size, (place + 1) * size * 1_000_000) for size in (1, 4)))
        for place, name in enumerate(evaluations)
    ]
    terms = Terms(prices={"a": 3.0})
    return [comparison.compute(sources, terms) for comparison in COMPARISONS]


def _blocks(size: int, ns: int) -> dict[str, Any]:
    """Return a run of four blocks of ten queries, which take `ns` or 2% more."""
    run = batch(size, ns, wobble=ns // 50)
    for place, query in enumerate(run["queries"]):
        query[1] = place // 10
    return run


def rows(comparison: Comparison, *sources: Source, terms: Terms = NO_TERMS) -> list[dict[str, Any]]:
    """Return a comparison's rows as maps."""
    return table_of(comparison, sources, terms).records()


def table_of(comparison: Comparison, sources: Sequence[Source], terms: Terms = NO_TERMS) -> Table:
    """Return a comparison's table."""
    return comparison.compute(sources, terms)
