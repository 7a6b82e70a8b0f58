"""Files of other tools: real ones say what they hold, broken and strange ones are refused."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.errors import ForeignError, ForeignFileBroken, ForeignFileUnknown
from services.agent.foreign.reading import read_foreign
from services.agent.foreign.recording import SPAN_SCHEMA, Recording

FILES = Path(__file__).with_name("files")
KINETO, ORT, NCU = (FILES / n for n in ("kineto_cpu.json", "onnxruntime.json", "ncu_resnet50.csv"))


def _at(recording: Recording, level: Level) -> pl.DataFrame:
    return recording.spans.filter(pl.col("level") == int(level))


def _event(name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | more


def _written(path: Path, *events: dict[str, Any], **head: Any) -> Path:
    path.write_text(json.dumps({**head, "traceEvents": list(events)}))
    return path


def test_torch_profilers_trace_has_queries_layers_and_library_calls() -> None:
    found = read_foreign(KINETO)
    assert (found.tool, found.framework, found.device, found.host) == (
        *("kineto", "pytorch", "cpu"),
        "vm",
    )
    assert dict(found.spans.schema) == dict(SPAN_SCHEMA)
    assert found.roots.height == 3
    layers = _at(found, Level.FRAMEWORK)
    assert layers["name"].to_list()[:4] == [
        *("aten::conv2d", "aten::relu", "aten::flatten", "aten::linear")
    ]
    assert json.loads(layers["attributes"][5]) == {"index": 1, "type": "relu"}
    assert layers["query"].to_list() == [0] * 4 + [1] * 4 + [2] * 4
    assert "aten::convolution" in _at(found, Level.LIBRARY)["name"].to_list()
    assert found.spans["start_ns"].min() == 0
    assert found.epoch_ns > 1_790_857_026_000_000_000


def test_device_work_is_joined_with_its_launch(tmp_path: Path) -> None:
    args = {"correlation": 5, "stream": 7, "device": 1, "grid": [2, 1, 1], "block": [64, 1, 1]}
    call = {"correlation": 5, "cbid": 211}
    path = _written(
        tmp_path / "trace.json",
        _event("aten::mm", 10.5, 20, cat="cpu_op"),
        _event("cudaLaunchKernel", 12.25, 3, cat="cuda_runtime", args=call),
        _event("cudaDeviceSynchronize", 40, 3, cat="cuda_runtime", args={"correlation": 6}),
        _event("gemm", 50.001, 9, cat="kernel", tid=7, args=args),
        _event("Memcpy HtoD", 60, 1, cat="gpu_memcpy", tid=7, args={**args, "bytes": 64}),
        deviceProperties=[{"id": 0, "name": "NVIDIA H200"}],
    )
    found = read_foreign(path)
    links = _at(found, Level.SYSTEM).select("name", "kind", "correlation", "thread").rows()
    assert links == [
        ("cudaLaunchKernel", SpanKind.LAUNCH, 5, 1),
        ("cudaDeviceSynchronize", SpanKind.HOST, 6, 1),
        ("gemm", SpanKind.KERNEL, 5, 7),
        ("Memcpy HtoD", SpanKind.COPY, 5, 7),
    ]
    kernel = found.spans.filter(pl.col("name") == "gemm")
    assert (kernel["start_ns"].item(), kernel["duration_ns"].item()) == (39_501, 9_000)
    assert json.loads(kernel["attributes"].item())["grid"] == [2, 1, 1]
    assert (found.device, found.accelerator) == ("cuda", "NVIDIA H200")
    assert found.notes == ("the trace names no step: all of it is one query",)
    assert found.roots["duration_ns"].to_list() == [32_500]


def test_a_trace_is_the_same_however_its_json_is_laid_out(tmp_path: Path) -> None:
    told = json.loads(KINETO.read_text().replace('\n    \n      "trace_id"', '\n "trace_id"'))
    minified = tmp_path / "minified.json"
    minified.write_text(json.dumps(told))
    assert read_foreign(minified).spans.equals(read_foreign(KINETO).spans)


def test_onnx_runtimes_profile_has_runs_and_nodes() -> None:
    found = read_foreign(ORT)
    assert (found.tool, found.framework, found.roots.height) == ("onnxruntime", "onnxruntime", 3)
    layers = _at(found, Level.FRAMEWORK)
    assert layers.height % 3 == 0
    first = json.loads(layers["attributes"][0])
    assert {"index", "type", "shape", "provider", "memory_bytes", "memory_kind"} <= first.keys()
    assert first["provider"] == "CPUExecutionProvider"


def test_an_onnx_profile_at_its_cap_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.agent.foreign.onnx.MOST_EVENTS", 10)
    assert "later runs are missing" in read_foreign(ORT).notes[0]


def test_counters_of_ncu_are_kernels_in_layers() -> None:
    found = read_foreign(NCU)
    kernels = _at(found, Level.HARDWARE)
    assert kernels.height == 24
    first = json.loads(kernels["attributes"][0])
    assert first["layer"] == "conv1"
    assert first["dram_read_bytes"] == 19_277_824
    assert first["flops"] >= 0
    layers = _at(found, Level.FRAMEWORK)
    assert layers["name"][0] == "conv1"
    assert layers["duration_ns"].sum() <= kernels["duration_ns"].sum()
    assert "no latencies" in found.notes[0]


def _nsys(path: Path, *, ranges: bool = True) -> Path:
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
    found = read_foreign(_nsys(tmp_path / "report.sqlite"))
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
    found = read_foreign(_nsys(tmp_path / "50%25 of a#1?.sqlite"))
    assert found.tool == "nsys"


def test_nsys_without_ranges_is_one_query(tmp_path: Path) -> None:
    found = read_foreign(_nsys(tmp_path / "report.sqlite", ranges=False))
    assert found.roots["duration_ns"].to_list() == [180]
    assert found.notes == ("the trace has no NVTX range: all of it is one query",)


def test_events_of_an_unknown_tool_are_levelled_by_depth(tmp_path: Path) -> None:
    outer, other = _event("request", 0, 100), _event("other", 10, 10, tid="worker")
    inner = [_event("decode", 0, 10), _event("run", 10, 80), _event("op", 20, 5)]
    found = read_foreign(_written(tmp_path / "trace.json", outer, *inner, other))
    told = set(found.spans.select("name", "level").rows())
    assert told == {("query", 1), ("decode", 2), ("run", 2), ("op", 3)}
    assert found.roots.height == 2
    assert "levels were given" in found.notes[0]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", ForeignFileUnknown),
        (b"\x89PNG....", ForeignFileUnknown),
        (b'{"a": 1}', ForeignFileUnknown),
        (KINETO.read_bytes()[:9000], ForeignFileBroken),
        (KINETO.read_bytes()[:-30], ForeignFileBroken),
        (b'{"traceEvents": []}', ForeignFileBroken),
        (b'{"traceEvents": [{"ph": "X", "ts": "no"}, nonsense]}', ForeignFileBroken),
        (ORT.read_bytes()[:5000], ForeignFileBroken),
        (NCU.read_bytes()[:9000], ForeignFileBroken),
        (b"SQLite format 3\0" + bytes(100), ForeignFileBroken),
    ],
)
def test_broken_and_foreign_files_are_refused(
    tmp_path: Path, content: bytes, error: type[ForeignError]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(error, match=str(path)):
        read_foreign(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFileBroken, match="No such file"):
        read_foreign(tmp_path / "gone")
