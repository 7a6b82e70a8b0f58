"""Nsight Systems' SQLite export as a recording: CUDA calls, device work, NVTX ranges and marks.

Outermost NVTX ranges of a thread are queries, those in them operators, deeper ones layers; without
any the whole trace is one query. Ranges that were started and ended, maybe by two threads, overlap
as they like: beside others they are users' own spans, as marks are. Correlation ids are a process's
own.
"""

from pathlib import Path

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.nested import by_depth
from services.agent.foreign.nsys_tables import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    MOST_ROWS,
    NVTX,
    RUNTIME,
    Report,
    read_report,
)
from services.agent.foreign.recording import Recording, filled, rooted

_MARK, _PUSHED, _STARTED, _DOMAIN = 34, 59, 60, 75
"""Of NVTX_EVENTS.eventType; versions that lack it have ranges alone."""

_COPY_KINDS = (
    *("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH"),
    "PtoP",
)
"""CUpti_ActivityMemcpyKind."""

_THREADS, _PROCESSES, _PROCESS_BITS = 1 << 24, 1 << 24, 32


def recording_of(path: Path) -> Recording:
    """Return an export as a recording. Raises ForeignFileBroken, sqlite3.Error."""
    report = read_report(path)
    ranks = _ranks(report)
    works = [part for part in _works(report, ranks) if part.height]
    started = {each for part in works for each in part["correlation"].to_list()}
    calls = _calls(report, ranks, started)
    parts = [*works, *([calls] if calls.height else [])]
    ranges = _ranges(report)
    if not parts and not ranges.height:
        raise ForeignFileBroken(str(path), "holds neither calls nor kernels nor ranges")
    spans, notes = _with_queries(parts, ranges)
    origin = int(spans["start_ns"].min() or 0)  # type: ignore[arg-type]
    return Recording(
        tool="nsys",
        spans=filled(spans.with_columns(pl.col("start_ns") - origin)),
        framework="cuda",
        host=report.host or "imported",
        device="cuda" if works else "cpu",
        accelerator=report.accelerator,
        epoch_ns=report.epoch_ns + origin if report.epoch_ns else 0,
        notes=(*notes, *_doubts(report)),
    )


def _doubts(report: Report) -> list[str]:
    told = [f"of {name} only the first {MOST_ROWS} rows were read" for name in report.cut]
    if report.tables[GRAPH].height:
        told.append("CUDA graphs were traced whole (nsys --cuda-graph-trace=node shows kernels)")
    return told


def _ranks(report: Report) -> pl.DataFrame:
    """Return the report's processes, numbered from 0: `pid`, `rank`."""
    calls = report.tables[RUNTIME].select(_process("globalTid"))
    devices = [report.tables[name].select(_process("globalPid")) for name in _DEVICES]
    return pl.concat([calls, *devices]).drop_nulls().unique().sort("pid").with_row_index("rank")


def _process(column: str) -> pl.Expr:
    return (pl.col(column) // _THREADS % _PROCESSES).alias("pid")


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows that have an end, with `start_ns` and `duration_ns`."""
    whole = rows.filter(pl.col("end") >= pl.col("start"))
    duration = (pl.col("end") - pl.col("start")).alias("duration_ns")
    return whole.with_columns(pl.col("start").alias("start_ns"), duration)


def _correlated(rows: pl.DataFrame, ranks: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return rows with ids of their processes as `correlation`; -1 for none."""
    ranked = rows.with_columns(_process(column)).join(ranks, on="pid", how="left")
    above = pl.col("rank").fill_null(0).cast(pl.Int64) * (1 << _PROCESS_BITS)
    own = pl.col("correlationId")
    found = pl.when(own.fill_null(0) > 0).then(own + above).otherwise(-1)
    return ranked.with_columns(found.alias("correlation"))


def _named(report: Report, *columns: str) -> pl.Expr:
    """Return the text of the first of some columns of ids that has one."""
    texts = report.texts
    return pl.coalesce(
        pl.col(column).replace_strict(texts, default=None, return_dtype=pl.String)
        for column in columns
    )


def _calls(report: Report, ranks: pl.DataFrame, started: set[int]) -> pl.DataFrame:
    rows = _correlated(_timed(report.tables[RUNTIME]), ranks, "globalTid")
    known = pl.Series(sorted(started - {-1}), dtype=pl.Int64).implode()
    launches = pl.col("name").str.contains("Launch") | pl.col("correlation").is_in(known)
    kind = pl.when(launches).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    name = _named(report, "nameId").fill_null("?").str.replace(r"_v\d+$", "")
    return rows.with_columns(name.alias("name")).select(
        "name",
        "start_ns",
        "duration_ns",
        (pl.col("globalTid").fill_null(0) % _THREADS).alias("thread"),
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
    )


_DEVICES = (KERNEL, MEMCPY, MEMSET, GRAPH)


def _works(report: Report, ranks: pl.DataFrame) -> list[pl.DataFrame]:
    """Return what devices did; their thread is their stream. A graph traced whole is one kernel."""
    shared = pl.col("staticSharedMemory") + pl.col("dynamicSharedMemory")
    kernels = (
        _named(report, "demangledName", "shortName", "mangledName").fill_null("kernel"),
        pl.concat_list("gridX", "gridY", "gridZ").alias("grid"),
        pl.concat_list("blockX", "blockY", "blockZ").alias("block"),
        pl.col("registersPerThread").alias("registers"),
        shared.alias("shared_bytes"),
        pl.col("graphNodeId").alias("graph_node"),
    )
    copy = pl.col("copyKind").replace_strict(
        dict(enumerate(_COPY_KINDS)), default=None, return_dtype=pl.String
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
        _work(_correlated(_timed(report.tables[table]), ranks, "globalPid"), kind, *nature)
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


def _ranges(report: Report) -> pl.DataFrame:
    """Return NVTX's ranges and marks: name, times, thread, `type`, and their domain in attributes.

    Marks have no end, nor have ranges that were open when the trace was over: those are left out.
    """
    rows = report.tables[NVTX].with_columns(pl.col("eventType").fill_null(_PUSHED).alias("type"))
    name = pl.coalesce("text", _named(report, "textId"), pl.lit("range"))
    rows = rows.with_columns(name.alias("name"))
    domains = rows.filter(pl.col("type") == _DOMAIN).select("domainId", domain="name")
    marks = rows.filter(pl.col("type") == _MARK).with_columns(pl.col("start").alias("end"))
    ranges = rows.filter(pl.col("type").is_in([_PUSHED, _STARTED]))
    told = _timed(pl.concat([ranges, marks])).join(
        domains.unique("domainId"), on="domainId", how="left"
    )
    said = pl.struct("domain").struct.json_encode()
    return told.select(
        "name",
        "start_ns",
        "duration_ns",
        (pl.col("globalTid").fill_null(0) % _THREADS).alias("thread"),
        "type",
        pl.when(pl.col("domain").is_not_null()).then(said).alias("attributes"),
    )


def _with_queries(
    parts: list[pl.DataFrame], ranges: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return all spans with their queries, by start."""
    notes: tuple[str, ...] = ()
    nesting = ranges.filter(pl.col("type") == _PUSHED)
    if not nesting.height:
        nesting = ranges.filter(pl.col("type") == _STARTED)
    others = ranges.join(nesting.select("type").unique(), on="type", how="anti")
    if nesting.height:
        hosts = by_depth(nesting.drop("type"))
    else:
        both = pl.concat(part.select("start_ns", "duration_ns") for part in [*parts, others])
        begin = both["start_ns"].min()
        end = (both["start_ns"] + both["duration_ns"]).max()
        whole = pl.DataFrame({"start_ns": [begin], "duration_ns": [end - begin], "thread": [0]})  # type: ignore[operator]
        hosts = filled(rooted(whole, pl.lit("trace")))
        notes = ("the trace has no NVTX range: all of it is one query",)
    is_mark = pl.col("type") == _MARK
    users = others.with_columns(
        pl.when(is_mark).then(int(SpanKind.MARKER)).otherwise(int(SpanKind.HOST)).alias("kind"),
        pl.lit(int(Level.APPLICATION)).alias("level"),
    )
    spans = pl.concat([hosts, filled(users), *(filled(part) for part in parts)]).drop("span")
    return filled(spans.sort("start_ns", "level", maintain_order=True)), notes
