"""Exports of Nsight Systems: tables as its versions write them, made up row by row."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.nsys import tables as nsys_tables
from mlscope.importing.reading import read_foreign
from schemas.batch import SpanKind

PID, OTHER_PID = 281_474_993_487_872, 281_475_010_265_088
"""Two processes as global ids have them; a thread is added."""

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (
    globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER NOT NULL,
    value TEXT NOT NULL
);
CREATE TABLE TARGET_INFO_GPU (
    vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, totalMemory INTEGER
);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
    callchainId INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
    blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
    dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
    localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER,
    graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
    srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER,
    dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER,
    virtualAddress INTEGER, copyCount INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL,
    graphNodeId INTEGER, memKind INTEGER
);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL
);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
    textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL,
    uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT,
    binaryData TEXT
);
"""
"""What `nsys export --type sqlite` of 2024 declares, but for tables that are not read."""

TEXTS = {1: "cudaLaunchKernel_v7000", 2: "void gemm<float>(int)", 3: "gemm", 4: "conv1"}
TEXTS |= {5: "cudaMemcpyAsync_v3020", 6: "cudaGraphLaunch_v10000"}
RUNTIME, KERNEL = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"
KERNEL_ROW = {
    **dict.fromkeys(("deviceId", "contextId", "localMemoryPerThread", "localMemoryTotal"), 0),
    **dict.fromkeys(("gridX", "gridY", "gridZ", "blockY", "blockZ", "gridId"), 1),
    "blockX": 64,
    "registersPerThread": 32,
    "staticSharedMemory": 16,
    "dynamicSharedMemory": 32,
    "demangledName": 2,
    "shortName": 3,
    "globalPid": PID,
}
DEVICE_ROW = {"deviceId": 0, "contextId": 1, "globalPid": PID}


class Export:
    """An export that is being made."""

    def __init__(self, path: Path, without: tuple[str, ...] = ()) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as base:
            base.executescript(SCHEMA + "".join(f"DROP TABLE {each};" for each in without))
        for number, text in TEXTS.items():
            if "StringIds" not in without:
                self.put("StringIds", id=number, value=text)

    def put(self, table: str, **values: Any) -> None:
        """Write a row."""
        names = ", ".join(f'"{each}"' for each in values)
        marks = ", ".join("?" * len(values))
        with closing(sqlite3.connect(self.path)) as base:
            base.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*values.values()])
            base.commit()

    def call(self, start: int, end: int, correlation: int, name: int = 1, pid: int = PID) -> None:
        """Write a call of CUDA's runtime, of thread 5."""
        fixed = {"eventClass": 0, "returnValue": 0, "globalTid": pid + 5}
        told = {"start": start, "end": end, "correlationId": correlation, "nameId": name}
        self.put(RUNTIME, **told, **fixed)

    def kernel(self, start: int, end: int, correlation: int, **more: Any) -> None:
        """Write a kernel of stream 7."""
        told = {"start": start, "end": end, "correlationId": correlation, "streamId": 7}
        self.put(KERNEL, **{**KERNEL_ROW, **told, **more})

    def range(self, start: int, end: int | None, kind: int = 59, **more: Any) -> None:
        """Write an event of NVTX, of thread 5."""
        told = {"start": start, "end": end, "eventType": kind, "globalTid": PID + 5}
        self.put("NVTX_EVENTS", **{**told, **more})


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Return an export without rows."""
    return Export(tmp_path / "report.sqlite")


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Return name, level, start, duration, thread, kind and correlation of a file's spans."""
    columns = ("name", "level", "start_ns", "duration_ns", "thread", "kind", "correlation")
    return read_foreign(path).spans.select(columns).rows()


def attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a file's spans by name."""
    spans = read_foreign(path).spans.drop_nulls("attributes")
    return {n: json.loads(text) for n, text in spans.select("name", "attributes").iter_rows()}


def test_device_work_of_every_kind_is_read(export: Export) -> None:
    for number, name in ((8, 1), (9, 5), (10, 5), (11, 6)):
        export.call(1000 + number, 1001 + number, number, name)
    export.kernel(1100, 1200, 8, graphNodeId=77)
    copied = {"start": 1200, "end": 1210, "correlationId": 9, "streamId": 7, "bytes": 64}
    export.put("CUPTI_ACTIVITY_KIND_MEMCPY", **copied, copyKind=1, **DEVICE_ROW)
    copied |= {"start": 1210, "end": 1215, "correlationId": 10}
    export.put("CUPTI_ACTIVITY_KIND_MEMSET", **copied, value=0, **DEVICE_ROW)
    graph = {"start": 1300, "end": 1400, "correlationId": 11, "streamId": 7}
    export.put("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **graph, graphId=3, graphExecId=4, **DEVICE_ROW)
    assert rows(export.path)[2:] == [
        ("cudaLaunchKernel", 5, 0, 1, 5, SpanKind.LAUNCH, 8),
        ("cudaMemcpyAsync", 5, 1, 1, 5, SpanKind.LAUNCH, 9),
        ("cudaMemcpyAsync", 5, 2, 1, 5, SpanKind.LAUNCH, 10),
        ("cudaGraphLaunch", 5, 3, 1, 5, SpanKind.LAUNCH, 11),
        ("void gemm<float>(int)", 5, 92, 100, 7, SpanKind.KERNEL, 8),
        ("Memcpy HtoD", 5, 192, 10, 7, SpanKind.COPY, 9),
        ("Memset", 5, 202, 5, 7, SpanKind.SET, 10),
        ("CUDA graph 3", 5, 292, 100, 7, SpanKind.KERNEL, 11),
    ]
    told = attributes(export.path)
    assert told["void gemm<float>(int)"] == {
        "device": 0, "grid": [1, 1, 1], "block": [64, 1, 1], "registers": 32, "shared_bytes": 48,
        "graph_node": 77,
    }  # fmt: skip
    assert told["Memcpy HtoD"] == {
        "device": 0, "bytes": 64, "copy_kind": "HtoD", "graph_node": None,
    }  # fmt: skip
    assert "traced as a whole" in read_foreign(export.path).notes[1]


def test_pushed_ranges_nest_and_started_ones_are_the_users_own(export: Export) -> None:
    export.range(0, None, 75, text="cache", domainId=9)
    export.range(1000, 1300, text="step")
    export.range(1010, 1200, textId=4)
    export.range(1020, 1100, text="look up", domainId=9)
    export.range(1005, 1250, 60, text="request", rangeId=1, endGlobalTid=PID + 6, domainId=9)
    export.range(1030, None, 34, text="hit")
    export.range(1290, None, text="never popped")
    assert rows(export.path) == [
        ("query", 1, 0, 300, 5, SpanKind.HOST, -1),
        ("request", 1, 5, 245, 5, SpanKind.HOST, -1),
        ("conv1", 2, 10, 190, 5, SpanKind.HOST, -1),
        ("look up", 3, 20, 80, 5, SpanKind.HOST, -1),
        ("hit", 1, 30, 0, 5, SpanKind.MARKER, -1),
    ]
    found = read_foreign(export.path)
    assert found.roots.height == 1
    assert found.spans["query"].to_list() == [0, -1, -1, -1, -1]
    told = attributes(export.path)
    assert (told["look up"], told["request"]) == ({"domain": "cache"}, {"domain": "cache"})


def test_started_ranges_alone_are_queries(export: Export) -> None:
    export.range(1000, 1300, 60, text="one")
    export.range(1400, 1500, 60, text="two")
    assert read_foreign(export.path).roots["duration_ns"].to_list() == [300, 100]


def test_marks_alone_lie_in_the_one_query(export: Export) -> None:
    export.kernel(1100, 1200, 8)
    export.range(1150, None, 34, text="hit")
    assert [row[:3] for row in rows(export.path)] == [
        ("query", 1, 0), ("predict", 2, 0), ("void gemm<float>(int)", 5, 0), ("hit", 1, 50),
    ]  # fmt: skip


def test_two_processes_may_use_one_correlation_id(export: Export) -> None:
    export.call(1000, 1001, 8)
    export.call(1000, 1001, 8, pid=OTHER_PID)
    export.kernel(1100, 1200, 8)
    export.kernel(1150, 1250, 8, globalPid=OTHER_PID)
    ids = read_foreign(export.path).spans.filter(pl.col("level") == 5)["correlation"].to_list()
    assert sorted(ids[:2]) == ids[2:]
    assert len({*ids}) == 2


def test_the_machine_and_the_time_are_told(export: Export) -> None:
    export.kernel(1100, 1200, 8)
    name = {"devStateName": "", "name": "Hostname", "nameEnum": 1, "value": "gpu-1"}
    export.put("TARGET_INFO_SYSTEM_ENV", **name)
    export.put("TARGET_INFO_GPU", vmId=1, id=0, name="NVIDIA H200")
    export.put("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_790_000_000_000_000_000)
    found = read_foreign(export.path)
    assert (found.host, found.accelerator, found.device) == ("gpu-1", "NVIDIA H200", "cuda")
    assert found.epoch_ns == 1_790_000_000_000_001_100


TABLES = [line.split()[2] for line in SCHEMA.splitlines() if line.startswith("CREATE TABLE")]


@pytest.mark.parametrize("lacking", TABLES)
def test_any_table_may_be_missing(tmp_path: Path, lacking: str) -> None:
    made = Export(tmp_path / "report.sqlite", (lacking,))
    if lacking != RUNTIME:
        made.call(1000, 1001, 8)
    if lacking != KERNEL:
        made.kernel(1100, 1200, 8)
    names = {row[0] for row in rows(made.path) if row[1] == 5}
    known = {"cudaLaunchKernel", "void gemm<float>(int)"}
    expected = {
        "StringIds": {"?", "kernel"},
        RUNTIME: {"void gemm<float>(int)"},
        KERNEL: {"cudaLaunchKernel"},
    }
    assert names == expected.get(lacking, known)


def test_what_was_not_read_is_said(export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_tables, "MAX_ROWS", 1)
    for correlation in (8, 9):
        export.kernel(1100 + correlation, 1200, correlation)
    found = read_foreign(export.path)
    assert found.spans.filter(pl.col("level") == 5).height == 1
    assert found.notes[1].startswith(f"of {KERNEL} only the first ")


def test_values_of_other_types_are_none(export: Export) -> None:
    export.kernel(1100, 1200, "x", registersPerThread="many", demangledName=b"\x00")  # type: ignore[arg-type]
    (kernel,) = (row for row in rows(export.path) if row[1] == 5)
    assert (kernel[0], kernel[6]) == ("gemm", -1)


def test_an_export_without_rows_is_refused(export: Export) -> None:
    with pytest.raises(ForeignFileBroken, match="neither calls nor kernels nor ranges"):
        read_foreign(export.path)


def _old(path: Path, *, ranges: bool = True) -> Path:
    """Write the fewest columns that any version had."""
    with closing(sqlite3.connect(path)) as base:
        base.executescript(
            """
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm'), (3, 'conv1');
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
                start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER
            );
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1020, 1030, 281474993487873, 9, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
                start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
                correlationId INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER,
                gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
                registersPerThread INTEGER
            );
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (1100, 1200, 0, 7, 9, 2, 4, 1, 1, 64, 1, 1, 32);
            """
        )
        if ranges:
            base.executescript(
                """
                CREATE TABLE NVTX_EVENTS (
                    start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER
                );
                INSERT INTO NVTX_EVENTS VALUES
                    (1000, 1300, 281474993487873, 'step', NULL),
                    (1005, 1250, 281474993487873, 'forward', NULL),
                    (1010, 1040, 281474993487873, NULL, 3);
                """
            )
        base.commit()
    return path


def test_nsys_ranges_are_queries_operators_and_layers(tmp_path: Path) -> None:
    found = read_foreign(_old(tmp_path / "report.sqlite"))
    told = found.spans.select("name", "level", "start_ns", "kind", "correlation").rows()
    assert told == [
        ("query", 1, 0, 0, -1),
        ("forward", 2, 5, 0, -1),
        ("conv1", 3, 10, 0, -1),
        ("cudaLaunchKernel", 5, 20, 1, 9),
        ("gemm", 5, 100, 2, 9),
    ]
    assert found.spans["thread"].n_unique() == 2


def test_nsys_files_are_called_anything(tmp_path: Path) -> None:
    found = read_foreign(_old(tmp_path / "50%25 of a#1?.sqlite"))
    assert found.tool == "nsys"


def test_nsys_without_ranges_is_one_query(tmp_path: Path) -> None:
    found = read_foreign(_old(tmp_path / "report.sqlite", ranges=False))
    assert found.roots["duration_ns"].to_list() == [180]
    assert found.notes == ("the trace has no NVTX range: all of it is one query",)
