"""Time by level: where a query's time goes, and what looking deeper costs.

A level's time comes from runs where that level is the deepest one on. What looking costs is a
difference of two runs, and is called one: it is never taken off a measured number.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from mlscope.statistics import percentile_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Ns, Run
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_ms,
    in_percent,
    made,
    real,
    share,
    text,
    trace_doubts,
    whole,
    with_interval,
)

_Group = tuple[str, str, str, int, str]
"""Agent, session, scenario, batch size and the scenario's parameters as JSON."""
_Cells = dict[str, Any]


def levels(frames: Frames) -> Table:
    """Return, by session and scenario, query > operators > layers > remainder, and overheads."""
    groups: dict[_Group, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        row = run.row
        if run.answered.height:
            parameters = json.dumps(dict(row.parameters), sort_keys=True, default=str)
            group = (row.agent, row.session, row.scenario, row.batch_size, parameters)
            groups[group].setdefault(row.level, run)
    rows = [row for group, runs in groups.items() for row in _rows(group, runs)]
    return made(ANALYSIS, rows, _verdict(rows), [*trace_doubts(frames), *_negative(rows)])


def _negative(rows: list[_Cells]) -> Iterator[str]:
    for row in rows:
        if row["kind"] == "measured" and (row["median"] or 0.0) < 0.0:
            yield f"{row['run']}: time {row['part']} is below 0: the parts overlap; shown as it is"


def _verdict(rows: list[_Cells]) -> str:
    parts = [row for row in rows if row["part"] == PREDICT and row["share"] is not None]
    if not parts:
        return "No run at level model says where the time went."
    first = parts[0]
    return (
        f"Predict takes {in_ms(first['median'])} of a query, {in_percent(first['share'])} of it, "
        f"in {first['run']} ({first['scenario']}, batch {first['batch_size']})."
    )


def _rows(group: _Group, runs: dict[int, Run]) -> Iterator[_Cells]:
    shallowest = runs[min(runs)]
    yield _measured(group, "query", shallowest, _query_ns(shallowest), shallowest)
    model = runs.get(OPERATOR_LEVEL)
    if model is not None:
        yield from _operator_rows(group, model)
    layered = runs.get(LAYER_LEVEL)
    if layered is not None and layered.spans_at(LAYER_LEVEL).height:
        yield from _layer_rows(group, layered)
    depths = sorted(runs)
    for above, below in pairwise(depths):
        yield from _overheads(group, runs[above], runs[below])


def _operator_rows(group: _Group, run: Run) -> Iterator[_Cells]:
    operators = _per_query(run.spans_at(OPERATOR_LEVEL))
    query = run.answered.select("query", pl.Series("ns", _query_ns(run), pl.Int64))
    yield _measured(group, "operators", run, operators["ns"].to_numpy(), run)
    yield _measured(group, PREDICT, run, run.operator_ns(PREDICT), run)
    yield _measured(group, "outside operators", run, _rest(query, operators), run)


def _layer_rows(group: _Group, run: Run) -> Iterator[_Cells]:
    layers = _per_query(run.spans_at(LAYER_LEVEL))
    operators = run.spans_at(OPERATOR_LEVEL)
    predict = _per_query(operators.filter(pl.col("name") == PREDICT))
    yield _measured(group, "predict, layers traced", run, predict["ns"].to_numpy(), run)
    yield _measured(group, "layers", run, layers["ns"].to_numpy(), run)
    yield _measured(group, "outside layers", run, _rest(predict, layers), run)


def _overheads(group: _Group, above: Run, below: Run) -> Iterator[_Cells]:
    """Yield the cost of the deeper level on the query, and on predict where both have it."""
    looking = f"tracing {Level(below.row.level).name.lower()}"
    pairs = [("query", _query_ns(above), _query_ns(below))]
    pairs.append((PREDICT, above.operator_ns(PREDICT), below.operator_ns(PREDICT)))
    for name, less, more in pairs:
        if len(less) and len(more):
            yield _difference(group, f"{looking}, on {name}", (above, less), (below, more))


def _query_ns(run: Run) -> Ns:
    """Return the agent's own time of each query; without it, from start to end."""
    if len(run.service_ns) == run.answered.height:
        return run.service_ns
    return (run.answered["ended_ns"] - run.answered["started_ns"]).to_numpy()


def _per_query(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the time in spans by query: query, ns."""
    return spans.group_by("query").agg(pl.col("duration_ns").sum().alias("ns")).sort("query")


def _rest(whole_: pl.DataFrame, part: pl.DataFrame) -> Ns:
    """Return what is left of the whole, query by query, where a query has both."""
    both = whole_.join(part, on="query", suffix="_part")
    return (both["ns"] - both["ns_part"]).to_numpy()


def _cells(group: _Group, part: str, runs: tuple[Run, ...]) -> _Cells:
    agent, session, scenario, size, _ = group
    return {
        "agent": agent,
        "session": session,
        "scenario": scenario,
        "batch_size": size,
        "part": part,
        "run": " - ".join(run.row.run for run in runs),
        "level": runs[0].row.level_name,
    }


def _measured(group: _Group, part: str, run: Run, values: Ns, whole_: Run) -> _Cells:
    query = _query_ns(whole_)
    median = float(np.median(values)) if len(values) else None
    interval = percentile_interval(values, 0.5) if len(values) else None
    return {
        **_cells(group, part, (run,)),
        "kind": "measured",
        "queries": len(values),
        **with_interval("median", median, interval),
        "share": share(median, float(np.median(query)) if len(query) else None),
    }


def _difference(group: _Group, part: str, above: tuple[Run, Ns], below: tuple[Run, Ns]) -> _Cells:
    """Return median(below) - median(above); its interval spans the ends of theirs."""
    (less_run, less), (more_run, more) = above, below
    low, high = percentile_interval(less, 0.5), percentile_interval(more, 0.5)
    return {
        **_cells(group, part, (more_run, less_run)),
        "kind": "difference",
        "queries": min(len(less), len(more)),
        "median": float(np.median(more) - np.median(less)),
        "median_low": _minus(high.low, low.high),
        "median_high": _minus(high.high, low.low),
        "share": None,
    }


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


ANALYSIS = Analysis(
    name="levels",
    title="Where the time went, by level",
    source=(
        "XSP III-C, leveled experimentation: a level is read where it is the deepest; the overhead "
        "of the next is the difference of medians, shown and not taken off."
    ),
    columns=(
        text("agent", "Where it ran."),
        text("session", "The session: one opened predictor."),
        text("scenario", "How queries arrived."),
        whole("batch_size", "Samples in a query."),
        text("part", "What the time is of."),
        text("run", "The run it is from; of a difference both."),
        text("level", "That run's deepest level."),
        text("kind", "measured, or difference: of the medians of two runs."),
        whole("queries", "Queries it is over."),
        *estimate("median", "Median time a query; a difference may be negative."),
        real("share", "Share of the median query of the same run.", "1"),
    ),
    compute=levels,
)
