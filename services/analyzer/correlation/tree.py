"""All spans of an attempt in one tree: sources with one clock, levels, threads and devices."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.level import Level
from services.analyzer.correlation.columns import (
    ABSENT,
    DEVICE_KINDS,
    HOST_KINDS,
    Ns,
    Rows,
    Spans,
    columns_of,
    rows_of,
    whole,
)
from services.analyzer.correlation.devices import is_shared, launches_of
from services.analyzer.correlation.hosts import host_parents, user_parents

TOLERANCE_NS = 2_000
"""How far a span may stick out of its parent: the coarsest clocks (ONNX Runtime's, OpenVINO's) tick
in microseconds and cut off both start and duration."""

NONE, CAPTURED, CONTAINMENT, LAUNCH, GRAPH = "none", "captured", "containment", "launch", "graph"
METHODS = (NONE, CAPTURED, CONTAINMENT, LAUNCH, GRAPH)
_NONE, _CAPTURED, _CONTAINMENT, _LAUNCH, _GRAPH = range(len(METHODS))


@dataclass(frozen=True, slots=True)
class Correlated:
    """A tree by rows of `spans`, which lack what was cut at an edge (`cut` of them).

    `parent`, `layer` and `launch` are rows, -1 for none; `method` counts in `METHODS`; `query`
    is the span's own or that of the nearest span around it that knows.
    """

    spans: pl.DataFrame
    cut: int
    parent: Rows
    layer: Rows
    launch: Rows
    method: Ns
    query: Ns

    @property
    def frame(self) -> pl.DataFrame:
        """The tree as it is stored: span, parent and layer by their ids, method by its name."""
        ids = self.spans["span"].to_numpy()
        names = pl.Series(METHODS, dtype=pl.String)
        return pl.DataFrame(
            {
                "span": self.spans["span"],
                "parent": self._parents(ids),
                "layer": _ids(ids, self.layer),
                "method": names.gather(pl.Series(self.method)),
            }
        )

    def _parents(self, ids: Ns) -> pl.Series:
        """Return parents by id; one that was captured stays, even where its span was not read."""
        captured = pl.Series(self.method == _CAPTURED)
        found = _ids(ids, self.parent)
        return pl.select(pl.when(captured).then(self.spans["parent"]).otherwise(found)).to_series()


def correlate(spans: pl.DataFrame) -> pl.DataFrame:
    """Return span, parent, layer and method of one attempt's spans (row_schemas.SPAN_SCHEMA).

    `layer` is the layer span it is or lies in, null above the layers. `method` says how the
    parent is known: captured, containment (`hosts.host_parents`, of users' spans
    `hosts.user_parents`), launch (a device's span has the parent of the call that started it, or
    that call), graph (likewise, but one call started several), none. Spans cut at an edge are left
    out.
    """
    return correlated(spans).frame


def correlated(spans: pl.DataFrame, tolerance_ns: int = TOLERANCE_NS) -> Correlated:
    """Return the tree of one attempt's spans by rows; see `correlate`."""
    kept = whole(spans)
    columns = columns_of(kept)
    parent = rows_of(columns.span, columns.parent)
    method = np.where(columns.parent == ABSENT, _NONE, _CAPTURED)
    orphans = np.flatnonzero(
        (columns.parent == ABSENT)
        & (columns.level > Level.APPLICATION)
        & columns.is_kind(*HOST_KINDS)
    )
    said = np.flatnonzero(
        (columns.parent == ABSENT)
        & (columns.query == ABSENT)
        & (columns.level == Level.APPLICATION)
        & columns.is_kind(*HOST_KINDS)
    )
    parent[orphans] = host_parents(columns, orphans, tolerance_ns)
    parent[said] = user_parents(columns, said, tolerance_ns)
    for rows in (orphans, said):
        method[rows] = np.where(parent[rows] == ABSENT, _NONE, _CONTAINMENT)
    launch = _charge(columns, parent, method)
    return Correlated(
        spans=kept,
        cut=spans.height - kept.height,
        parent=parent,
        layer=_layers(columns, parent),
        launch=launch,
        method=method,
        query=_inherited(columns.query, parent),
    )


def _charge(spans: Spans, parent: Rows, method: Ns) -> Rows:
    """Give device spans the parents of their launches, in place; return the launch of each span."""
    launch = np.full(len(spans), ABSENT, np.int64)
    devices = np.flatnonzero(spans.is_kind(*DEVICE_KINDS))
    started = launches_of(spans, devices)
    launch[devices] = started
    orphan = (spans.parent[devices] == ABSENT) & (started != ABSENT)
    rows, starts = devices[orphan], started[orphan]
    parent[rows] = np.where(parent[starts] == ABSENT, starts, parent[starts])
    method[rows] = np.where(is_shared(started)[orphan], _GRAPH, _LAUNCH)
    return launch


def _layers(spans: Spans, parent: Rows) -> Rows:
    """Return the layer that each span is or lies in, by row."""
    rows = np.arange(len(spans), dtype=np.int64)
    own = np.where(spans.level == Level.FRAMEWORK, rows, ABSENT)
    return _inherited(own, parent)


def _inherited(own: Ns, parent: Rows) -> Ns:
    """Return each span's own value, or that of the nearest span around it that has one.

    As many steps as spans are nested; parents that go in a circle have none.
    """
    values = own.copy()
    at = parent.copy()
    pending = np.flatnonzero((values == ABSENT) & (at != ABSENT))
    for _ in range(_MOST_NESTED):
        values[pending] = own[at[pending]]
        at[pending] = parent[at[pending]]
        pending = pending[(values[pending] == ABSENT) & (at[pending] != ABSENT)]
        if not pending.size:
            break
    return values


_MOST_NESTED = 1000


def _ids(ids: Ns, rows: Rows) -> pl.Series:
    if not len(ids):
        return pl.Series([], dtype=pl.Int64)
    found = pl.Series(ids[rows], dtype=pl.Int64)
    return pl.select(pl.when(pl.Series(rows != ABSENT)).then(found)).to_series()
