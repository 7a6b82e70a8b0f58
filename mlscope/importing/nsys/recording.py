"""Nsight Systems' SQLite export as a recording: CUDA and library calls, device work, NVTX ranges.

Correlation ids are unique in a process only. `nsys_ranges` reads the NVTX ranges of Python and C.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.nsys.ranges import ranges_of, with_queries
from mlscope.importing.nsys.tables import (
    CUBLAS,
    CUDNN,
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    RUNTIME,
    THREADS,
    Report,
    named,
    read_report,
    thread,
    timed,
)
from mlscope.importing.recording import Recording, api_calls, with_all_columns
from mlscope.tracing.copy_kinds import COPY_KINDS
from schemas.batch import SpanKind
from schemas.level import Level

_DEVICE_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH)
_PROCESSES, _PROCESS_BITS = 1 << 24, 32


def recording_of(path: Path) -> Recording:
    """Return an export as a recording. Raises ForeignFileBroken, sqlite3.Error."""
    report = read_report(path)
    pids = [
        report.tables[RUNTIME].select(_pid("globalTid")),
        *(report.tables[name].select(_pid("globalPid")) for name in _DEVICE_TABLES),
    ]
    processes = pl.concat(pids).drop_nulls().unique().sort("pid").with_row_index("process")
    device_work = [part for part in _device_work(report, processes) if part.height]
    calls = [part for part in _calls(report, processes, device_work) if part.height]
    parts = [*device_work, *calls]
    ranges, unended = ranges_of(report)
    if not parts and not ranges.height:
        raise ForeignFileBroken(str(path), "holds neither calls nor kernels nor ranges")
    spans, notes = with_queries(parts, ranges)
    origin_ns = int(spans["start_ns"].min() or 0)  # type: ignore[arg-type]
    return Recording(
        tool="nsys",
        spans=with_all_columns(spans.with_columns(pl.col("start_ns") - origin_ns)),
        framework="cuda" if parts else "imported",
        host=report.host or "imported",
        device="cuda" if device_work else "cpu",
        accelerator=report.accelerator,
        epoch_ns=report.epoch_ns + origin_ns if report.epoch_ns else 0,
        notes=(*notes, *report.warnings(unended)),
    )


def _pid(global_id: str) -> pl.Expr:
    return (pl.col(global_id) // THREADS % _PROCESSES).alias("pid")


def _correlated(rows: pl.DataFrame, processes: pl.DataFrame, global_id: str) -> pl.DataFrame:
    """Return rows with `correlation`, unique across `processes` (pid, process); -1 for none.

    `global_id`: the column with the global id of a row's process or thread.
    """
    numbered = rows.with_columns(_pid(global_id)).join(processes, on="pid", how="left")
    high_bits = pl.col("process").fill_null(0).cast(pl.Int64) * (1 << _PROCESS_BITS)
    own_id = pl.col("correlationId")
    correlation = pl.when(own_id.fill_null(0) > 0).then(own_id + high_bits).otherwise(-1)
    return numbered.with_columns(correlation.alias("correlation"))


def _calls(
    report: Report, processes: pl.DataFrame, device_work: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Yield calls of CUDA, without the version in their names, then of cuDNN and of cuBLAS.

    Events of the profiler itself are left out.
    """
    rows = _correlated(timed(report.tables[RUNTIME]), processes, "globalTid")
    name = named(report, "nameId").fill_null("?").str.replace(r"_v\d+$", "")
    none_started = pl.Series("correlation", [], pl.Int64)
    started = pl.concat([none_started, *(part["correlation"] for part in device_work)])
    yield api_calls(rows.with_columns(name.alias("name"), thread()), started)
    is_profilers = pl.col("name").str.contains(r" profiling (started|finished)$")
    for table in (CUDNN, CUBLAS):
        rows = timed(report.tables[table]).with_columns(named(report, "nameId").alias("name"))
        yield rows.filter(~is_profilers).select(
            "name",
            "start_ns",
            "duration_ns",
            thread(),
            pl.lit(int(Level.LIBRARY)).alias("level"),
        )


def _device_work(report: Report, processes: pl.DataFrame) -> list[pl.DataFrame]:
    """Return work on devices by kind; its thread is its stream.

    A CUDA graph that was traced as a whole is one kernel.
    """
    shared = pl.col("staticSharedMemory") + pl.col("dynamicSharedMemory")
    copy = pl.col("copyKind").replace_strict(
        dict(enumerate(COPY_KINDS)), default=None, return_dtype=pl.String
    )
    graph_node = pl.col("graphNodeId").alias("graph_node")
    columns: dict[str, tuple[SpanKind, pl.Expr, list[pl.Expr]]] = {
        KERNEL: (
            SpanKind.KERNEL,
            named(report, "demangledName", "shortName", "mangledName").fill_null("kernel"),
            [
                pl.concat_list("gridX", "gridY", "gridZ").alias("grid"),
                pl.concat_list("blockX", "blockY", "blockZ").alias("block"),
                pl.col("registersPerThread").alias("registers"),
                shared.alias("shared_bytes"),
                graph_node,
            ],
        ),
        MEMCPY: (
            SpanKind.COPY,
            pl.concat_str(pl.lit("Memcpy"), copy, separator=" ", ignore_nulls=True),
            [pl.col("bytes"), copy.alias("copy_kind"), graph_node],
        ),
        MEMSET: (SpanKind.SET, pl.lit("Memset"), [pl.col("bytes"), graph_node]),
        GRAPH: (
            SpanKind.KERNEL,
            pl.format("CUDA graph {}", pl.col("graphId").fill_null(0)),
            [pl.col("graphId")],
        ),
    }
    return [
        _correlated(timed(report.tables[table]), processes, "globalPid").select(
            name.alias("name"),
            "start_ns",
            "duration_ns",
            pl.col("streamId").fill_null(0).alias("thread"),
            "correlation",
            pl.lit(int(kind)).alias("kind"),
            pl.lit(int(Level.SYSTEM)).alias("level"),
            pl.struct(pl.col("deviceId").alias("device"), *attributes)
            .struct.json_encode()
            .alias("attributes"),
        )
        for table, (kind, name, attributes) in columns.items()
    ]
