"""Tables of Nsight Systems' SQLite export, in any of its versions (I/O).

Versions differ in their columns: one that a file lacks is null. Names are in StringIds; global ids
have the process in bits 24 to 47 and the thread in those below.
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

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.recording import MAX_DURATION_NS, MAX_START_NS, MIN_START_NS

MAX_ROWS = 10_000_000

RUNTIME, NVTX = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
KERNEL, GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY, MEMSET = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
CUDNN, CUBLAS = "CUDNN_EVENTS", "CUBLAS_EVENTS"
THREADS = 1 << 24
"""Global ids of threads that a process has."""
_TEXTS = "StringIds"
_OWN = ("PROFILER_OVERHEAD",)
"""Tables of events of nsys itself."""
_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")

COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        RUNTIME: ("start", "end", "globalTid", "correlationId", "nameId"),
        KERNEL: (
            *_DEVICE,
            "demangledName",
            "shortName",
            "mangledName",
            *_SIZES,
            "registersPerThread",
            *_SHARED,
            "graphNodeId",
        ),
        MEMCPY: (*_DEVICE, "bytes", "copyKind", "graphNodeId"),
        MEMSET: (*_DEVICE, "bytes", "graphNodeId"),
        GRAPH: (*_DEVICE, "graphId"),
        CUDNN: ("start", "end", "globalTid", "nameId"),
        CUBLAS: ("start", "end", "globalTid", "nameId"),
        NVTX: ("start", "end", "eventType", "globalTid", "domainId", "textId", "text"),
    }
)
"""Columns that are read by table: integers, except the text of NVTX_EVENTS."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report's rows by table, each with its `COLUMNS`, and its description of the machine."""

    tables: Mapping[str, pl.DataFrame]
    #: texts by their ids
    texts: Mapping[int, str]
    host: str = ""
    accelerator: str = ""
    #: when its clock was 0, in epoch ns; 0 where it does not say
    epoch_ns: int = 0
    #: tables of which only the first rows were read
    cut: tuple[str, ...] = ()
    #: the ends that nsys writes for ranges that were open when the trace ended
    open_ends: tuple[int, ...] = ()
    #: the number of rows of tables of events that are not read
    unread: Mapping[str, int] = field(default_factory=dict)

    def warnings(self, unended: int) -> list[str]:
        """Return its caveats; `unended` of its ranges did not end."""
        warnings = [f"of {name} only the first {MAX_ROWS} rows were read" for name in self.cut]
        if self.tables[GRAPH].height:
            warnings.append(
                "CUDA graphs were traced as a whole (nsys --cuda-graph-trace=node shows kernels)"
            )
        if unended:
            ranges = "range that was" if unended == 1 else "ranges that were"
            warnings.append(f"left out: {unended} {ranges} open when the trace ended")
        if self.unread:
            unread = ", ".join(f"{name} ({rows} rows)" for name, rows in self.unread.items())
            warnings.append(f"not read: {unread}")
        return warnings


def read_report(path: Path) -> Report:
    """Return the contents of an export. Raises ForeignFileBroken, sqlite3.Error."""
    address = path.resolve().as_uri()
    with closing(sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)) as database:
        select_tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = {name for (name,) in database.execute(select_tables)}
        if not names & {*COLUMNS}:
            raise ForeignFileBroken(str(path), "is a database without tables of nsys")
        tables = {name: _table(database, name, exists=name in names) for name in COLUMNS}
        has_types = "typeof(id) = 'integer' AND typeof(value) = 'text'"
        select_texts = f"SELECT id, value FROM {_TEXTS} WHERE {has_types}"  # noqa: S608
        # The trace's length, which nsys 2023 writes, and its last moment.
        ends = (_value_of(database, "ANALYSIS_DETAILS", name) for name in ("duration", "stopTime"))
        return Report(
            tables,
            dict(database.execute(select_texts)) if _TEXTS in names else {},
            host=_text(_value_of(database, "TARGET_INFO_SYSTEM_ENV", "value", "name = 'Hostname'")),
            accelerator=_text(_value_of(database, "TARGET_INFO_GPU", "name")),
            epoch_ns=_stamp(_value_of(database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")),
            cut=tuple(name for name, rows in tables.items() if rows.height >= MAX_ROWS),
            open_ends=tuple(end for end in map(_stamp, ends) if end),
            unread=_unread(database, names - {*COLUMNS, *_OWN}),
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _stamp(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= MAX_START_NS else 0


def _unread(database: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """Return how many rows the tables of timed events among `names` have, where they have any."""
    counts = {}
    for name in sorted(names):
        if {"start", "globalTid"} <= _columns(database, name):
            quoted = name.replace('"', '""')
            select_count = f'SELECT count(*) FROM "{quoted}"'  # noqa: S608
            counts[name] = int(database.execute(select_count).fetchone()[0])
    return {name: count for name, count in counts.items() if count}


def timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with a valid start and end, with `start_ns` and `duration_ns`."""
    are_times = [
        pl.col(name).is_between(MIN_START_NS, MAX_DURATION_NS) for name in ("start", "end")
    ]
    ended = rows.filter(pl.col("end") >= pl.col("start"), *are_times)
    duration = (pl.col("end") - pl.col("start")).alias("duration_ns")
    return ended.with_columns(pl.col("start").alias("start_ns"), duration)


def named(report: Report, *columns: str) -> pl.Expr:
    """Return the text of the first of some columns of text ids that has one."""
    texts = report.texts
    return pl.coalesce(
        pl.col(column).replace_strict(texts, default=None, return_dtype=pl.String)
        for column in columns
    )


def thread() -> pl.Expr:
    """Return the system's thread id of a global id."""
    return (pl.col("globalTid").fill_null(0) % THREADS).alias("thread")


def _table(database: sqlite3.Connection, name: str, *, exists: bool) -> pl.DataFrame:
    """Return a table's rows by start, none where no such table `exists`.

    A view of that name does not count: the file's author decides what it runs, and for how long.
    """
    schema = {column: pl.String if column == "text" else pl.Int64 for column in COLUMNS[name]}
    present = _columns(database, name)
    if not exists or "start" not in present:
        return pl.DataFrame(schema=schema)
    values = []
    for column in schema:
        # A value of another type than its column's is null.
        kind = "text" if column == "text" else "integer"
        value = f'CASE typeof("{column}") WHEN \'{kind}\' THEN "{column}" END'
        values.append(value if column in present else "NULL")
    query = f'SELECT {", ".join(values)} FROM {name} ORDER BY "start" LIMIT ?'  # noqa: S608 - constants
    return pl.DataFrame(database.execute(query, (MAX_ROWS,)).fetchall(), schema, orient="row")


def _columns(database: sqlite3.Connection, name: str) -> set[str]:
    select_names = "SELECT name FROM pragma_table_info(?)"
    return {column for (column,) in database.execute(select_names, (name,))}


def _value_of(database: sqlite3.Connection, name: str, column: str, where: str = "1") -> Any:
    """Return one value of a table's column, None where there is none."""
    if column not in _columns(database, name):
        return None
    select_value = f"SELECT {column} FROM {name} WHERE {where} LIMIT 1"  # noqa: S608 - constants
    row = database.execute(select_value).fetchone()
    return row[0] if row else None
