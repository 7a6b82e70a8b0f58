"""Chrome trace events of unknown tools, by how deep they nest; and our own exports, exactly.

The outermost events of a thread are queries, those in them operators, then layers, then library
calls. An export of mlscope says of each event what it was.
"""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.counts import verb
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.chrome import Events
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.pairs import INSTANTS
from services.agent.foreign.recording import SPAN_SCHEMA, Recording, filled, rooted
from services.agent.foreign.sound import is_attributes


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
    if not all(map(is_attributes, spans["attributes"].drop_nulls())):
        raise ForeignFileBroken(str(path), "is an altered export: attributes are no JSON object")
    return Recording(
        tool="mlscope",
        spans=spans,
        framework=events.framework or "imported",
        host=events.host or "imported",
        device=events.device or "cpu",
        accelerator=events.accelerator,
        epoch_ns=events.base_ns,
        notes=("the export lacks the last spans of its run",) if events.is_cut else (),
    )


def recording_of(events: Events) -> Recording:
    """Return any tool's events as a recording."""
    ns = [
        (pl.col(of) * 1000).round().cast(pl.Int64).fill_null(0).alias(name)
        for of, name in (("ts", "start_ns"), ("dur", "duration_ns"))
    ]
    lane = pl.concat_str("pid", "tid", separator="/", ignore_nulls=True)
    columns = ("ph", "name", "pid", "tid", "ts", "dur")
    both = pl.concat([each.select(columns) for each in (events.frame, events.instants)])
    told = both.filter(pl.col("ts").is_not_null()).select(
        "ph",
        "pid",
        "tid",
        pl.col("name").fill_null("?"),
        *ns,
        (lane.rank("dense") - 1).alias("thread"),
    )
    told = told.with_columns(pl.col("start_ns") - pl.col("start_ns").min())
    is_instant = pl.col("ph").is_in(INSTANTS)
    spans = by_depth(told.filter(~is_instant).select("name", "start_ns", "duration_ns", "thread"))
    return Recording(
        tool="chrome",
        spans=_with_names(_with_markers(spans, told.filter(is_instant)), told, events.names),
        framework="imported",
        host=events.host or "imported",
        epoch_ns=events.base_ns,
        notes=("levels were given by how deep events nest: the tool is unknown", *doubts(events)),
    )


def doubts(events: Events) -> tuple[str, ...]:
    """Return what a reader must know of a file's events, whatever tool wrote them."""
    halves = verb(
        events.unpaired,
        "begin without end, or end without begin, was",
        "begins without end, and ends without begin, were",
    )
    times = verb(events.untimed, "event whose time is none was", "events whose times are none were")
    unpaired = f"{events.unpaired} {halves} left out"
    untimed = f"{events.untimed} {times} left out"
    told = ((events.unpaired, unpaired), (events.untimed, untimed))
    return tuple(text for count, text in told if count)


def _with_markers(spans: pl.DataFrame, instants: pl.DataFrame) -> pl.DataFrame:
    """Return spans, and points in time as markers that lie wherever their time is."""
    markers = instants.select(
        "name",
        "start_ns",
        "thread",
        pl.lit(0).alias("duration_ns"),
        pl.lit(int(SpanKind.MARKER)).alias("kind"),
        pl.lit(int(Level.APPLICATION)).alias("level"),
    )
    both = pl.concat([spans, filled(markers)]).drop("span")
    return filled(both.sort("start_ns", "level", maintain_order=True))


def _with_names(spans: pl.DataFrame, told: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return spans that say what their process and thread are called, where metadata do."""
    if "args" not in names.columns or not names.height:
        return spans
    called = names.select("name", "pid", "tid", pl.col("args").struct.field("name").alias("called"))
    of_kind = {
        kind: called.filter(pl.col("name") == kind).unique(keys, keep="last")
        for kind, keys in (("process_name", ["pid"]), ("thread_name", ["pid", "tid"]))
    }
    lanes = told.select("thread", "pid", "tid").unique("thread")
    lanes = lanes.join(
        of_kind["process_name"].select("pid", process="called"), on="pid", how="left"
    ).join(
        of_kind["thread_name"].select("pid", "tid", thread_name="called"),
        on=["pid", "tid"],
        how="left",
    )
    return _noted(spans, lanes.select(pl.col("thread").cast(pl.Int32), "process", "thread_name"))


def _noted(spans: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Return spans whose attributes (JSON) hold the names of their lanes, too."""
    named = lanes.filter(pl.any_horizontal(pl.col("process", "thread_name") != ""))
    texts = {
        thread: json.dumps({name: value for name, value in called.items() if value})[1:-1]
        for thread, called in zip(
            named["thread"].to_list(), named.drop("thread").to_dicts(), strict=True
        )
    }
    more = pl.col("thread").replace_strict(texts, default=None, return_dtype=pl.String)
    own = pl.col("attributes").str.strip_prefix("{").str.strip_suffix("}")
    inner = pl.concat_str(own, more, separator=", ", ignore_nulls=True)
    noted = (
        pl.when(more.is_null())
        .then("attributes")
        .otherwise(pl.concat_str(pl.lit("{"), inner, pl.lit("}")))
    )
    return spans.with_columns(noted.alias("attributes"))


def by_depth(told: pl.DataFrame) -> pl.DataFrame:
    """Return spans (name, start_ns, duration_ns, thread) with levels by how deep they nest."""
    rising = told.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    depth = _depths(rising)
    levelled = rising.with_columns(pl.Series("depth", depth))
    outer = levelled.filter(pl.col("depth") == 0).drop("depth")
    roots = rooted(outer, pl.col("name"))
    inner = levelled.filter(pl.col("depth") > 0).with_columns(
        (pl.col("depth") + 1).clip(upper_bound=int(Level.LIBRARY)).alias("level")
    )
    if not inner.height:
        return filled(roots)
    whole = roots.filter(pl.col("level") == int(Level.APPLICATION))
    spans = pl.concat([filled(whole), filled(inner.drop("depth"))]).drop("span")
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
