"""Nsight Systems' SQLite export as a recording: calls of CUDA and its libraries, device work, NVTX.

Correlation ids are a process's own. What Python's `nvtx` and C's NVTX said is `nsys_ranges`'.
"""

from pathlib import Path

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.nsys_ranges import ranges_of, with_queries
from services.agent.foreign.nsys_tables import (
    CUBLAS,
    CUDNN,
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    MOST_ROWS,
    RUNTIME,
    THREADS,
    Report,
    named,
    read_report,
    thread,
    timed,
)
from services.agent.foreign.recording import Recording, filled

COPY_KINDS = (
    *("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH"),
    *("PtoP", "UVM HtoD", "UVM DtoH", "UVM DtoD"),
)
"""CUpti_ActivityMemcpyKind."""

_PROCESSES, _PROCESS_BITS = 1 << 24, 32


def recording_of(path: Path) -> Recording:
    """Return an export as a recording. Raises ForeignFileBroken, sqlite3.Error."""
    report = read_report(path)
    ranks = _ranks(report)
    works = [part for part in _works(report, ranks) if part.height]
    started = {each for part in works for each in part["correlation"].to_list()}
    calls = _calls(report, ranks, started)
    hosts = [calls, *(_library_calls(report, table) for table in (CUDNN, CUBLAS))]
    parts = [*works, *(part for part in hosts if part.height)]
    ranges, left_open = ranges_of(report)
    if not parts and not ranges.height:
        raise ForeignFileBroken(str(path), "holds neither calls nor kernels nor ranges")
    spans, notes = with_queries(parts, ranges)
    origin = int(spans["start_ns"].min() or 0)  # type: ignore[arg-type]
    return Recording(
        tool="nsys",
        spans=filled(spans.with_columns(pl.col("start_ns") - origin)),
        framework="cuda" if parts else "imported",
        host=report.host or "imported",
        device="cuda" if works else "cpu",
        accelerator=report.accelerator,
        epoch_ns=report.epoch_ns + origin if report.epoch_ns else 0,
        notes=(*notes, *_doubts(report, left_open)),
    )


def _doubts(report: Report, left_open: int) -> list[str]:
    told = [f"of {name} only the first {MOST_ROWS} rows were read" for name in report.cut]
    if report.tables[GRAPH].height:
        told.append("CUDA graphs were traced whole (nsys --cuda-graph-trace=node shows kernels)")
    if left_open:
        ranges = "range that was" if left_open == 1 else "ranges that were"
        told.append(f"left out: {left_open} {ranges} open when the trace ended")
    if report.unread:
        unread = ", ".join(f"{name} ({rows} rows)" for name, rows in report.unread.items())
        told.append(f"not read: {unread}")
    return told


def _ranks(report: Report) -> pl.DataFrame:
    """Return the report's processes, numbered from 0: `pid`, `rank`."""
    calls = report.tables[RUNTIME].select(_process("globalTid"))
    devices = [report.tables[name].select(_process("globalPid")) for name in _DEVICES]
    return pl.concat([calls, *devices]).drop_nulls().unique().sort("pid").with_row_index("rank")


def _process(column: str) -> pl.Expr:
    return (pl.col(column) // THREADS % _PROCESSES).alias("pid")


def _correlated(rows: pl.DataFrame, ranks: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return rows with ids of their processes as `correlation`; -1 for none."""
    ranked = rows.with_columns(_process(column)).join(ranks, on="pid", how="left")
    above = pl.col("rank").fill_null(0).cast(pl.Int64) * (1 << _PROCESS_BITS)
    own = pl.col("correlationId")
    found = pl.when(own.fill_null(0) > 0).then(own + above).otherwise(-1)
    return ranked.with_columns(found.alias("correlation"))


def _calls(report: Report, ranks: pl.DataFrame, started: set[int]) -> pl.DataFrame:
    rows = _correlated(timed(report.tables[RUNTIME]), ranks, "globalTid")
    known = pl.Series(sorted(started - {-1}), dtype=pl.Int64).implode()
    launches = pl.col("name").str.contains("Launch") | pl.col("correlation").is_in(known)
    kind = pl.when(launches).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    name = named(report, "nameId").fill_null("?").str.replace(r"_v\d+$", "")
    return rows.with_columns(name.alias("name")).select(
        "name",
        "start_ns",
        "duration_ns",
        thread(),
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
    )


def _library_calls(report: Report, table: str) -> pl.DataFrame:
    """Return calls of cuDNN or cuBLAS; the profiler's own beginning and end are none."""
    rows = timed(report.tables[table]).with_columns(named(report, "nameId").alias("name"))
    told = ~pl.col("name").str.contains(r" profiling (started|finished)$")
    return rows.filter(told).select(
        "name",
        "start_ns",
        "duration_ns",
        thread(),
        pl.lit(int(Level.LIBRARY)).alias("level"),
    )


_DEVICES = (KERNEL, MEMCPY, MEMSET, GRAPH)


def _works(report: Report, ranks: pl.DataFrame) -> list[pl.DataFrame]:
    """Return what devices did; their thread is their stream. A graph traced whole is one kernel."""
    shared = pl.col("staticSharedMemory") + pl.col("dynamicSharedMemory")
    kernels = (
        named(report, "demangledName", "shortName", "mangledName").fill_null("kernel"),
        pl.concat_list("gridX", "gridY", "gridZ").alias("grid"),
        pl.concat_list("blockX", "blockY", "blockZ").alias("block"),
        pl.col("registersPerThread").alias("registers"),
        shared.alias("shared_bytes"),
        pl.col("graphNodeId").alias("graph_node"),
    )
    copy = pl.col("copyKind").replace_strict(
        dict(enumerate(COPY_KINDS)), default=None, return_dtype=pl.String
    )
    copies = (
        pl.concat_str(pl.lit("Memcpy"), copy, separator=" ", ignore_nulls=True),
        pl.col("bytes"),
        copy.alias("copy_kind"),
        pl.col("graphNodeId").alias("graph_node"),
    )
    sets = (pl.lit("Memset"), pl.col("bytes"), pl.col("graphNodeId").alias("graph_node"))
    graphs = (pl.format("CUDA graph {}", pl.col("graphId").fill_null(0)), pl.col("graphId"))
    natures = (kernels, copies, sets, graphs)
    kinds = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET, SpanKind.KERNEL)
    return [
        _work(_correlated(timed(report.tables[table]), ranks, "globalPid"), kind, *nature)
        for table, kind, nature in zip(_DEVICES, kinds, natures, strict=True)
    ]


def _work(rows: pl.DataFrame, kind: SpanKind, name: pl.Expr, *nature: pl.Expr) -> pl.DataFrame:
    device = pl.col("deviceId").alias("device")
    return rows.select(
        name.alias("name"),
        "start_ns",
        "duration_ns",
        pl.col("streamId").fill_null(0).alias("thread"),
        "correlation",
        pl.lit(int(kind)).alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
        pl.struct(device, *nature).struct.json_encode().alias("attributes"),
    )
