"""Parents of what a host did, by containment."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.correlation.columns import ABSENT, Ns, Rows, Spans, rows_of
from services.analyzer.correlation.containment import Intervals, innermost, shrunk

_ANY = 0


@dataclass(frozen=True, slots=True)
class _Search:
    """One way to look: candidates and children by a key that both must share."""

    of_candidate: Ns
    of_child: Ns
    rows: Rows


def host_parents(spans: Spans, orphans: Rows, tolerance_ns: int) -> Rows:
    """Return the row of each orphan's parent, -1 where nothing contains it.

    The parent is the innermost span around it of the nearest shallower level at which there is
    one: first on its own thread, then on any thread of its query. A span of unknown query takes
    any span of its thread; across threads, those of the one query under way at its middle, if
    there is but one. At each level exact containment is tried first, then with `tolerance_ns`
    taken off each end of the child (never beyond its middle): clocks truncate.
    """
    parents = np.full(len(orphans), ABSENT, np.int64)
    holders = np.flatnonzero(spans.is_kind(SpanKind.HOST, SpanKind.LAUNCH))
    for level in np.unique(spans.level[orphans]):
        mine = np.flatnonzero(spans.level[orphans] == level)
        above = holders[spans.level[holders] < level]
        steps = [above[spans.level[above] == each] for each in _falling(spans.level[above])]
        for by_thread in (True, False):
            for candidates in steps:
                left = mine[parents[mine] == ABSENT]
                if left.size:
                    parents[left] = _around(
                        spans, candidates, orphans[left], tolerance_ns, by_thread=by_thread
                    )
    return parents


def user_parents(spans: Spans, orphans: Rows, tolerance_ns: int) -> Rows:
    """Return the row of the query's root in which each orphan lies, -1 where that can't be told.

    For spans that users' code said, of level application like the roots themselves: the query is
    that of the operator around it on its own thread, else of the root around it there, else the
    one that is under way alone.
    """
    parents = np.full(len(orphans), ABSENT, np.int64)
    of_query = np.flatnonzero((spans.query != ABSENT) & spans.is_kind(SpanKind.HOST))
    roots = of_query[spans.level[of_query] <= Level.APPLICATION]
    operators = of_query[spans.level[of_query] == Level.MODEL]
    for candidates, by_thread in ((operators, True), (roots, True), (roots, False)):
        left = np.flatnonzero(parents == ABSENT)
        if left.size and candidates.size:
            found = _around(spans, candidates, orphans[left], tolerance_ns, by_thread=by_thread)
            wanted = np.where(found == ABSENT, ABSENT, spans.query[found])
            parents[left] = _root_of(spans, roots, wanted)
    return parents


def _root_of(spans: Spans, roots: Rows, queries: Ns) -> Rows:
    """Return the row of each query's (first) root, -1 for none."""
    known, first = np.unique(spans.query[roots], return_index=True)
    place = rows_of(known, queries)
    return np.where(place == ABSENT, ABSENT, roots[first][place]) if roots.size else place


def _around(
    spans: Spans, candidates: Rows, children: Rows, tolerance_ns: int, *, by_thread: bool
) -> Rows:
    """Return the row of the innermost candidate around each child, -1 for none."""
    found = np.full(len(children), ABSENT, np.int64)
    for search in _searches(spans, candidates, children, by_thread=by_thread):
        outer = Intervals(search.of_candidate, spans.start[candidates], spans.end[candidates])
        rows = search.rows
        inner = Intervals(search.of_child, spans.start[children[rows]], spans.end[children[rows]])
        place = innermost(outer, inner)
        out = np.flatnonzero(place == ABSENT)
        place[out] = innermost(outer, shrunk(inner.at(out), tolerance_ns))
        found[rows] = np.where(place == ABSENT, ABSENT, candidates[place])
    return found


def _searches(
    spans: Spans, candidates: Rows, children: Rows, *, by_thread: bool
) -> Iterator[_Search]:
    """Yield the searches for children that know their query, and for those that do not."""
    query = spans.query[children]
    if not by_thread:
        query = np.where(query == ABSENT, _under_way(spans, children), query)
        rows = np.flatnonzero(query != ABSENT)
        yield _Search(spans.query[candidates], query[rows], rows)
        return
    known, unknown = np.flatnonzero(query != ABSENT), np.flatnonzero(query == ABSENT)
    threads, thread = spans.thread[candidates], spans.thread[children]
    if known.size:
        ours, theirs = _paired((threads, spans.query[candidates]), (thread[known], query[known]))
        yield _Search(ours, theirs, known)
    if unknown.size:
        yield _Search(threads, thread[unknown], unknown)


def _paired(ours: tuple[Ns, Ns], theirs: tuple[Ns, Ns]) -> tuple[Ns, Ns]:
    """Return one key for each pair of thread and query."""
    threads, thread_codes = np.unique(np.concatenate([ours[0], theirs[0]]), return_inverse=True)
    queries = np.concatenate([ours[1], theirs[1]])
    keys = (queries - int(queries.min())) * len(threads) + thread_codes
    first, second = np.split(keys.astype(np.int64), [len(ours[0])])
    return first, second


def _under_way(spans: Spans, children: Rows) -> Ns:
    """Return the query whose root runs at the middle of each child, -1 where not just one does."""
    roots = np.flatnonzero(
        (spans.level <= Level.APPLICATION) & (spans.query != ABSENT) & spans.is_kind(SpanKind.HOST)
    )
    if not roots.size:
        return np.full(len(children), ABSENT, np.int64)
    middle = (spans.start[children] + spans.end[children]) // 2
    begun = np.searchsorted(np.sort(spans.start[roots]), middle, side="right")
    ended = np.searchsorted(np.sort(spans.end[roots]), middle, side="left")
    anywhere = np.full(len(roots), _ANY, np.int64)
    place = innermost(
        Intervals(anywhere, spans.start[roots], spans.end[roots]),
        Intervals(np.full(len(children), _ANY, np.int64), middle, middle),
    )
    alone: npt.NDArray[np.bool_] = (begun - ended == 1) & (place != ABSENT)
    return np.where(alone, spans.query[roots[place]], ABSENT)


def _falling(levels: Ns) -> Ns:
    return np.unique(levels)[::-1]
