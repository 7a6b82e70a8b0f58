"""Time by level: where a query's time goes, and what looking deeper costs.

A level's time comes from runs where that level is the deepest one on. What looking costs is a
difference of two runs, and is called one: it is never taken off a measured number. Blocks of the
runs interleave, so the difference is taken block by block.

What does not hold, and is marked so (all "beyond the doubt" is by intervals at 95 %):

- any figure of layers or of a difference where records were dropped;
- a difference whose deeper run was faster beyond the doubt: looking does not speed things up;
- a difference on a part that is beyond the doubt more than that on the whole it lies in (layers in
  predict, predict in the query): a part can't cost more than its whole;
- layers that take beyond the doubt more than the predict they lie in, both of the same queries.

Layers that run side by side on several threads may well sum up to more than predict. What was
started from which of them is then ambiguous, which a caveat says: serialised runs tell it.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mlscope.statistics import Interval, blocks_interval, percentile_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Ns, Run
from services.analyzer.tables.charts import estimates
from services.analyzer.tables.side_by_side import ambiguous_parents, are_side_by_side
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    in_time,
    made,
    real,
    share,
    text,
    trace_doubts,
    truth,
    whole,
    with_interval,
)

_Group = tuple[str, str, str, int, str]
"""Agent, session, scenario, batch size and the scenario's parameters as JSON."""
_Cells = dict[str, Any]
UNTIMED = ("counters", "cold")
"""Variants of runs whose times are of no level: profilers replay in them, or models open."""
_LOST = "batches were lost"
BEYOND_WHOLE = "it costs more in the part than in the whole it lies in: the levels disagree"


def levels(frames: Frames) -> Table:
    """Return, by session and scenario, query > operators > layers > remainder, and overheads."""
    groups: dict[_Group, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        row = run.row
        if run.answered.height and row.variant not in UNTIMED:
            parameters = json.dumps(dict(row.parameters), sort_keys=True, default=str)
            group = (row.agent, row.session, row.scenario, row.batch_size, parameters)
            groups[group].setdefault(row.level, run)
    rows = [row for group, runs in groups.items() for row in _rows(group, runs)]
    told = [run for runs in groups.values() for run in runs.values()]
    doubted = [*_negative(rows), *_invalid(rows), *ambiguous_parents(told)]
    notes = [*trace_doubts(frames), *doubted]
    return made(ANALYSIS, rows, _verdict(rows), notes)


def _negative(rows: list[_Cells]) -> Iterator[str]:
    for row in rows:
        if row["kind"] == "measured" and (row["median"] or 0.0) < 0.0:
            yield f"{row['run']}: time {row['part']} is below 0: the parts overlap; shown as it is"


def _invalid(rows: list[_Cells]) -> Iterator[str]:
    for row in rows:
        if not row["valid"] and row["doubt"] != _LOST:
            where = row["session"] if row["kind"] == "difference" else row["run"]
            yield f"{where}, {row['part']}: does not hold: {row['doubt']}"


def _verdict(rows: list[_Cells]) -> str:
    parts = [row for row in rows if row["part"] == PREDICT and row["share"] is not None]
    if not parts:
        return "No run at level model says where the time went."
    first = min(parts, key=lambda row: bool(row["variant"]))
    special = f", {first['variant']}" if first["variant"] else ""
    return (
        f"Predict takes {in_time(first['median'])} of a query, {in_percent(first['share'])} of it, "
        f"in {first['run']} ({first['scenario']}, batch {first['batch_size']}{special})."
    )


def _rows(group: _Group, runs: dict[int, Run]) -> Iterator[_Cells]:
    shallowest = runs[min(runs)]
    yield _measured(group, "query", shallowest, _query_ns(shallowest))
    model = runs.get(OPERATOR_LEVEL)
    if model is not None:
        yield from _operator_rows(group, model)
    layered = runs.get(LAYER_LEVEL)
    if layered is not None and layered.spans_at(LAYER_LEVEL).height:
        yield from _layer_rows(group, layered)
    for above, below in combinations(sorted(runs), 2):
        yield from _overheads(group, runs[above], runs[below])


def _operator_rows(group: _Group, run: Run) -> Iterator[_Cells]:
    operators = _per_query(run.spans_at(OPERATOR_LEVEL))
    query = run.answered.select("query", pl.Series("ns", _query_ns(run), pl.Int64))
    yield _measured(group, "operators", run, operators["ns"].to_numpy())
    yield _measured(group, PREDICT, run, run.operator_ns(PREDICT))
    yield _measured(group, "outside operators", run, _rest(query, operators))


def _layer_rows(group: _Group, run: Run) -> Iterator[_Cells]:
    layers, predict = _layers(run), predict_ns(run)
    rest = predict.join(layers, on=["query", "block"], suffix="_part").with_columns(
        (pl.col("ns") - pl.col("ns_part")).alias("ns")
    )
    doubt = _doubt_of_layers(run, rest)
    yield _measured(group, "predict, layers traced", run, predict["ns"].to_numpy())
    yield _measured(group, "layers", run, layers["ns"].to_numpy(), doubt)
    yield _measured(group, "outside layers", run, rest["ns"].to_numpy(), doubt)


def _doubt_of_layers(run: Run, rest: pl.DataFrame) -> str:
    """Return why the layers of a run do not hold; `rest` is what predict took beside them."""
    if run.row.dropped_records:
        return "records were dropped"
    if are_side_by_side(run):
        return ""
    medians = rest.group_by("block").agg(pl.col("ns").median())["ns"].to_numpy()
    is_several = len(medians) > 1
    interval = blocks_interval(medians) if is_several else _of_one(rest["ns"].to_numpy())
    if interval.high is None or interval.high >= 0:
        return ""
    return "layers sum up to more than the predict they lie in: the levels disagree"


def _overheads(group: _Group, above: Run, below: Run) -> Iterator[_Cells]:
    """Yield the cost of the deeper level on each part that both runs have."""
    upper, deeper = (Level(run.row.level).name.lower() for run in (above, below))
    most: float | None = None
    side_by_side = are_side_by_side(above) or are_side_by_side(below)
    for name, part in (("query", _queries), (PREDICT, predict_ns), ("layers", _layers)):
        less, more = part(above), part(below)
        if less.height and more.height:
            what = f"tracing {deeper} over {upper}, on {name}"
            row = _difference(group, what, (above, less), (below, more))
            yield row if side_by_side and part is _layers else _within(row, most)
            most = row["median_high"]


def _within(row: _Cells, most: float | None) -> _Cells:
    """Return a difference, doubted where it is beyond the doubt above `most`, that of its whole."""
    if row["doubt"] or not is_beyond(row["median_low"], most):
        return row
    return {**row, "valid": False, "doubt": BEYOND_WHOLE}


def is_beyond(low: float | None, most: float | None) -> bool:
    """Say whether a part's cost, from `low` on, is above the `most` that its whole may cost."""
    return low is not None and most is not None and low > max(most, 0.0)


def _queries(run: Run) -> pl.DataFrame:
    """Return query, block and ns of each answered query."""
    return run.answered.select("query", "block", pl.Series("ns", _query_ns(run), pl.Int64))


def predict_ns(run: Run) -> pl.DataFrame:
    """Return query, block and ns of each predict of an answered query."""
    return _by_block(run.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == PREDICT))


def _layers(run: Run) -> pl.DataFrame:
    return _by_block(run.spans_at(LAYER_LEVEL))


def _by_block(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.group_by("query", "block").agg(pl.col("duration_ns").sum().alias("ns"))


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
        "variant": runs[0].row.variant,
    }


def _measured(group: _Group, part: str, run: Run, values: Ns, doubt: str = "") -> _Cells:
    query = _query_ns(run)
    doubt = _LOST if run.row.dropped_batches else doubt
    median = float(np.median(values)) if len(values) else None
    interval = percentile_interval(values, 0.5) if len(values) else None
    return {
        **_cells(group, part, (run,)),
        "kind": "measured",
        "queries": len(values),
        **with_interval("median", median, interval),
        "share": share(median, float(np.median(query)) if len(query) else None),
        "blocks": run.answered["block"].n_unique(),
        "valid": not doubt,
        "doubt": doubt,
    }


def _difference(
    group: _Group, part: str, above: tuple[Run, pl.DataFrame], below: tuple[Run, pl.DataFrame]
) -> _Cells:
    """Return what the deeper run's part takes more."""
    (less_run, less), (more_run, more) = above, below
    blocks = paired_blocks(less, more)
    value, interval = change_of(blocks, less, more)
    doubt = doubt_of((less_run, more_run), interval)
    return {
        **_cells(group, part, (more_run, less_run)),
        "kind": "difference",
        "queries": min(less.height, more.height),
        "blocks": blocks.height,
        **with_interval("median", value, interval),
        "share": share(value, float(np.median(less["ns"].to_numpy()))),
        "valid": not doubt,
        "doubt": doubt,
    }


def paired_blocks(less: pl.DataFrame, more: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return block (and `by`), less, more, change: medians of ns in blocks that both have."""
    medians = [
        each.group_by(*by, "block").agg(pl.col("ns").median().alias(name))
        for each, name in ((less, "less"), (more, "more"))
    ]
    both = medians[0].join(medians[1], on=[*by, "block"]).sort(*by, "block")
    return both.with_columns((pl.col("more") - pl.col("less")).alias("change"))


def doubt_of(runs: tuple[Run, ...], interval: Interval) -> str:
    """Return why a difference of runs does not hold, '' where it does."""
    lost = [run.row.run for run in runs if run.row.dropped_records or run.row.dropped_batches]
    if lost:
        return f"records were dropped in {', '.join(lost)}"
    if interval.high is not None and interval.high < 0:
        return "the deeper run was faster beyond the doubt: the levels disagree"
    return ""


def _of_one(values: Ns) -> Interval:
    """Return the interval of one block's median; nobody knows that of none."""
    return percentile_interval(values, 0.5) if len(values) else Interval(None, None, 0.95, "none")


def change_of(
    blocks: pl.DataFrame, less: pl.DataFrame, more: pl.DataFrame
) -> tuple[float, Interval]:
    """Return how much more `ns` is in the deeper run: the mean over the blocks that both have.

    With one block it is the difference of medians, its interval spans the ends of theirs.
    """
    if blocks.height > 1:
        changes = blocks["change"].to_numpy()
        return float(np.mean(changes)), blocks_interval(changes)
    return _of_medians(less["ns"].to_numpy(), more["ns"].to_numpy())


def _of_medians(less: Ns, more: Ns) -> tuple[float, Interval]:
    low, high = percentile_interval(less, 0.5), percentile_interval(more, 0.5)
    ends = (_minus(high.low, low.high), _minus(high.high, low.low))
    value = float(np.median(more) - np.median(less))
    return value, Interval(*ends, 0.95, "ends of both medians' intervals")


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


ANALYSIS = Analysis(
    name="levels",
    title="Where the time went, by level",
    source=(
        "XSP III-C, leveled experimentation: a level is read where it is the deepest; the overhead "
        "of a deeper one is the mean difference of block medians, shown and not taken off."
    ),
    columns=(
        text("agent", "Where it ran."),
        text("session", "The session: one opened predictor."),
        text("scenario", "How queries arrived."),
        whole("batch_size", "Samples in a query."),
        text("part", "What the time is of."),
        text("run", "The run it is from; of a difference both."),
        text("level", "That run's deepest level."),
        text("kind", "measured, or difference: of two runs, block by block."),
        whole("queries", "Queries it is over."),
        *estimate("median", "Median time a query; a difference may be negative."),
        real("share", "Of a query of the same run; of a difference, of the shallower part.", "1"),
        whole("blocks", "Blocks it is over; of a difference those that both runs have."),
        truth("valid", "Whether it holds."),
        text("doubt", "Why it does not."),
        text("variant", "What was special about the process: serialised, cold, or nothing."),
    ),
    compute=levels,
    chart=estimates(
        ("part", "Part"),
        ("median", "Time a query (ns)"),
        "session",
        *("run", "level", "share", "doubt", "variant"),
        keep="datum.kind == 'measured'",
        is_in_order=True,
    ),
)
