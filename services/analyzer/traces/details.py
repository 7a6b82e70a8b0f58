"""One span of a prepared trace: its ancestors, children, device work and namesakes. Pure."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.batch import SpanKind
from schemas.trace import SameName, SpanDetails, TraceLane, TraceSpan
from schemas.values.json_values import json_object_in
from services.analyzer.traces.resolutions import Prepared

_MOST_ANCESTORS = 256
_MOST_CHILDREN = 500
_DEVICE_KINDS = [int(SpanKind.KERNEL), int(SpanKind.COPY), int(SpanKind.SET)]


def row_of(trace: Prepared, span: int) -> int | None:
    """Return the row of a span by its id, None where there is none."""
    rows = np.flatnonzero(trace.frame["id"].to_numpy() == span)
    return int(rows[0]) if len(rows) else None


def details_of(
    evaluation: str,
    run: str,
    trace: Prepared,
    row: int,
    stored: tuple[int, str, int] = (-1, "", -1),
) -> SpanDetails:
    """Return what is known of the span in a `row` of the `trace` of `run`, of `evaluation`.

    `stored` are its block, its attributes as a JSON text, and the number of its layer.
    """
    frame = trace.frame
    values = frame.row(row, named=True)
    lane = trace.lanes[values["lane"]]
    children = frame.filter(pl.col("parent") == values["id"]).sort("start", "id")
    launched, launched_by = _linked(frame, values)
    block, attributes, layer = stored
    return SpanDetails(
        evaluation=evaluation,
        run=run,
        span=_span(values),
        level=lane.level,
        thread=lane.thread,
        block=block,
        layer=layer,
        correlation=values["correlation"],
        attributes=json_object_in(attributes),
        ancestors=_ancestors(trace, values),
        children=tuple(map(_span, children.head(_MOST_CHILDREN).iter_rows(named=True))),
        total_children=children.height,
        launched=launched,
        launched_by=launched_by,
        same_name=_same_name(trace, values, lane),
    )


def _span(values: dict[str, Any]) -> TraceSpan:
    names = ("id", "name", "lane", "depth", "kind", "query")
    times = {"start_ns": int(values["start"]), "duration_ns": int(values["duration"])}
    return TraceSpan(**{name: values[name] for name in names}, **times)


def _ancestors(trace: Prepared, values: dict[str, Any]) -> tuple[TraceSpan, ...]:
    ancestors: list[TraceSpan] = []
    visited = {values["id"]}
    while values["parent"] not in visited and len(ancestors) < _MOST_ANCESTORS:
        row = None if values["parent"] < 0 else row_of(trace, values["parent"])
        if row is None:
            break
        values = trace.frame.row(row, named=True)
        visited.add(values["id"])
        ancestors.append(_span(values))
    return tuple(ancestors)


def _linked(
    frame: pl.DataFrame, values: dict[str, Any]
) -> tuple[tuple[TraceSpan, ...], TraceSpan | None]:
    """Return the device work that a call started, and the call that started device work."""
    if values["correlation"] < 0:
        return (), None
    linked = frame.filter(pl.col("correlation") == values["correlation"]).sort("start", "id")
    if values["kind"] == SpanKind.LAUNCH:
        launched = linked.filter(pl.col("kind").is_in(_DEVICE_KINDS)).head(_MOST_CHILDREN)
        return tuple(map(_span, launched.iter_rows(named=True))), None
    calls = linked.filter(pl.col("kind") == int(SpanKind.LAUNCH))
    return (), _span(calls.row(0, named=True)) if calls.height else None


def _same_name(trace: Prepared, values: dict[str, Any], lane: TraceLane) -> SameName:
    """Return statistics of the spans with this name in lanes of the same group and level."""
    alike = [
        candidate.lane
        for candidate in trace.lanes
        if (candidate.group, candidate.level) == (lane.group, lane.level)
    ]
    spans = trace.frame.lazy().filter(pl.col("name") == values["name"], pl.col("lane").is_in(alike))
    chosen = spans.select("start", "duration", "id").collect()
    start, duration, ids = (chosen[name].to_numpy() for name in ("start", "duration", "id"))
    own = (values["start"], values["id"])
    is_before = (start < own[0]) | ((start == own[0]) & (ids < own[1]))
    is_after = ~is_before & (ids != own[1])
    least, median, p90, p99, longest = np.quantile(duration, [0, 0.5, 0.9, 0.99, 1]).tolist()
    return SameName(
        count=chosen.height,
        least_ns=least,
        median_ns=median,
        p90_ns=p90,
        p99_ns=p99,
        most_ns=longest,
        total_ns=float(duration.sum()),
        rank=float(np.mean(duration <= values["duration"])),
        previous=max(_first_of(ids[is_before], -start[is_before]), default=None),
        next=min(_first_of(ids[is_after], start[is_after]), default=None),
    )


def _first_of(ids: npt.NDArray[np.int64], place: npt.NDArray[np.float64]) -> list[int]:
    """Return the ids with the least place."""
    return ids[place == place.min()].tolist() if len(ids) else []
