"""Nsight Compute's CSV as a recording: counters of kernels, whose times are those of a replay.

NVTX ranges, where there are any, are layers: the innermost around a kernel. The kernels are laid
end to end in the order of their launch; the report knows no other times.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mlscope.tracing.texts import json_text
from schemas.level import Level
from services.agent.collectors.errors import ReportUnreadable
from services.agent.collectors.ncu import spans_of
from services.agent.collectors.ncu_report import CountedKernel, kernels_of
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.recording import Recording, filled, rooted

MOST_BYTES = 1 << 30
_MARK = b"\xef\xbb\xbf"
_FIRST = b'"ID",'
_METRIC_MARK = "__"


def is_report(head: bytes) -> bool:
    """Say whether a file that begins like this is Nsight Compute's CSV."""
    lines = head.removeprefix(_MARK).splitlines()
    return any(line.startswith(_FIRST) and b"Kernel Name" in line for line in lines)


def recording_of(path: Path) -> Recording:
    """Return a report as a recording. Raises ForeignFileBroken."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ForeignFileBroken(str(path), f"is larger than {MOST_BYTES} bytes")
        lines = path.read_text("utf-8-sig", "replace").splitlines(keepends=True)
        kernels = kernels_of(lines, _metrics(lines))
    except (OSError, ReportUnreadable, ValueError, csv.Error) as error:
        raise ForeignFileBroken(str(path), f"is no whole report of ncu: {error}") from error
    if not kernels:
        raise ForeignFileBroken(str(path), "holds no kernel")
    counted = pl.DataFrame(
        [
            (
                s.name,
                s.start_ns,
                s.duration_ns,
                s.thread,
                int(s.kind),
                json_text(s.attributes).decode(),
            )
            for s in spans_of(kernels, 0)
        ],
        ["name", "start_ns", "duration_ns", "thread", "kind", "attributes"],
        orient="row",
    ).with_columns(pl.lit(int(Level.HARDWARE)).alias("level"), pl.lit(0).alias("query"))
    end_ns = int((counted["start_ns"] + counted["duration_ns"]).max() or 0)  # type: ignore[arg-type]
    root = pl.DataFrame({"start_ns": [0], "duration_ns": [end_ns], "thread": [0]})
    parts = [rooted(root, pl.lit("replay")), _layers(kernels, counted), counted]
    spans = pl.concat([filled(part) for part in parts]).drop("span")
    return Recording(
        tool="ncu",
        spans=filled(spans.sort("start_ns", "level", maintain_order=True)),
        framework="cuda",
        device="cuda",
        notes=("times are those of a replay for counters, kernel after kernel: no latencies",),
    )


def _metrics(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are metrics."""
    head = next((line for line in lines if line.startswith(_FIRST.decode())), "")
    names = (each.strip().strip('"') for each in head.split('","'))
    return tuple(name for name in names if _METRIC_MARK in name and "attribute" not in name)


def _layers(kernels: Sequence[CountedKernel], counted: pl.DataFrame) -> pl.DataFrame:
    """Return a span for each stretch of kernels in one innermost range."""
    ends = pl.col("start_ns") + pl.col("duration_ns")
    ranged = counted.with_columns(pl.Series("range", [each.layer for each in kernels], pl.String))
    stretch = pl.col("range").rle_id().alias("stretch")
    stretches = (
        ranged.with_columns(stretch)
        .filter(pl.col("range") != "")
        .group_by("stretch", "range", maintain_order=True)
        .agg(pl.col("start_ns").min(), (ends.max() - pl.col("start_ns").min()).alias("duration_ns"))
        .with_row_index("index")
    )
    return stretches.select(
        pl.col("range").alias("name"),
        "start_ns",
        "duration_ns",
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
        pl.lit(0).alias("query"),
        pl.struct("index").struct.json_encode().alias("attributes"),
    )
