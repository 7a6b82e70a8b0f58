"""What mlscope takes to answer what HolisticTraceAnalysis answers of a Kineto file.

`python -m benchmarks.mlscope_side FILE [operators]` prints JSON as `hta_side` does. Reading and
correlating are the product's own; the answers are as HTA defines them, which the product's tables
are not (theirs have intervals and are by query and layer).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.timing import Timed
from mlscope.importing.chrome import read_events
from mlscope.importing.events import EVENT_SCHEMA
from mlscope.importing.kineto.recording import recording_of
from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.building.busy import busy_ns
from services.analyzer.correlation import correlated
from services.analyzer.frames.devices import device_work_of, launches_of, no_device_attributes
from services.analyzer.frames.row_schemas import SPAN_SCHEMA

_NEEDED = ("correlation", "stream", "device")
_KERNEL_WAIT_NS = 30_000
"""Below this a gap between kernels counts as their own: HTA's default, 30 in its own unit, us."""


def answered(path: Path, *, has_operators: bool) -> dict[str, Any]:
    """Return what each answer took, and figures to compare; times are in ns."""
    timed = Timed()
    schema = {**EVENT_SCHEMA, "args": pl.Struct(dict.fromkeys(_NEEDED, pl.Int64))}
    spans = as_stored(recording_of(read_events(path, schema), attributes=False).spans)
    tree = correlated(spans)
    work, calls = device_work_of(tree, no_device_attributes(), {}), launches_of(tree)
    timed.note("load")
    by_kind = work.group_by("kind").agg(pl.col("duration_ns").sum())
    duration = pl.col("duration_ns")
    by_name = work.group_by("name").agg(
        duration.sum().alias("sum"),
        duration.mean().alias("mean"),
        duration.std().alias("std"),
        duration.min().alias("min"),
        duration.max().alias("max"),
    )
    timed.note("kernels")
    temporal = idle_and_compute(work)
    timed.note("busy")
    gaps = gaps_by_category(work)
    timed.note("idle")
    launched = delays_of_launches(work, calls)
    timed.note("launches")
    annotated = work.select("span", "name", "query").filter(pl.col("query") >= 0)
    timed.note("annotations")
    answers = {
        "device_ns": by_kind["duration_ns"].sum(),
        "slowest_ns": by_name["max"].max(),
        **temporal,
        "host_wait_ns": gaps.filter(pl.col("category") == "host_wait")["gap_ns"].sum(),
        "launches": launched.height,
        "delay_ns": launched["delay_ns"].sum(),
        "annotated": annotated.height,
    }
    if has_operators:
        sequences = operator_sequences(work, spans)
        timed.note("operators")
        answers["sequences"] = sequences.height
        answers["operators"] = sequences["occurrences"].sum()
    return {"seconds": timed.seconds, "found": answers}


def as_stored(spans: pl.DataFrame) -> pl.DataFrame:
    """Return a recording's spans as the analyzer reads them."""
    layer = pl.int_range(pl.len()).over("query", "level").alias("layer")
    links = pl.when(pl.col("correlation") >= 0).then(pl.col("correlation"))
    stored = spans.with_columns(
        pl.lit(1).alias("run_key"),
        links.alias("correlation"),
        pl.when(pl.col("level") == int(Level.FRAMEWORK)).then(layer).alias("layer"),
        pl.lit(0).alias("device"),
        pl.col("thread").alias("stream"),
    )
    return stored.select(pl.col(name).cast(kind) for name, kind in SPAN_SCHEMA.items())


def idle_and_compute(work: pl.DataFrame) -> dict[str, int]:
    """Return idle and compute time from the first start to the last end."""
    begin, end = work["start_ns"].min(), (work["start_ns"] + work["duration_ns"]).max()
    kernels = work.filter(pl.col("kind") == int(SpanKind.KERNEL))
    busy, compute = (int(busy_ns(frame, ())["busy_ns"][0]) for frame in (work, kernels))
    assert isinstance(begin, int)
    assert isinstance(end, int)
    return {"idle_ns": end - begin - busy, "compute_ns": compute}


def gaps_by_category(work: pl.DataFrame) -> pl.DataFrame:
    """Return idle time by stream and category: host_wait, kernel_wait, other."""
    before = (pl.col("start_ns") + pl.col("duration_ns")).shift(1).over("stream")
    gap = pl.col("start_ns") - pl.col("before_ns")
    category = (
        pl.when(pl.col("launch_ns") > pl.col("before_ns"))
        .then(pl.lit("host_wait"))
        .when(gap < _KERNEL_WAIT_NS)
        .then(pl.lit("kernel_wait"))
        .otherwise(pl.lit("other"))
    )
    gaps = work.sort("start_ns").with_columns(before.alias("before_ns")).drop_nulls("before_ns")
    sums = gaps.group_by("stream", category.alias("category")).agg(gap.sum().alias("gap_ns"))
    return sums.with_columns(
        (pl.col("gap_ns") / pl.col("gap_ns").sum().over("stream")).alias("share")
    )


def delays_of_launches(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return of each launch: host_ns, device_ns, and the delay between them, never below 0."""
    hosts = calls.select(pl.col("span").alias("launch"), pl.col("duration_ns").alias("host_ns"))
    both = work.select("correlation", "launch", "start_ns", "launch_ns", "duration_ns").join(
        hosts, on="launch"
    )
    delay = pl.col("start_ns") - pl.col("launch_ns") - pl.col("host_ns")
    return both.select(
        "correlation",
        "host_ns",
        pl.col("duration_ns").alias("device_ns"),
        delay.clip(lower_bound=0).alias("delay_ns"),
    )


def operator_sequences(work: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return by operator and sequence of its kernels: how often, and the mean first delays."""
    calls = spans.filter(pl.col("level") == int(Level.FRAMEWORK)).select(
        "query", "layer", pl.col("name").alias("operator"), pl.col("start_ns").alias("began_ns")
    )
    operators = (
        work.drop_nulls("launch_ns")
        .sort("launch_ns")
        .group_by("query", "layer", maintain_order=True)
        .agg(
            pl.col("name").str.join(" -> ").alias("sequence"),
            pl.col("launch_ns").first(),
            (pl.col("start_ns") - pl.col("launch_ns")).first().alias("delay_ns"),
        )
        .join(calls, on=["query", "layer"])
    )
    return operators.group_by("operator", "sequence").agg(
        pl.len().alias("occurrences"),
        (pl.col("launch_ns") - pl.col("began_ns")).mean().alias("launch_delay_ns"),
        pl.col("delay_ns").mean(),
    )


def main() -> None:
    """Answer and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("more", nargs="*", choices=["operators", []])
    options = parser.parse_args()
    print(json.dumps(answered(options.file, has_operators=bool(options.more))))


if __name__ == "__main__":
    main()
