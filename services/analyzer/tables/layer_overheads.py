"""What looking deeper costs each layer: its time where layers are the deepest, and below that.

Formula: the mean over blocks of median(deeper run) - median(layers' own run), blocks that
interleave paired; its interval is Student's t over blocks. Of a single block it is the difference
of the queries' medians, its interval spans the ends of theirs. Source: XSP III-C, leveled
experimentation, here with statistics and by layer.

A layer's times at both levels disagree, and its row does not hold, where the deeper run was
faster beyond the doubt, or slower beyond the doubt by more than the same run was on the whole of
predict: that is the overhead measured, and a layer is part of it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import LAYER_LEVEL, Frames, Run
from services.analyzer.grouped import CONFIDENCE
from services.analyzer.tables.charts import estimates
from services.analyzer.tables.levels import (
    BEYOND_WHOLE,
    UNTIMED,
    change_of,
    doubt_of,
    is_beyond,
    paired_blocks,
    predict_ns,
)
from services.analyzer.tables.side_by_side import are_side_by_side
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

_Key = tuple[str, str, str, int]
_LAYER = ("layer", "name")


def layer_overheads(frames: Frames) -> Table:
    """Return a row for each layer and each run that looks deeper than its layers'."""
    groups: dict[_Key, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        row = run.row
        if row.variant not in UNTIMED and row.level >= LAYER_LEVEL:
            key = (row.agent, row.session, row.scenario, row.batch_size)
            groups[key].setdefault(row.level, run)
    rows = [row for runs in groups.values() for row in _rows(runs)]
    return made(ANALYSIS, rows, _verdict(rows), trace_doubts(frames))


def _rows(runs: dict[int, Run]) -> Iterator[dict[str, Any]]:
    own = runs.get(LAYER_LEVEL)
    if own is None:
        return
    for level in sorted(runs):
        if level > LAYER_LEVEL:
            yield from _of_pair(own, runs[level])


def _of_pair(own: Run, deeper: Run) -> Iterator[dict[str, Any]]:
    less, more = _layer_ns(own), _layer_ns(deeper)
    blocks = paired_blocks(less, more, *_LAYER)
    of_less, of_more = (each.partition_by(_LAYER, as_dict=True) for each in (less, more))
    most = _overhead_most(own, deeper)
    for key, part in blocks.group_by(_LAYER, maintain_order=True):
        layer, name = key
        change, interval = change_of(part, of_less[key], of_more[key])
        before = float(part["less"].median())  # type: ignore[arg-type]
        doubt = doubt_of((own, deeper), interval)
        if not doubt and is_beyond(interval.low, most):
            doubt = BEYOND_WHOLE
        yield {
            "run": own.row.run,
            "deeper": deeper.row.run,
            "session": own.row.session,
            "batch_size": own.row.batch_size,
            "level": deeper.row.level_name,
            "index": layer,
            "name": name,
            "blocks": part.height,
            "time": before,
            **with_interval("overhead", change, interval),
            "share": share(change, before),
            "valid": not doubt,
            "doubt": doubt,
        }


def _overhead_most(own: Run, deeper: Run) -> float | None:
    """Return the upper end of what looking deeper costs predict, None where nobody knows.

    Of layers side by side one may slow down behind another, with predict as fast as before.
    """
    if are_side_by_side(own) or are_side_by_side(deeper):
        return None
    less, more = predict_ns(own), predict_ns(deeper)
    blocks = paired_blocks(less, more)
    return change_of(blocks, less, more)[1].high if blocks.height else None


def _layer_ns(run: Run) -> pl.DataFrame:
    """Return layer, name, query, block, ns: all calls of a layer in a query together."""
    return (
        run.spans_at(LAYER_LEVEL)
        .filter(pl.col("layer").is_not_null())
        .group_by("layer", "name", "query", "block")
        .agg(pl.col("duration_ns").sum().alias("ns"))
    )


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No run looks deeper than one at level framework beside it."
    wrong = sum(not row["valid"] for row in rows)
    held = f"; {many(wrong, 'row')} {'does' if wrong == 1 else 'do'} not hold" if wrong else ""
    known = [row for row in rows if row["valid"] and (row["overhead_low"] or 0.0) > 0]
    if not known:
        return f"Looking deeper adds time beyond doubt in none of {many(len(rows), 'row')}{held}."
    worst = max(known, key=lambda row: row["overhead"])
    by_chance = round(len(rows) * (1 - CONFIDENCE) / 2)
    chance = f" (about {by_chance} would seem so by chance)" if by_chance else ""
    return (
        f"Looking deeper adds time beyond doubt in {len(known)} of {many(len(rows), 'row')}"
        f"{chance}, most to {worst['name']} at level {worst['level']}: "
        f"{in_time(worst['overhead'])}, {in_percent(worst['share'])} of its time{held}."
    )


ANALYSIS = Analysis(
    name="layer_overheads",
    title="What looking deeper costs each layer",
    source="XSP III-C, by layer: mean difference of block medians, Student's t over blocks.",
    columns=(
        text("run", "The run at level framework: the layer's own time."),
        text("deeper", "The run that looks deeper."),
        text("session", "Their session."),
        whole("batch_size", "Samples in a query."),
        text("level", "The deeper run's level."),
        whole("index", "The layer's place in execution order, from 0."),
        text("name", "The layer's name."),
        whole("blocks", "Blocks that both runs have."),
        real("time", "Median over blocks of its time a query, at level framework."),
        *estimate("overhead", "What the deeper level adds; may be negative."),
        real("share", "The overhead's share of the layer's time.", "1"),
        truth("valid", "Whether it holds."),
        text("doubt", "Why it does not."),
    ),
    compute=layer_overheads,
    chart=estimates(
        ("index", "Layer"),
        ("overhead", "What the deeper level adds (ns)"),
        "deeper",
        *("name", "run", "time", "share", "doubt"),
    ),
)
