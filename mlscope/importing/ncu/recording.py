"""Nsight Compute's CSV as a recording: counters of kernels, with the times of a replay.

Layers are NVTX ranges, where there are any: the innermost around a kernel. The kernels are laid end
to end in the order of their launch, because the report has no start times.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mlscope.importing.errors import ForeignFileBroken, ReportUnreadable
from mlscope.importing.ncu.kernels import spans_of
from mlscope.importing.ncu.report import FIRST_COLUMN, CountedKernel, is_metric, kernels_of
from mlscope.importing.recording import Recording, merged, query_spans
from mlscope.tracing.texts import json_text
from schemas.level import Level

MAX_BYTES = 1 << 30
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_report(head: bytes) -> bool:
    """Say whether a file that begins like this is Nsight Compute's CSV."""
    lines = head.removeprefix(_BYTE_ORDER_MARK).splitlines()
    return any(line.startswith(FIRST_COLUMN.encode()) and b"Kernel Name" in line for line in lines)


def recording_of(path: Path) -> Recording:
    """Return a report as a recording. Raises ForeignFileBroken."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ForeignFileBroken(str(path), f"is larger than {MAX_BYTES} bytes")
        lines = path.read_text("utf-8-sig", "replace").splitlines(keepends=True)
        header = next((line for line in lines if line.startswith(FIRST_COLUMN)), "")
        columns = (column.strip().strip('"') for column in header.split('","'))
        kernels = kernels_of(lines, [column for column in columns if is_metric(column)])
    except (OSError, ReportUnreadable, ValueError, csv.Error) as error:
        raise ForeignFileBroken(str(path), f"is not a complete report of ncu: {error}") from error
    if not kernels:
        raise ForeignFileBroken(str(path), "holds no kernel")
    counted = pl.DataFrame(
        [
            (
                span.name,
                span.start_ns,
                span.duration_ns,
                span.thread,
                int(span.kind),
                json_text(span.attributes).decode(),
            )
            for span in spans_of(kernels, 0)
        ],
        ["name", "start_ns", "duration_ns", "thread", "kind", "attributes"],
        orient="row",
    ).with_columns(pl.lit(int(Level.HARDWARE)).alias("level"), pl.lit(0).alias("query"))
    end_ns = int((counted["start_ns"] + counted["duration_ns"]).max() or 0)  # type: ignore[arg-type]
    replay = pl.DataFrame({"start_ns": [0], "duration_ns": [end_ns], "thread": [0]})
    return Recording(
        tool="ncu",
        spans=merged(
            [query_spans(replay, pl.lit("replay")), layer_spans(kernels, counted), counted]
        ),
        framework="cuda",
        device="cuda",
        notes=("times are those of a replay for counters, one kernel after another: no latencies",),
    )


def layer_spans(kernels: Sequence[CountedKernel], counted: pl.DataFrame) -> pl.DataFrame:
    """Return a span for each series of kernels in the same innermost range.

    `counted` has the spans of `kernels` (start_ns, duration_ns), in the same order.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    layers = pl.Series("range", [kernel.layer for kernel in kernels], pl.String)
    series = (
        counted.with_columns(layers)
        .with_columns(pl.col("range").rle_id().alias("series"))
        .filter(pl.col("range") != "")
        .group_by("series", "range", maintain_order=True)
        .agg(pl.col("start_ns").min(), (end.max() - pl.col("start_ns").min()).alias("duration_ns"))
        .with_row_index("index")
    )
    return series.select(
        pl.col("range").alias("name"),
        "start_ns",
        "duration_ns",
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
        pl.lit(0).alias("query"),
        pl.struct("index").struct.json_encode().alias("attributes"),
    )
