"""Parents of a host's spans, by containment."""

from itertools import product

import numpy as np

from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.correlation.columns import ABSENT, Ns, Rows, Spans, rows_of
from services.analyzer.correlation.containment import Intervals, innermost, shrunk


def host_parents(spans: Spans, orphans: Rows, tolerance_ns: int) -> Rows:
    """Return the row of each orphan's parent, -1 where nothing contains it.

    The parent is the innermost span around the orphan, of the nearest shallower level that has
    one: first on its own thread, then on any thread of its query. A span of unknown query takes
    any span of its thread; across threads, those of the query running at its middle, if only one
    is. At each level exact containment is tried first, then with `tolerance_ns` taken off each end
    of the child (never beyond its middle), since clocks truncate. `orphans` are rows of `spans`.
    """
    parents = np.full(len(orphans), ABSENT, np.int64)
    holders = np.flatnonzero(spans.is_kind(SpanKind.HOST, SpanKind.LAUNCH))
    for level in np.unique(spans.level[orphans]):
        of_level = np.flatnonzero(spans.level[orphans] == level)
        above = holders[spans.level[holders] < level]
        deepest_first = np.unique(spans.level[above])[::-1]
        candidates_by_level = [above[spans.level[above] == upper] for upper in deepest_first]
        searches = product((_around_on_thread, _around_in_query), candidates_by_level)
        for find, candidates in searches:
            open_rows = of_level[parents[of_level] == ABSENT]
            if open_rows.size:
                parents[open_rows] = find(spans, candidates, orphans[open_rows], tolerance_ns)
    return parents


def user_parents(spans: Spans, orphans: Rows, tolerance_ns: int) -> Rows:
    """Return the row of the query's root in which each orphan lies, -1 where that can't be told.

    These are spans that users' code recorded, of level application like the roots themselves. The
    query is that of the operator around it on its own thread, else of the root around it there,
    else the only query running at that time. `orphans` are rows of `spans`; `tolerance_ns` is that
    of `host_parents`.
    """
    parents = np.full(len(orphans), ABSENT, np.int64)
    of_query = np.flatnonzero((spans.query != ABSENT) & spans.is_kind(SpanKind.HOST))
    roots = of_query[spans.level[of_query] <= Level.APPLICATION]
    operators = of_query[spans.level[of_query] == Level.MODEL]
    # Where there is no root, no query is found either.
    queries, first = np.unique(spans.query[roots], return_index=True)
    for candidates, find in (
        (operators, _around_on_thread),
        (roots, _around_on_thread),
        (roots, _around_in_query),
    ):
        open_rows = np.flatnonzero(parents == ABSENT)
        if open_rows.size and candidates.size and roots.size:
            around = find(spans, candidates, orphans[open_rows], tolerance_ns)
            query = np.where(around == ABSENT, ABSENT, spans.query[around])
            place = rows_of(queries, query)
            parents[open_rows] = np.where(place == ABSENT, ABSENT, roots[first][place])
    return parents


def _around_on_thread(spans: Spans, candidates: Rows, children: Rows, tolerance_ns: int) -> Rows:
    """Return the row of the innermost candidate around each child on its thread, -1 for none.

    A child of known query takes candidates of that query alone.
    """
    parents = np.full(len(children), ABSENT, np.int64)
    query, thread = spans.query[children], spans.thread[children]
    with_query, without_query = np.flatnonzero(query != ABSENT), np.flatnonzero(query == ABSENT)
    if with_query.size:
        # One key for each pair of thread and query.
        n = len(candidates)
        threads, thread_codes = np.unique(
            np.concatenate([spans.thread[candidates], thread[with_query]]), return_inverse=True
        )
        queries = np.concatenate([spans.query[candidates], query[with_query]])
        pairs = (queries - int(queries.min())) * len(threads) + thread_codes
        outer_keys, inner_keys = np.split(pairs.astype(np.int64), [n])
        parents[with_query] = _around(
            spans, (candidates, outer_keys), (children[with_query], inner_keys), tolerance_ns
        )
    if without_query.size:
        parents[without_query] = _around(
            spans,
            (candidates, spans.thread[candidates]),
            (children[without_query], thread[without_query]),
            tolerance_ns,
        )
    return parents


def _around_in_query(spans: Spans, candidates: Rows, children: Rows, tolerance_ns: int) -> Rows:
    """Return the row of the innermost candidate of each child's query around it, -1 for none.

    A child of unknown query is of the one query that runs at its middle, if only one does.
    """
    parents = np.full(len(children), ABSENT, np.int64)
    query = spans.query[children]
    roots = np.flatnonzero(
        (spans.level <= Level.APPLICATION) & (spans.query != ABSENT) & spans.is_kind(SpanKind.HOST)
    )
    if roots.size:
        middle = (spans.start[children] + spans.end[children]) // 2
        begun = np.searchsorted(np.sort(spans.start[roots]), middle, side="right")
        ended = np.searchsorted(np.sort(spans.end[roots]), middle, side="left")
        place = innermost(
            Intervals(np.zeros(len(roots), np.int64), spans.start[roots], spans.end[roots]),
            Intervals(np.zeros(len(children), np.int64), middle, middle),
        )
        is_alone = (begun - ended == 1) & (place != ABSENT)
        query = np.where((query == ABSENT) & is_alone, spans.query[roots[place]], query)
    rows = np.flatnonzero(query != ABSENT)
    parents[rows] = _around(
        spans, (candidates, spans.query[candidates]), (children[rows], query[rows]), tolerance_ns
    )
    return parents


def _around(
    spans: Spans, candidates: tuple[Rows, Ns], children: tuple[Rows, Ns], tolerance_ns: int
) -> Rows:
    """Return the row of the innermost candidate around each child, -1 for none.

    `candidates` and `children` are rows and their keys, which must be equal.
    """
    outer_rows, outer_keys = candidates
    inner_rows, inner_keys = children
    outer = Intervals(outer_keys, spans.start[outer_rows], spans.end[outer_rows])
    inner = Intervals(inner_keys, spans.start[inner_rows], spans.end[inner_rows])
    place = innermost(outer, inner)
    outside = np.flatnonzero(place == ABSENT)
    place[outside] = innermost(outer, shrunk(inner.at(outside), tolerance_ns))
    return np.where(place == ABSENT, ABSENT, outer_rows[place])
