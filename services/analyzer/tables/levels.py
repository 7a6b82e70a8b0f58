"""Time by level: where a query's time goes, and the overhead of deeper tracing.

A level's time comes from runs in which that level is the deepest. The overhead is a difference of
two runs and is shown as such: it is never subtracted from a measured number.

These figures do not hold and are marked ("certainly" is by intervals at 95%):

- figures of layers, and differences, where records were dropped;
- a difference whose deeper run was certainly faster: tracing does not speed up a run;
- a difference on a part that is certainly more than that on its whole (layers in predict, predict
  in the query): a part can't cost more than its whole;
- layers that certainly take more than their predict, both of the same queries.

Layers that run side by side on several threads may sum up to more than predict. Their spans'
parents are then ambiguous, as a caveat says: serialised runs show them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mlscope.statistics import percentile_interval
from schemas.analysis import Table
from schemas.level import Level
from services.analyzer.building.best import estimate_text, may_be_none, overhead_text
from services.analyzer.building.charts import Axis, bars, with_transforms
from services.analyzer.building.level_differences import (
    BEYOND_WHOLE,
    UNTIMED,
    invalid_reason,
    is_beyond,
    layers_invalid_reason,
    level_difference,
    paired_blocks,
    predict_times,
    query_times,
)
from services.analyzer.building.pipelines.stages import has_overlapping_stages
from services.analyzer.building.side_by_side import ambiguous_parents, are_side_by_side
from services.analyzer.building.table import (
    Analysis,
    behind_others,
    bool_column,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    overlap_warnings,
    share,
    text_column,
    trace_warnings,
    with_interval,
)
from services.analyzer.frames.evaluation import (
    LAYER_LEVEL,
    OPERATOR_LEVEL,
    PREDICT,
    Frames,
    Ns,
    Run,
)
from services.analyzer.tables.copies import undivided_notes

_Group = tuple[str, str, str, int, str]
"""Agent, session, scenario, batch size and the scenario's parameters as JSON."""
_Cells = dict[str, Any]
_LOST = "batches were lost"


def levels(frames: Frames) -> Table:
    """Return query > operators > layers > remainder by session and scenario, and overheads."""
    groups: dict[_Group, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        row = run.row
        if run.answered.height and row.variant not in UNTIMED:
            group = (row.agent, row.session, row.scenario, row.batch_size, row.parameters_text)
            groups[group].setdefault(row.level, run)
    rows = [row for group, runs in groups.items() for row in _level_rows(group, runs)]
    runs = [run for by_level in groups.values() for run in by_level.values()]
    notes = [*trace_warnings(frames), *overlap_warnings(frames), *undivided_notes(frames)]
    notes += negative_notes(rows)
    notes += [
        f"{run.row.run}: its operators ran side by side, so that they don't add up to a query: "
        "see pipeline_stages"
        for run in runs
        if run.row.level == OPERATOR_LEVEL and has_overlapping_stages(run)
    ]
    notes += [*invalid_notes(rows), *ambiguous_parents(runs)]
    behind = {run.row.run: behind_others(run.row) for run in runs}
    return make_table(ANALYSIS, rows, _verdict(rows, behind), notes)


def negative_notes(rows: Sequence[_Cells]) -> list[str]:
    """Return a sentence for each part that takes less than no time."""
    return [
        f"{row['run']}: time {row['part']} is below 0, because the parts overlap: it is shown as "
        "measured, and has no share"
        for row in rows
        if row["kind"] == "measured" and (row["median"] or 0.0) < 0.0
    ]


def invalid_notes(rows: Sequence[_Cells]) -> Iterator[str]:
    """Yield why a figure does not hold, unless it is for lost batches, which other notes tell."""
    for row in rows:
        if not row["valid"] and row["doubt"] != _LOST:
            subject = row["session"] if row["kind"] == "difference" else row["run"]
            yield f"{subject}, {row['part']}: does not hold: {row['doubt']}"


def _verdict(rows: list[_Cells], behind: dict[str, str]) -> str:
    """Return what predict takes; `behind` says of a run by its name what its calls waited for."""
    parts = [row for row in rows if row["part"] == PREDICT and row["share"] is not None]
    if not parts:
        return "No run at level model has the time of operators."
    first = min(parts, key=lambda row: bool(row["variant"]))
    special = "".join(f", {text}" for text in (first["variant"], behind[first["run"]]) if text)
    return (
        f"Predict takes {format_time(first['median'])} of a query, {format_share(first['share'])} "
        f"of it, in {first['run']} ({first['scenario']}, batch {first['batch_size']}{special})."
        f"{_overhead_sentence(rows, first)}"
    )


def _overhead_sentence(rows: list[_Cells], first: _Cells) -> str:
    """Return what the next deeper level adds to predict, in the group of the `first` row."""
    group = ("agent", "session", "scenario", "batch_size")
    differences = (
        row
        for row in rows
        if row["kind"] == "difference"
        and row["valid"]
        and row["part"].endswith(f" over model, on {PREDICT}")
        and all(row[name] == first[name] for name in group)
    )
    row = next(differences, None)
    if row is None:
        return ""
    return f" Overhead of {row['part'].partition(' over ')[0]} on {PREDICT}: {row['result']}."


def _level_rows(group: _Group, runs: dict[int, Run]) -> Iterator[_Cells]:
    """Yield the parts of a query, each from the run at its own level, and the levels' overheads.

    `runs` are those of a `group` by level.
    """
    shallowest = runs[min(runs)]
    yield _measured(group, "query", shallowest, _query_ns(shallowest))
    model = runs.get(OPERATOR_LEVEL)
    if model is not None:
        operators = query_times(model.spans_at(OPERATOR_LEVEL)).sort("query")
        both = _queries(model).join(operators, on="query", suffix="_part")
        # Operators of one query that run side by side add up to more than the query.
        is_sequential = not has_overlapping_stages(model)
        if is_sequential:
            yield _measured(group, "operators", model, operators["ns"].to_numpy())
        yield _measured(group, PREDICT, model, model.operator_ns(PREDICT))
        if is_sequential:
            outside = (both["ns"] - both["ns_part"]).to_numpy()
            yield _measured(group, "outside operators", model, outside)
    layered = runs.get(LAYER_LEVEL)
    if layered is not None and layered.spans_at(LAYER_LEVEL).height:
        layers, predict = _layers(layered), predict_times(layered)
        outside_layers = predict.join(layers, on=["query", "block"], suffix="_part").with_columns(
            (pl.col("ns") - pl.col("ns_part")).alias("ns")
        )
        reason = layers_invalid_reason(layered, outside_layers)
        yield _measured(group, "predict, layers traced", layered, predict["ns"].to_numpy())
        yield _measured(group, "layers", layered, layers["ns"].to_numpy(), reason)
        yield _measured(group, "outside layers", layered, outside_layers["ns"].to_numpy(), reason)
    for above, below in combinations(sorted(runs), 2):
        yield from _level_overhead_rows(group, runs[above], runs[below])


def _queries(run: Run) -> pl.DataFrame:
    """Return query, block and ns of each answered query."""
    return run.answered.select("query", "block", pl.Series("ns", _query_ns(run), pl.Int64))


def _layers(run: Run) -> pl.DataFrame:
    return query_times(run.spans_at(LAYER_LEVEL))


def _level_overhead_rows(group: _Group, above: Run, below: Run) -> Iterator[_Cells]:
    """Yield the overhead of a deeper level on each part of a query that both runs have.

    `above` and `below` are runs of a `group`, of which `below` is traced deeper.
    """
    upper, deeper = (Level(run.row.level).name.lower() for run in (above, below))
    most_overhead: float | None = None
    overlaps = any(map(are_side_by_side, (above, below)))
    for name, times_of in (("query", _queries), (PREDICT, predict_times), ("layers", _layers)):
        upper_times, deeper_times = times_of(above), times_of(below)
        if not upper_times.height or not deeper_times.height:
            continue
        blocks = paired_blocks(upper_times, deeper_times)
        value, interval = level_difference(blocks, upper_times, deeper_times)
        reason = invalid_reason((above, below), interval)
        is_part = not (overlaps and times_of is _layers)
        if not reason and is_part and is_beyond(interval.low, most_overhead):
            reason = BEYOND_WHOLE
        most_overhead = interval.high
        part = f"tracing {deeper} over {upper}, on {name}"
        is_unseen = may_be_none(interval.low, interval.high)
        median = float(np.median(upper_times["ns"].to_numpy()))
        yield {
            **_cells(group, part, (below, above)),
            "kind": "difference",
            "queries": min(upper_times.height, deeper_times.height),
            "blocks": blocks.height,
            **with_interval("median", value, interval),
            "share": None if is_unseen else share(value, median),
            "result": overhead_text(value, interval.low, interval.high),
            "valid": not reason,
            "doubt": reason,
        }


def _query_ns(run: Run) -> Ns:
    """Return the agent's own time of each query; without it, the time from start to end."""
    if len(run.service_ns) == run.answered.height:
        return run.service_ns
    return (run.answered["ended_ns"] - run.answered["started_ns"]).to_numpy()


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


def _measured(group: _Group, part: str, run: Run, values: Ns, reason: str = "") -> _Cells:
    query = _query_ns(run)
    reason = _LOST if run.row.dropped_batches else reason
    median = float(np.median(values)) if len(values) else None
    interval = percentile_interval(values, 0.5) if len(values) else None
    cells = with_interval("median", median, interval)
    return {
        **_cells(group, part, (run,)),
        "kind": "measured",
        "queries": len(values),
        **cells,
        # Parts that overlap do not add up, so that what is left has no meaning as a share.
        "share": share(median, float(np.median(query)) if len(query) else None)
        if (median or 0.0) >= 0.0
        else None,
        "result": estimate_text(cells, "median") if len(values) else "",
        "blocks": run.answered["block"].n_unique(),
        "valid": not reason,
        "doubt": reason,
    }


_CHART = with_transforms(
    bars(
        ("part", "Part"),
        Axis("median", "Time per query", "ns"),
        "run",
        "share",
        "doubt",
        "variant",
        color="level",
        beside="run",
        facet="session",
    ),
    {"filter": "datum.kind == 'measured'"},
)

ANALYSIS = Analysis(
    name="levels",
    title="Where the time went, by level",
    source=(
        "XSP III-C, leveled experimentation: a level is read where it is the deepest; the overhead "
        "of a deeper one is the mean difference of block medians, shown and not subtracted."
    ),
    columns=(
        text_column("agent", "The agent that ran it."),
        text_column("session", "The session, in which one predictor was opened."),
        text_column("scenario", "The scenario: how queries arrived."),
        int_column("batch_size", "Samples per query."),
        text_column("part", "The part of the query."),
        text_column("run", "The run that the time is from; for a difference, both runs."),
        text_column("level", "The deepest trace level of the run."),
        text_column("kind", "measured, or difference: of two runs, block by block."),
        int_column("queries", "Queries measured."),
        *estimate_columns("median", "Median time per query; a difference may be negative."),
        float_column(
            "share",
            "Share of the query in the same run, null below 0; for a difference, of the part, null "
            "where it may be 0.",
            "1",
        ),
        text_column(
            "result",
            "The time with its interval for people; for a difference that may be 0, none seen.",
        ),
        int_column("blocks", "Blocks measured; for a difference, those that both runs have."),
        bool_column("valid", "Whether the figure holds."),
        text_column("doubt", "Why the row is invalid; '' if it is valid."),
        text_column("variant", "Variant of the process: serialised, cold; empty for a plain one."),
    ),
    compute=levels,
    chart=_CHART,
)
