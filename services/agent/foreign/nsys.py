"""Nsight Systems' SQLite export as a recording: CUDA calls, device work, NVTX ranges.

Outermost NVTX ranges of a thread are queries, those in them operators, deeper ones layers; without
any the whole trace is one query. Tables that the tool did not write are left out.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.nested import by_depth
from services.agent.foreign.recording import Recording, filled, rooted

MOST_ROWS = 10_000_000
_RUNTIME = """
    SELECT StringIds.value, start, end, globalTid, correlationId
    FROM CUPTI_ACTIVITY_KIND_RUNTIME LEFT JOIN StringIds ON StringIds.id = nameId
    ORDER BY start LIMIT ?
"""
_KERNELS = """
    SELECT coalesce(StringIds.value, 'kernel'), start, end, streamId, correlationId, deviceId,
        gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread
    FROM CUPTI_ACTIVITY_KIND_KERNEL LEFT JOIN StringIds ON StringIds.id = demangledName
    ORDER BY start LIMIT ?
"""
_COPIES = """
    SELECT 'copy', start, end, streamId, correlationId, deviceId, bytes
    FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start LIMIT ?
"""
_SETS = """
    SELECT 'set', start, end, streamId, correlationId, deviceId, bytes
    FROM CUPTI_ACTIVITY_KIND_MEMSET ORDER BY start LIMIT ?
"""
_RANGES = """
    SELECT coalesce(text, StringIds.value, 'range'), start, end, globalTid, -1
    FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId
    WHERE end IS NOT NULL ORDER BY start LIMIT ?
"""
_SHARED = ("name", "start_ns", "end_ns", "thread", "correlation")


def recording_of(path: Path) -> Recording:
    """Return an export as a recording. Raises ForeignFileBroken, sqlite3.Error."""
    address = path.resolve().as_uri()
    with closing(sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)) as base:
        known = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
        if not known & {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"}:
            raise ForeignFileBroken(str(path), "is a database without tables of nsys")
        calls = _read(base, known, "CUPTI_ACTIVITY_KIND_RUNTIME", _RUNTIME)
        devices = [
            (SpanKind.KERNEL, _read(base, known, "CUPTI_ACTIVITY_KIND_KERNEL", _KERNELS)),
            (SpanKind.COPY, _read(base, known, "CUPTI_ACTIVITY_KIND_MEMCPY", _COPIES)),
            (SpanKind.SET, _read(base, known, "CUPTI_ACTIVITY_KIND_MEMSET", _SETS)),
        ]
        ranges = _read(base, known, "NVTX_EVENTS", _RANGES)
    works = [_works(kind, rows) for kind, rows in devices if rows]
    started = {row[4] for _, rows in devices for row in rows}
    parts = [*works, *([_calls(calls, started)] if calls else [])]
    if not parts and not ranges:
        raise ForeignFileBroken(str(path), "holds neither calls nor kernels nor ranges")
    spans, notes = _with_queries(parts, ranges)
    return Recording(
        tool="nsys", spans=spans, framework="cuda", device="cuda" if works else "cpu", notes=notes
    )


def _read(base: sqlite3.Connection, known: set[str], table: str, query: str) -> list[Any]:
    if table not in known:
        return []
    if "StringIds" in query and "StringIds" not in known:
        query = query.replace("StringIds.value", "NULL").split("LEFT JOIN")[0] + " LIMIT ?"
    return base.execute(query, (MOST_ROWS,)).fetchall()


def _frame(rows: list[Any]) -> pl.DataFrame:
    told = pl.DataFrame([row[:5] for row in rows], list(_SHARED), orient="row")
    return told.with_columns(
        pl.col("name").cast(pl.String).fill_null("?"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        (pl.col("thread") % (1 << 24)).alias("thread"),
    ).drop("end_ns")


def _calls(rows: list[Any], started: set[int]) -> pl.DataFrame:
    known = pl.Series(sorted(started), dtype=pl.Int64).implode()
    launches = pl.col("name").str.contains("Launch") | pl.col("correlation").is_in(known)
    kind = pl.when(launches).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    versioned = pl.col("name").str.replace(r"_v\d+$", "")
    return _frame(rows).with_columns(
        kind.alias("kind"), versioned.alias("name"), pl.lit(int(Level.SYSTEM)).alias("level")
    )


def _works(kind: SpanKind, rows: list[Any]) -> pl.DataFrame:
    texts = [json.dumps(_nature(row)) for row in rows]
    return _frame(rows).with_columns(
        pl.lit(int(kind)).alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
        pl.Series("attributes", texts, pl.String),
    )


def _nature(row: tuple[Any, ...]) -> dict[str, Any]:
    if len(row) == 7:
        return {"device": row[5], "bytes": row[6]}
    return {
        "device": row[5],
        "grid": list(row[6:9]),
        "block": list(row[9:12]),
        "registers": row[12],
    }


def _with_queries(
    parts: list[pl.DataFrame], ranges: list[Any]
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return all spans with their queries, from the first stamp on."""
    notes: tuple[str, ...] = ()
    if ranges:
        hosts = by_depth(_frame(ranges).drop("correlation"))
    else:
        both = pl.concat(part.select("start_ns", "duration_ns", "thread") for part in parts)
        end = (both["start_ns"] + both["duration_ns"]).max()
        begin = both["start_ns"].min()
        whole = pl.DataFrame({"start_ns": [begin], "duration_ns": [end - begin], "thread": [0]})  # type: ignore[operator]
        hosts = filled(rooted(whole, pl.lit("trace")))
        notes = ("the trace has no NVTX range: all of it is one query",)
    spans = pl.concat([hosts, *(filled(part) for part in parts)]).drop("span")
    spans = spans.sort("start_ns", "level", maintain_order=True)
    return filled(spans.with_columns(pl.col("start_ns") - pl.col("start_ns").min())), notes
