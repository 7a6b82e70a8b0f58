"""A bundle's first queries: `python -m tests.gpu.trimming BLOCKS QUERIES BUNDLE…`.

Of each run the first blocks stay, of these the first queries (at level model all), and what was
traced of them; what was sampled in these blocks stays, but for joules of queries that are gone.
Writes `recorded/NAME.bundle.gz`.
"""

import asyncio
import gzip
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mlscope.exchange.bundle import BundleWriter, read_bundle
from mlscope.tracing.batches import LINKED_COLUMNS, QUERY_COLUMNS
from schemas.batch import QueriesAnswered, SpanKind, TraceCaptured
from schemas.encoding.codec import decode
from schemas.evaluation import EvaluationPlanned
from schemas.level import Level
from schemas.message import Fact
from schemas.run import RunCompleted
from tests.gpu.recordings import FOLDER

B = TypeVar("B", QueriesAnswered, TraceCaptured)
_ON_DEVICE = [int(kind) for kind in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)]
_COUNTED = ("spans", "queries", "trace_batches", "query_batches")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of each run stays."""

    blocks: int
    queries: int


@dataclass(slots=True)
class Kept:
    """What stays of one run: its queries, and how many rows of each kind."""

    queries: set[int] = field(default_factory=set)
    #: when they were under way
    spells_ns: list[tuple[int, int]] = field(default_factory=list)
    #: ids of the calls made then
    correlations: set[int] = field(default_factory=set)
    #: whether all of its queries stay
    is_whole: bool = False
    #: whether it is replayed for minutes, so that what is sampled meanwhile says nothing of it
    is_replay: bool = False
    counts: Counter[str] = field(default_factory=Counter)


def trimmed(facts: list[Fact], bounds: Bounds) -> Iterator[Fact]:
    """Yield facts with the first queries of the first blocks alone, tallies made to fit."""
    runs = _chosen(facts, bounds)
    for fact in facts:
        if isinstance(fact, QueriesAnswered | TraceCaptured):
            cut = _batch(fact, bounds, runs[fact.run])
            if cut.count:
                yield cut
        elif isinstance(fact, RunCompleted):
            counts = runs[fact.run].counts
            tally = fact.tally.model_copy(update={name: counts[name] for name in _COUNTED})
            yield fact.model_copy(update={"tally": tally, "blocks": fact.blocks[: bounds.blocks]})
        else:
            yield fact


def _chosen(facts: list[Fact], bounds: Bounds) -> dict[str, Kept]:
    """Return what stays, by run."""
    (planned,) = (each for each in facts if isinstance(each, EvaluationPlanned))
    runs: dict[str, Kept] = {}
    for session in planned.plan.sessions:
        for run in session.runs:
            is_whole = run.level <= Level.MODEL or run.queries <= bounds.queries
            runs[run.run] = Kept(is_whole=is_whole, is_replay=session.variant == "counters")
    for fact in facts:
        if isinstance(fact, QueriesAnswered):
            _choose(fact, bounds, runs[fact.run])
    for fact in facts:
        if isinstance(fact, TraceCaptured) and fact.kind and fact.correlation:
            _note_calls(fact, runs[fact.run])
    return runs


def _batch(
    fact: QueriesAnswered | TraceCaptured, bounds: Bounds, kept: Kept
) -> QueriesAnswered | TraceCaptured:
    """Return what stays of a batch, counted, with the next number of its run."""
    kind = "query" if isinstance(fact, QueriesAnswered) else "trace"
    rows = "queries" if isinstance(fact, QueriesAnswered) else "spans"
    cut: QueriesAnswered | TraceCaptured = (
        _queries(fact, kept) if isinstance(fact, QueriesAnswered) else _spans(fact, bounds, kept)
    )
    # A collector waits for batches whose numbers are missing.
    cut = cut.model_copy(update={"sequence": kept.counts[f"{kind}_batches"]})
    kept.counts += Counter({rows: cut.count, f"{kind}_batches": int(cut.count > 0)})
    return cut


def _column(fact: Fact, name: str, kind: str) -> Any:
    return np.frombuffer(getattr(fact, name), dtype=kind)


def _choose(fact: QueriesAnswered, bounds: Bounds, kept: Kept) -> None:
    names = ("query", "block", "started_ns", "ended_ns")
    columns = [_column(fact, name, QUERY_COLUMNS[name]).tolist() for name in names]
    rows = sorted(zip(*columns, strict=True))
    most = len(rows) if kept.is_whole else bounds.queries
    for block in range(bounds.blocks):
        first = [row for row in rows if row[1] == block][:most]
        kept.queries.update(query for query, *_ in first)
        kept.spells_ns += [(start_ns, end_ns) for *_, start_ns, end_ns in first]


def _note_calls(fact: TraceCaptured, kept: Kept) -> None:
    calls = _column(fact, "kind", LINKED_COLUMNS["kind"]) == int(SpanKind.LAUNCH)
    found = _column(fact, "correlation", LINKED_COLUMNS["correlation"])
    kept.correlations.update(found[calls & _then(fact, kept)].tolist())


def _then(fact: TraceCaptured, kept: Kept) -> Any:
    """Say which spans began while a query that stays was under way."""
    starts_ns = _column(fact, "start_ns", LINKED_COLUMNS["start_ns"])
    found = np.zeros(fact.count, dtype=bool)
    for start_ns, end_ns in kept.spells_ns:
        found |= (starts_ns >= start_ns) & (starts_ns <= end_ns)
    return found


def _queries(fact: QueriesAnswered, kept: Kept) -> QueriesAnswered:
    assert not fact.error_rows, "queries that failed are no recording"
    numbers = _column(fact, "query", QUERY_COLUMNS["query"])
    stays = np.isin(numbers, [*kept.queries])
    return _cut(fact, QUERY_COLUMNS, stays, {})


def _spans(fact: TraceCaptured, bounds: Bounds, kept: Kept) -> TraceCaptured:
    """Return what stays: a query's own, and of what has none what was made or called then."""
    queries = _column(fact, "query", LINKED_COLUMNS["query"])
    levels = _column(fact, "level", LINKED_COLUMNS["level"])
    stays = np.isin(queries, [*kept.queries]) | ((queries < 0) & _then(fact, kept))
    if fact.kind:
        kinds = _column(fact, "kind", LINKED_COLUMNS["kind"])
        known = _column(fact, "correlation", LINKED_COLUMNS["correlation"])
        of_call = np.isin(known, [*kept.correlations])
        stays = np.where((queries < 0) & np.isin(kinds, _ON_DEVICE) & (known >= 0), of_call, stays)
        is_sample = kinds == int(SpanKind.SAMPLE)
        is_told = is_sample & (levels > (Level.NONE if kept.is_whole else Level.APPLICATION))
        stays &= ~is_sample
        stays |= is_told & (not kept.is_replay)
    stays |= levels == int(Level.HARDWARE)
    if kept.is_whole and not kept.is_replay:
        stays[:] = True
    stays &= _column(fact, "block", LINKED_COLUMNS["block"]) < bounds.blocks
    places = {int(row): place for place, row in enumerate(np.flatnonzero(stays))}
    noted = [
        (places[row], text)
        for row, text in zip(fact.attribute_rows, fact.attribute_texts, strict=True)
        if row in places
    ]
    rows, texts = zip(*noted, strict=True) if noted else ((), ())
    return _cut(fact, LINKED_COLUMNS, stays, {"attribute_rows": rows, "attribute_texts": texts})


def _cut(fact: B, columns: Mapping[str, str], stays: Any, more: dict[str, Any]) -> B:
    """Return a batch with the rows that stay."""
    packed = {
        name: _column(fact, name, kind)[stays].tobytes()
        for name, kind in columns.items()
        if getattr(fact, name)
    }
    return fact.model_copy(update={**packed, "count": int(stays.sum()), **more})


async def _write(path: Path, facts: Iterator[Fact]) -> None:
    with BundleWriter(path) as bundle:
        for number, fact in enumerate(facts):
            await bundle.put(fact, id=f"trimmed-{number}", cause="trimmed")


def main(blocks: int, queries: int, *paths: str) -> None:
    """Keep the first queries of bundles as recordings."""
    for path in map(Path, paths):
        facts = [decode(body)[1] for body in read_bundle(path)]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, path.name)
            asyncio.run(_write(out, trimmed(facts, Bounds(blocks, queries))))
            # No time of the day in it: the same bundle gives the same file.
            packed = gzip.compress(out.read_bytes(), 9, mtime=0)
        (FOLDER / f"{path.name}.gz").write_bytes(packed)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
