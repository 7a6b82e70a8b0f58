"""Tables of Nsight Systems' SQLite export, as they are in any version of it (I/O).

Columns came and went from version to version: what a file lacks is null. Names are in StringIds,
processes in the bits 24 to 47 of global ids, threads below.
https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.recording import EARLIEST_NS, LATEST_NS, LONGEST_NS

MOST_ROWS = 10_000_000

RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
KERNEL, GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY, MEMSET = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
CUDNN, CUBLAS = "CUDNN_EVENTS", "CUBLAS_EVENTS"
THREADS = 1 << 24
"""Of a process's global ids."""
_TEXTS = "StringIds"
_OWN = ("PROFILER_OVERHEAD",)
"""Tables of what nsys itself did."""
_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")

COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        RUNTIME: ("start", "end", "globalTid", "correlationId", "nameId"),
        KERNEL: (
            *(*_DEVICE, "demangledName", "shortName", "mangledName", *_SIZES),
            *("registersPerThread", *_SHARED, "graphNodeId"),
        ),
        MEMCPY: (*_DEVICE, "bytes", "copyKind", "graphNodeId"),
        MEMSET: (*_DEVICE, "bytes", "graphNodeId"),
        GRAPH: (*_DEVICE, "graphId"),
        CUDNN: ("start", "end", "globalTid", "nameId"),
        CUBLAS: ("start", "end", "globalTid", "nameId"),
        NVTX: ("start", "end", "eventType", "globalTid", "domainId", "textId", "text"),
    }
)
"""Whole numbers all, but for the text of NVTX_EVENTS."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report's rows by table, each with its `COLUMNS`, and what it says of the machine."""

    tables: Mapping[str, pl.DataFrame]
    #: texts by their ids
    texts: Mapping[int, str]
    host: str = ""
    accelerator: str = ""
    #: when its clock was 0; 0 where it does not say
    epoch_ns: int = 0
    #: tables of which only the first rows were read
    cut: tuple[str, ...] = ()
    #: what nsys says is the end of that which had none when the trace was over
    open_ends: tuple[int, ...] = ()
    #: rows of tables of events that are not read
    unread: Mapping[str, int] = field(default_factory=dict)


def read_report(path: Path) -> Report:
    """Return what an export holds. Raises ForeignFileBroken, sqlite3.Error."""
    address = path.resolve().as_uri()
    with closing(sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)) as base:
        tabled = "SELECT name FROM sqlite_master WHERE type = 'table'"
        known = {name for (name,) in base.execute(tabled)}
        if not known & {*COLUMNS}:
            raise ForeignFileBroken(str(path), "is a database without tables of nsys")
        tables = {name: _table(base, name, is_there=name in known) for name in COLUMNS}
        return Report(
            tables,
            _texts(base) if _TEXTS in known else {},
            host=_text(_one(base, "TARGET_INFO_SYSTEM_ENV", "value", "name = 'Hostname'")),
            accelerator=_text(_one(base, "TARGET_INFO_GPU", "name")),
            epoch_ns=_stamp(_one(base, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")),
            cut=tuple(name for name, rows in tables.items() if rows.height >= MOST_ROWS),
            open_ends=_open_ends(base),
            unread=_unread(base, known - {*COLUMNS, *_OWN}),
        )


def _open_ends(base: sqlite3.Connection) -> tuple[int, ...]:
    """Return the trace's length, which nsys 2023 writes, and its last moment."""
    told = (_one(base, "ANALYSIS_DETAILS", name) for name in ("duration", "stopTime"))
    return tuple(each for each in map(_stamp, told) if each)


def _texts(base: sqlite3.Connection) -> dict[int, str]:
    typed = "typeof(id) = 'integer' AND typeof(value) = 'text'"
    return dict(base.execute(f"SELECT id, value FROM {_TEXTS} WHERE {typed}"))  # noqa: S608


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _stamp(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= LATEST_NS else 0


def _unread(base: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """Return how many rows tables of timed events have, by name; those without any are left out."""
    timed = sorted(each for each in names if {"start", "globalTid"} <= _columns(base, each))
    quoted = {name: name.replace('"', '""') for name in timed}
    counts = {
        name: int(base.execute(f'SELECT count(*) FROM "{each}"').fetchone()[0])  # noqa: S608
        for name, each in quoted.items()
    }
    return {name: count for name, count in counts.items() if count}


def timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows that have an end, with `start_ns` and `duration_ns`; both are times."""
    times = [pl.col(each).is_between(EARLIEST_NS, LONGEST_NS) for each in ("start", "end")]
    whole = rows.filter(pl.col("end") >= pl.col("start"), *times)
    duration = (pl.col("end") - pl.col("start")).alias("duration_ns")
    return whole.with_columns(pl.col("start").alias("start_ns"), duration)


def named(report: Report, *columns: str) -> pl.Expr:
    """Return the text of the first of some columns of ids that has one."""
    texts = report.texts
    return pl.coalesce(
        pl.col(column).replace_strict(texts, default=None, return_dtype=pl.String)
        for column in columns
    )


def thread() -> pl.Expr:
    """Return the thread's number, as the system has it, of a global id."""
    return (pl.col("globalTid").fill_null(0) % THREADS).alias("thread")


def _table(base: sqlite3.Connection, name: str, *, is_there: bool) -> pl.DataFrame:
    """Return a table's rows by start, none where there is no such table.

    A view of its name is none: what that asks for, and for how long, is up to who wrote the file.
    """
    wanted = COLUMNS[name]
    schema = {each: pl.String if each == "text" else pl.Int64 for each in wanted}
    there = _columns(base, name)
    if not is_there or "start" not in there:
        return pl.DataFrame(schema=schema)
    chosen = ", ".join(_value(each) if each in there else "NULL" for each in wanted)
    query = f'SELECT {chosen} FROM {name} ORDER BY "start" LIMIT ?'  # noqa: S608 - names of ours
    return pl.DataFrame(base.execute(query, (MOST_ROWS,)).fetchall(), schema, orient="row")


def _value(column: str) -> str:
    """Return what is asked for a column: what is of another type than it should be is null."""
    kind = "text" if column == "text" else "integer"
    return f'CASE typeof("{column}") WHEN \'{kind}\' THEN "{column}" END'


def _columns(base: sqlite3.Connection, name: str) -> set[str]:
    return {each for (each,) in base.execute("SELECT name FROM pragma_table_info(?)", (name,))}


def _one(base: sqlite3.Connection, name: str, column: str, where: str = "1") -> Any:
    """Return a value of a table, None where there is none."""
    if column not in _columns(base, name):
        return None
    found = base.execute(f"SELECT {column} FROM {name} WHERE {where} LIMIT 1").fetchone()  # noqa: S608
    return found[0] if found else None
