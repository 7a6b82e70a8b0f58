"""All spans of an attempt in one tree: sources on one clock, levels, threads and devices."""

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
    columns_of,
    complete_spans,
    rows_of,
)
from services.analyzer.correlation.devices import is_shared, launches_of
from services.analyzer.correlation.hosts import host_parents, user_parents

TOLERANCE_NS = 2_000
"""How far a span may extend beyond its parent: the coarsest clocks (ONNX Runtime's, OpenVINO's)
tick in microseconds and truncate both start and duration."""

NONE, CAPTURED, CONTAINMENT, LAUNCH, GRAPH = "none", "captured", "containment", "launch", "graph"
METHODS = (NONE, CAPTURED, CONTAINMENT, LAUNCH, GRAPH)


_MOST_NESTED = 1000
_NONE, _CAPTURED, _CONTAINMENT, _LAUNCH, _GRAPH = range(len(METHODS))


@dataclass(frozen=True, slots=True)
class Correlated:
    """A tree by rows of `spans`, without the `cut` spans at the edges of the recording.

    `parent`, `layer` and `launch` are rows, -1 for none; `method` is an index into `METHODS`;
    `query` is the span's own or that of the nearest span around it that has one.
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
        # A captured parent stays, even where its span was not read.
        is_captured = pl.Series(self.method == _CAPTURED)
        parent = pl.when(is_captured).then(self.spans["parent"]).otherwise(_ids(ids, self.parent))
        return pl.DataFrame(
            {
                "span": self.spans["span"],
                "parent": pl.select(parent).to_series(),
                "layer": _ids(ids, self.layer),
                "method": names.gather(pl.Series(self.method)),
            }
        )


def _ids(ids: Ns, rows: Rows) -> pl.Series:
    """Return the id at each row, null for -1."""
    if not len(ids):
        return pl.Series([], dtype=pl.Int64)
    values = pl.Series(ids[rows], dtype=pl.Int64)
    return pl.select(pl.when(pl.Series(rows != ABSENT)).then(values)).to_series()


def correlate(spans: pl.DataFrame) -> pl.DataFrame:
    """Return span, parent, layer and method of one attempt's spans (row_schemas.SPAN_SCHEMA).

    `layer` is the span's layer: itself or the layer span around it, null above the layers.
    `method` is the source of the parent: captured, containment (`hosts.host_parents`, for users'
    spans `hosts.user_parents`), launch (device work has the parent of the call that launched it,
    or that call), graph (likewise, but one call launched several), none. Spans cut at an edge of
    the recording are left out.
    """
    return correlated(spans).frame


def correlated(spans: pl.DataFrame, tolerance_ns: int = TOLERANCE_NS) -> Correlated:
    """Return the tree of one attempt's spans by rows; see `correlate` and `hosts.host_parents`."""
    complete = complete_spans(spans)
    columns = columns_of(complete)
    parent = rows_of(columns.span, columns.parent)
    method = np.where(columns.parent == ABSENT, _NONE, _CAPTURED)
    orphans = np.flatnonzero(
        (columns.parent == ABSENT)
        & (columns.level > Level.APPLICATION)
        & columns.is_kind(*HOST_KINDS)
    )
    users = np.flatnonzero(
        (columns.parent == ABSENT)
        & (columns.query == ABSENT)
        & (columns.level == Level.APPLICATION)
        & columns.is_kind(*HOST_KINDS)
    )
    parent[orphans] = host_parents(columns, orphans, tolerance_ns)
    parent[users] = user_parents(columns, users, tolerance_ns)
    for rows in (orphans, users):
        method[rows] = np.where(parent[rows] == ABSENT, _NONE, _CONTAINMENT)
    # Device work has the parent of its launch.
    launch = np.full(len(columns), ABSENT, np.int64)
    devices = np.flatnonzero(columns.is_kind(*DEVICE_KINDS))
    launches = launches_of(columns, devices)
    launch[devices] = launches
    is_orphan = (columns.parent[devices] == ABSENT) & (launches != ABSENT)
    rows, starts = devices[is_orphan], launches[is_orphan]
    parent[rows] = np.where(parent[starts] == ABSENT, starts, parent[starts])
    method[rows] = np.where(is_shared(launches)[is_orphan], _GRAPH, _LAUNCH)
    own_rows = np.arange(len(columns), dtype=np.int64)
    own_layer = np.where(columns.level == Level.FRAMEWORK, own_rows, ABSENT)
    return Correlated(
        spans=complete,
        cut=spans.height - complete.height,
        parent=parent,
        layer=_inherited(own_layer, parent),
        launch=launch,
        method=method,
        query=_inherited(columns.query, parent),
    )


def _inherited(own: Ns, parent: Rows) -> Ns:
    """Return each span's own value, or that of the nearest span around it that has one.

    It takes as many steps as spans are nested; parents in a circle have no value.
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
