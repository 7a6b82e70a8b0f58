"""Files of other tools: real ones say what they hold, broken and strange ones are refused."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.importing.errors import ForeignError, ForeignFileBroken, ForeignFileUnknown
from mlscope.importing.event_pairs import paired
from mlscope.importing.events import EVENT_SCHEMA
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import SPAN_SCHEMA, Recording
from schemas.batch import SpanKind
from schemas.level import Level
from tests.thoroughness import examples

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
        "kineto",
        "pytorch",
        "cpu",
        "vm",
    )
    assert dict(found.spans.schema) == dict(SPAN_SCHEMA)
    assert found.roots.height == 3
    layers = _at(found, Level.FRAMEWORK)
    assert layers["name"].to_list()[:4] == [
        "aten::conv2d",
        "aten::relu",
        "aten::flatten",
        "aten::linear",
    ]
    relu = json.loads(layers["attributes"][5])
    assert (relu["index"], relu["type"], relu["input_shapes"]) == (1, "relu", [relu["shape"]])
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
    (note,) = found.notes
    assert "the whole trace is one query: wrap each call in record_function" in note
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


def test_onnx_runtimes_first_run_tells_what_nodes_allocate(tmp_path: Path) -> None:
    layers = _at(read_foreign(ORT), Level.FRAMEWORK)
    told = [json.loads(text) for text in layers["attributes"]]
    assert {each["memory_kind"] for each in told} == {"measured"}
    kept = [each["memory_bytes"] for each in told]
    assert kept == [65536, 32768, 16384, 8192, 128, 128, 0, 40] * 3
    # Of nodes side by side nobody can tell whose it is.
    events = json.loads(ORT.read_text())
    for thread, each in enumerate(events):
        if each["cat"] == "Node":
            each |= {"dur": each["dur"] * 1000, "tid": thread}
    (tmp_path / "parallel.json").write_text(json.dumps(events))
    beside = _at(read_foreign(tmp_path / "parallel.json"), Level.FRAMEWORK)
    assert {json.loads(text)["memory_kind"] for text in beside["attributes"]} == {"outputs"}


def test_an_onnx_profile_at_its_cap_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlscope.importing.onnxruntime.recording.MAX_EVENTS", 10)
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


def test_events_of_an_unknown_tool_are_levelled_by_depth(tmp_path: Path) -> None:
    outer, other = _event("request", 0, 100), _event("other", 10, 10, tid="worker")
    inner = [_event("decode", 0, 10), _event("run", 10, 80), _event("op", 20, 5)]
    found = read_foreign(_written(tmp_path / "trace.json", outer, *inner, other))
    told = set(found.spans.select("name", "level").rows())
    assert told == {("query", 1), ("decode", 2), ("run", 2), ("op", 3)}
    assert found.roots.height == 2
    assert "levels were assigned" in found.notes[0]


def _half(ph: str, name: str | None, ts: float, tid: int = 1, **more: Any) -> dict[str, Any]:
    told = {} if name is None else {"name": name}
    return {"ph": ph, "pid": 1, "tid": tid, "ts": ts, **told, **more}


def _stamps(recording: Recording) -> list[tuple[Any, ...]]:
    return recording.spans.select("name", "level", "start_ns", "duration_ns", "kind").rows()


def test_begins_and_ends_are_ranges(tmp_path: Path) -> None:
    halves = [
        _half("B", "request", 10), _half("B", "decode", 11), _half("E", None, 12),
        _half("B", "run", 12), _half("E", "decode", 18), _half("E", "request", 20),
        _half("B", "other", 12, tid=2), _half("E", "other", 13, tid=2),
    ]  # fmt: skip
    found = read_foreign(_written(tmp_path / "trace.json", *halves, _event("op", 13, 2)))
    assert _stamps(found) == [
        ("query", 1, 0, 10_000, 0),
        ("decode", 2, 1_000, 1_000, 0),
        ("query", 1, 2_000, 1_000, 0),
        ("run", 2, 2_000, 6_000, 0),
        ("op", 3, 3_000, 2_000, 0),
    ]
    assert len(found.notes) == 1


def test_begins_and_ends_are_paired_in_the_order_of_time(tmp_path: Path) -> None:
    path = _written(tmp_path / "t.json", _half("E", "a", 5), _half("B", "a", 1))
    assert read_foreign(path).roots["duration_ns"].to_list() == [4_000]


def test_halves_without_the_other_are_left_out_and_said(tmp_path: Path) -> None:
    halves = [
        _half("E", "from before", 1), _half("B", "whole", 2), _half("E", "whole", 4),
        _half("B", "cut", 5), _half("e", "gone", 6, id=3), _half("B", "whole", 7, tid=2),
    ]  # fmt: skip
    found = read_foreign(_written(tmp_path / "trace.json", *halves))
    assert found.roots.select("start_ns", "duration_ns").rows() == [(0, 2_000)]
    assert found.notes[1] == "4 begins without end, and ends without begin, were left out"


def test_a_file_of_halves_without_the_other_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFileBroken, match="no complete event"):
        read_foreign(_written(tmp_path / "t.json", _half("B", "a", 1), _half("E", "a", 2, tid=2)))


def test_asynchronous_ranges_nest_by_their_id(tmp_path: Path) -> None:
    one: dict[str, Any] = {"cat": "c", "id": "0x1"}
    two: dict[str, Any] = {"cat": "c", "id": 2}
    local: dict[str, Any] = {"id2": {"local": "0x1"}}
    found = read_foreign(
        _written(
            tmp_path / "trace.json",
            _half("b", "request", 0, **one),
            _half("b", "request", 1, tid=2, **two),
            _half("b", "wait", 2, tid=3, **one),
            _half("n", "tick", 2, tid=3, **one),
            _half("b", "local", 2, **local),
            _half("e", "wait", 3, **one),
            _half("e", "request", 5, tid=4, **one),
            _half("e", "local", 5, **local),
            _half("e", "request", 9, **two),
        )
    )
    assert _stamps(found) == [
        ("query", 1, 0, 5_000, 0),
        ("query", 1, 1_000, 8_000, 0),
        ("query", 1, 2_000, 3_000, 0),
        ("tick", 1, 2_000, 0, SpanKind.MARKER),
        ("wait", 2, 2_000, 1_000, 0),
    ]
    threads = dict(found.spans.select("name", "thread").rows())
    assert threads["tick"] == threads["wait"]


def test_an_asynchronous_end_ends_the_newest_of_its_name(tmp_path: Path) -> None:
    names = [("b", "a", 0), ("b", "b", 1), ("e", "a", 4), ("e", "b", 6)]
    halves = [_half(ph, name, ts, id=1) for ph, name, ts in names]
    found = read_foreign(_written(tmp_path / "trace.json", *halves))
    inner = found.spans.filter(pl.col("level") == Level.MODEL)
    assert found.roots["duration_ns"].to_list() == [4_000, 5_000]
    assert [json.loads(each) for each in inner["attributes"]] == [
        {"original": "a"},
        {"original": "b"},
    ]


def test_points_in_time_are_markers(tmp_path: Path) -> None:
    points = [_half("i", "miss", 3, s="t"), _half("I", "old", 4), _half("i", "all", 5, s="g")]
    found = read_foreign(_written(tmp_path / "trace.json", _event("request", 1, 9), *points))
    markers = found.spans.filter(pl.col("kind") == SpanKind.MARKER)
    assert markers.select("name", "level", "start_ns", "query").rows() == [
        ("miss", 1, 2_000, -1), ("old", 1, 3_000, -1), ("all", 1, 4_000, -1),
    ]  # fmt: skip
    assert found.roots.height == 1


def test_what_threads_and_processes_are_called_is_kept(tmp_path: Path) -> None:
    meta = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "shop"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": 'the "main"'}},
        {"ph": "M", "pid": 7, "tid": 1, "name": "thread_name", "args": {"name": "nobody"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_sort_index", "args": {"sort_index": 5}},
    ]
    others = [_event("inner", 2, 1), _event("request", 1, 9, tid=2)]
    found = read_foreign(_written(tmp_path / "trace.json", _event("request", 1, 9), *others, *meta))
    told = {row[0]: json.loads(row[1]) for row in found.spans.select("name", "attributes").rows()}
    assert told["inner"] == {"process": "shop", "thread_name": 'the "main"'}
    named, unnamed = (json.loads(attributes) for attributes in found.roots["attributes"])
    assert named == {"original": "request", **told["inner"]}
    assert unnamed == {"original": "request", "process": "shop"}


def test_a_list_of_events_need_not_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    for end in ("]", "", ",", ",\n]\n"):
        path.write_text(
            f"[\n{json.dumps(_event('a', 1, 2))},\n{json.dumps(_event('b', 5, 2))}{end}"
        )
        assert read_foreign(path).roots.height == 2


def test_arguments_of_any_kind_break_nothing(tmp_path: Path) -> None:
    odd = [
        {"level": "info", "name": {"a": 1}, "bytes": 1 << 70, "grid": "2x2"}, [1], "text",
        {"stream": 1.5, "grid": [1, None, "x"]},
    ]  # fmt: skip
    events = [_event(f"e{n}", 10 * n, 1, args=args, id={"a": n}) for n, args in enumerate(odd)]
    found = read_foreign(_written(tmp_path / "trace.json", *events, 5))  # type: ignore[arg-type]
    assert found.roots.height == 4


_STEPS = st.lists(
    st.tuples(st.sampled_from("BE"), st.integers(0, 1), st.integers(0, 3)), max_size=24
)


@settings(deadline=None, max_examples=examples(60))
@given(steps=_STEPS)
def test_halves_pair_as_a_stack_a_thread_does(steps: list[tuple[str, int, int]]) -> None:
    at = lost = 0
    stacks: tuple[list[tuple[str, int]], ...] = ([], [])
    expected, events = list[tuple[str, int, int]](), list[dict[str, Any]]()
    for ph, thread, wait in steps:
        at += wait
        events.append(_half(ph, f"{len(events)}", at, tid=thread))
        if ph == "B":
            stacks[thread].append((events[-1]["name"], at))
        elif stacks[thread]:
            name, began = stacks[thread].pop()
            expected.append((name, began, at - began))
        else:
            lost += 1
    schema = {**EVENT_SCHEMA, "args": pl.Null}
    found = paired(pl.DataFrame(events, schema=schema, orient="row"))
    assert sorted(found.frame.select("name", "ts", "dur").rows()) == sorted(expected)
    assert found.unpaired == lost + sum(map(len, stacks))


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
    with pytest.raises(ForeignFileBroken, match="cannot be read: No such file"):
        read_foreign(tmp_path / "gone")
