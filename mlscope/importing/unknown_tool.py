"""Chrome trace events of an unknown tool as a recording: levels by how deep the events nest. Pure.

Points in time become markers; names of processes and threads become attributes of their spans.
"""

import json

import polars as pl

from mlscope.importing.event_pairs import INSTANTS
from mlscope.importing.events import Events
from mlscope.importing.nesting import leveled_by_depth
from mlscope.importing.recording import Recording, merged, time_columns
from schemas.batch import SpanKind
from schemas.level import Level


def recording_of(events: Events) -> Recording:
    """Return any tool's events as a recording."""
    columns = ("ph", "name", "pid", "tid", "ts", "dur")
    lane = pl.concat_str("pid", "tid", separator="/", ignore_nulls=True)
    rows = pl.concat([frame.select(columns) for frame in (events.frame, events.instants)])
    rows = rows.filter(pl.col("ts").is_not_null()).select(
        "ph",
        "pid",
        "tid",
        pl.col("name").fill_null("?"),
        *time_columns(("ts", "start_ns"), ("dur", "duration_ns")),
        (lane.rank("dense") - 1).alias("thread"),
    )
    rows = rows.with_columns(pl.col("start_ns") - pl.col("start_ns").min())
    is_instant = pl.col("ph").is_in(INSTANTS)
    spans = leveled_by_depth(
        rows.filter(~is_instant).select("name", "start_ns", "duration_ns", "thread")
    )
    markers = rows.filter(is_instant).select(
        "name",
        "start_ns",
        "thread",
        pl.lit(0).alias("duration_ns"),
        pl.lit(int(SpanKind.MARKER)).alias("kind"),
        pl.lit(int(Level.APPLICATION)).alias("level"),
    )
    lanes = rows.select("thread", "pid", "tid").unique("thread")
    return Recording(
        tool="chrome",
        spans=_with_lane_names(merged([spans, markers]), lanes, events.names),
        framework="imported",
        host=events.host or "imported",
        epoch_ns=events.base_ns,
        notes=(
            "levels were assigned by how deep events nest: the tool is unknown",
            *events.warnings,
        ),
    )


def _with_lane_names(spans: pl.DataFrame, lanes: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return spans whose attributes name their process and thread, where the metadata do.

    `lanes`: the process and thread (pid, tid) of each of the spans' threads.
    """
    if "args" not in names.columns or not names.height:
        return spans
    labels = names.select("name", "pid", "tid", pl.col("args").struct.field("name").alias("label"))
    processes = labels.filter(pl.col("name") == "process_name").unique(["pid"], keep="last")
    threads = labels.filter(pl.col("name") == "thread_name").unique(["pid", "tid"], keep="last")
    labeled = (
        lanes.join(processes.select("pid", process="label"), on="pid", how="left")
        .join(threads.select("pid", "tid", thread_name="label"), on=["pid", "tid"], how="left")
        .filter(pl.any_horizontal(pl.col("process", "thread_name") != ""))
        .select(pl.col("thread").cast(pl.Int32), "process", "thread_name")
    )
    texts = {
        thread: json.dumps({name: label for name, label in names.items() if label})[1:-1]
        for thread, names in zip(
            labeled["thread"].to_list(), labeled.drop("thread").to_dicts(), strict=True
        )
    }
    added = pl.col("thread").replace_strict(texts, default=None, return_dtype=pl.String)
    existing = pl.col("attributes").str.strip_prefix("{").str.strip_suffix("}")
    inner = pl.concat_str(existing, added, separator=", ", ignore_nulls=True)
    attributes = (
        pl.when(added.is_null())
        .then("attributes")
        .otherwise(pl.concat_str(pl.lit("{"), inner, pl.lit("}")))
    )
    return spans.with_columns(attributes.alias("attributes"))
