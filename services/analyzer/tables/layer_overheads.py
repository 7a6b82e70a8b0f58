"""Overhead of deeper tracing on each layer: its time in deeper runs, minus that at its own level.

Formula: the mean over paired, interleaved blocks of median(deeper run) - median(run at level
framework), with Student's t over blocks. For a single block it is the difference of the queries'
medians, and its interval spans the ends of both. Source: XSP III-C, leveled experimentation, here
with statistics and by layer.

A row does not hold where the deeper run was certainly faster, or where a layer certainly costs
more than the whole predict that it is part of (`building.level_differences`).
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import polars as pl

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.building.best import Leader, leader
from services.analyzer.building.charts import Axis, estimates
from services.analyzer.building.grouped import CONFIDENCE
from services.analyzer.building.level_differences import (
    BEYOND_WHOLE,
    UNTIMED,
    invalid_reason,
    is_beyond,
    level_difference,
    most_predict_overhead,
    paired_blocks,
)
from services.analyzer.building.side_by_side import are_side_by_side
from services.analyzer.building.table import (
    Analysis,
    bool_column,
    distinct_name,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    share,
    text_column,
    trace_warnings,
    with_interval,
)
from services.analyzer.frames.evaluation import LAYER_LEVEL, Frames, Run

_SEEN = "Deeper tracing is seen to add time (whole interval above 0) in"
_Key = tuple[str, str, str, int]
_LAYER = ("layer", "name")


def layer_overheads(frames: Frames) -> Table:
    """Return a row for each layer and each run that traces deeper than level framework."""
    groups: dict[_Key, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        row = run.row
        if row.variant not in UNTIMED and row.level >= LAYER_LEVEL:
            key = (row.agent, row.session, row.scenario, row.batch_size)
            groups[key].setdefault(row.level, run)
    rows: list[dict[str, Any]] = []
    for runs in groups.values():
        own = runs.pop(LAYER_LEVEL, None)
        if own is None:
            continue
        for level in sorted(runs):
            rows += _layer_overhead_rows(own, runs[level])
    return make_table(ANALYSIS, rows, _verdict(rows), trace_warnings(frames))


def _layer_overhead_rows(own: Run, deeper: Run) -> Iterator[dict[str, Any]]:
    """Yield the overhead of each layer in the `deeper` run over `own`, at level framework."""
    # All calls of a layer in a query together.
    own_times, deeper_times = (
        run.spans_at(LAYER_LEVEL)
        .filter(pl.col("layer").is_not_null())
        .group_by("layer", "name", "query", "block", maintain_order=True)
        .agg(pl.col("duration_ns").sum().alias("ns"))
        for run in (own, deeper)
    )
    own_by_layer, deeper_by_layer = (
        times.partition_by(_LAYER, as_dict=True) for times in (own_times, deeper_times)
    )
    # With layers side by side, one may slow down behind another while predict is as fast as before.
    overlaps = any(map(are_side_by_side, (own, deeper)))
    most_overhead = None if overlaps else most_predict_overhead(own, deeper)
    blocks = paired_blocks(own_times, deeper_times, *_LAYER)
    for key, part in blocks.group_by(_LAYER, maintain_order=True):
        layer, name = key
        overhead, interval = level_difference(part, own_by_layer[key], deeper_by_layer[key])
        own_time = float(part["less"].median())  # type: ignore[arg-type]
        reason = invalid_reason((own, deeper), interval)
        if not reason and is_beyond(interval.low, most_overhead):
            reason = BEYOND_WHOLE
        yield {
            "run": own.row.run,
            "deeper": deeper.row.run,
            "session": own.row.session,
            "batch_size": own.row.batch_size,
            "level": deeper.row.level_name,
            "index": layer,
            "node": layer,
            "name": name,
            "blocks": part.height,
            "time": own_time,
            **with_interval("overhead", overhead, interval),
            "share": share(overhead, own_time),
            "valid": not reason,
            "doubt": reason,
        }


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No session has both a run at level framework and a deeper one."
    invalid = sum(not row["valid"] for row in rows)
    do = verb(invalid, "does", "do")
    invalid_note = f"; {many(invalid, 'row')} {do} not hold" if invalid else ""
    of_rows = many(len(rows), "row")
    certain = [row for row in rows if row["valid"] and (row["overhead_low"] or 0.0) > 0]
    if not certain:
        return f"{_SEEN} none of {of_rows}{invalid_note}."
    by_chance = round(len(rows) * (1 - CONFIDENCE) / 2)
    chance = f" (about {by_chance} expected by chance)" if by_chance else ""
    return (
        f"{_SEEN} {len(certain)} of {of_rows}{chance}"
        f"{_most_text(leader(certain, 'overhead'), rows)}{invalid_note}."
    )


def _most_text(slowed: Leader, rows: list[dict[str, Any]]) -> str:
    """Return to which of the table's `rows` deeper tracing adds most, where that is certain."""
    row = slowed.row
    question = "to which layer it adds most"
    if doubt := slowed.doubt(
        question, lambda row: distinct_name(row, rows, "index"), ("level", "deeper")
    ):
        return f"; {doubt}"
    return (
        f", most to {distinct_name(row, rows, 'index')} at level {row['level']}: "
        f"{format_time(row['overhead'])}, {format_share(row['share'])} of its time"
    )


ANALYSIS = Analysis(
    name="layer_overheads",
    title="Overhead of deeper tracing by layer",
    source="XSP III-C, by layer: mean difference of block medians, Student's t over blocks.",
    columns=(
        text_column("run", "The run at level framework, for the layer's own time."),
        text_column("deeper", "The run that traces deeper."),
        text_column("session", "The session of both runs."),
        int_column("batch_size", "Samples per query."),
        text_column("level", "Trace level of the deeper run."),
        int_column("index", "The framework's number of the layer, as in node."),
        text_column("name", "The layer's name."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        int_column("blocks", "Blocks that both runs have."),
        float_column("time", "Median over blocks of its time per query, at level framework."),
        *estimate_columns("overhead", "Overhead of the deeper level; may be negative."),
        float_column("share", "Overhead divided by the layer's time.", "1"),
        bool_column("valid", "Whether the overhead holds."),
        text_column("doubt", "Why the row is invalid; '' if it is valid."),
    ),
    compute=layer_overheads,
    chart=estimates(
        ("index", "Layer"),
        Axis("overhead", "Overhead of the deeper level", "ns"),
        "deeper",
        "name",
        "run",
        "time",
        "share",
        "doubt",
    ),
)
