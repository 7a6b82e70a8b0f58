"""Chrome trace events of unknown tools, by how deep they nest; and our own exports, exactly.

The outermost events of a thread are queries, those in them operators, then layers, then library
calls. An export of mlscope says of each event what it was.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.level import Level
from services.agent.foreign.chrome import Events
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.recording import SPAN_SCHEMA, Recording, filled, rooted


def is_ours(events: Events) -> bool:
    """Say whether mlscope exported them."""
    return bool(events.mlscope)


def own_recording_of(path: Path, events: Events) -> Recording:
    """Return an export of mlscope as the run it was. Raises ForeignFileBroken."""
    args = pl.col("args").struct
    fields = {"block": "run_block"}
    told = events.frame.select(
        "name",
        *(args.field(fields.get(each, each)).alias(each) for each in SPAN_SCHEMA if each != "name"),
    ).drop_nulls("span")
    try:
        spans = filled(told.sort("start_ns", "span"))
    except pl.exceptions.PolarsError as error:
        raise ForeignFileBroken(str(path), f"is an altered export: {error}") from error
    if spans.select(pl.exclude("parent", "attributes").has_nulls()).to_numpy().any():
        raise ForeignFileBroken(str(path), "is an altered export: a span lacks a field")
    return Recording(
        tool="mlscope",
        spans=spans,
        framework=events.framework or "imported",
        host=events.host or "imported",
        device=events.device or "cpu",
        accelerator=events.accelerator,
        epoch_ns=events.base_ns,
    )


def recording_of(events: Events) -> Recording:
    """Return any tool's events as a recording."""
    ns = [
        (pl.col(of) * 1000).round().cast(pl.Int64).fill_null(0).alias(name)
        for of, name in (("ts", "start_ns"), ("dur", "duration_ns"))
    ]
    lane = pl.concat_str("pid", "tid", separator="/", ignore_nulls=True)
    told = events.frame.filter(pl.col("ts").is_not_null()).select(
        pl.col("name").fill_null("?"), *ns, (lane.rank("dense") - 1).alias("thread")
    )
    told = told.with_columns(pl.col("start_ns") - pl.col("start_ns").min())
    return Recording(
        tool="chrome",
        spans=by_depth(told),
        framework="imported",
        host=events.host or "imported",
        epoch_ns=events.base_ns,
        notes=("levels were given by how deep events nest: the tool is unknown",),
    )


def by_depth(told: pl.DataFrame) -> pl.DataFrame:
    """Return spans (name, start_ns, duration_ns, thread) with levels by how deep they nest."""
    rising = told.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    depth = _depths(rising)
    levelled = rising.with_columns(pl.Series("depth", depth))
    roots = rooted(levelled.filter(pl.col("depth") == 0).drop("depth", "name"), pl.lit("range"))
    if not levelled.filter(pl.col("depth") > 0).height:
        return filled(roots)
    inner = levelled.filter(pl.col("depth") > 0).with_columns(
        (pl.col("depth") + 1).clip(upper_bound=int(Level.LIBRARY)).alias("level")
    )
    names = levelled.filter(pl.col("depth") == 0).sort("start_ns", maintain_order=True)["name"]
    whole = roots.filter(pl.col("level") == int(Level.APPLICATION)).sort("query")
    named = whole.with_columns(
        pl.struct(names.alias("original")).struct.json_encode().alias("attributes")
    )
    spans = pl.concat([filled(named), filled(inner.drop("depth"))]).drop("span")
    return filled(spans.sort("start_ns", "level", maintain_order=True))


def _depths(rising: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return how many spans of its thread each lies in."""
    start = rising["start_ns"].to_list()
    end = (rising["start_ns"] + rising["duration_ns"]).to_list()
    depths = np.zeros(len(start), np.int64)
    open_ends: list[int] = []
    last = None
    for row, thread in enumerate(rising["thread"].to_list()):
        if thread != last:
            open_ends, last = [], thread
        while open_ends and open_ends[-1] < end[row]:
            open_ends.pop()
        while open_ends and open_ends[-1] <= start[row] and end[row] > start[row]:
            open_ends.pop()
        depths[row] = len(open_ends)
        open_ends.append(end[row])
    return depths
