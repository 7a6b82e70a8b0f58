"""Altered files of other tools: a bundle or a refusal that names the file, whatever was altered.

Small real files of each format, and small ones of our own making, are cut, overwritten, and given
values of other kinds; what is read must be what batches, JSON columns and plans take.
"""

import contextlib
import copy
import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.offline.foreign import plan_of
from mlscope.importing import unpacking as packed
from mlscope.importing.errors import ForeignError, ForeignFileBroken, ForeignFileUnknown
from mlscope.importing.facts import facts_of
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import MIN_START_NS, Recording
from mlscope.tracing.batches import columns_of
from schemas.batch import TraceCaptured
from schemas.encoding.codec import encode_body
from schemas.plan import OfflinePlan
from tests.thoroughness import examples

FILES = Path(__file__).with_name("files")
KINETO, ORT, NCU, NSYS = (
    FILES / name
    for name in ("kineto_cpu.json", "onnxruntime.json", "ncu_resnet50.csv", "nsys_cpu.sqlite")
)
_MANY = settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_DEEP: Any = json.loads("[" * 300 + "]" * 300)
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0.5, 1e300, -1e300, 1e18, float("nan"), float("inf")),
    *(2**31, 2**40, 2**53, 2**62, 2**63, -(2**63), 2**70, 10**30, "9" * 5000, "²"),
    *("", "x", "a\0b", "\ud800", "Ä", [], {}, [[]], [None], [{}], {"a": 1}, _DEEP),
)


@cache
def _plan() -> OfflinePlan:
    return plan_of(read_foreign(KINETO), "model")


def _refused(name: str) -> float:
    raise ValueError(name)


def _imports(recording: Recording) -> None:
    """Make the facts of a bundle, which are what its readers and the database take."""
    for fact in facts_of(_plan(), recording):
        assert encode_body(fact)
        if isinstance(fact, TraceCaptured):
            columns = columns_of(fact)
            assert int(columns["duration_ns"].min()) >= 0
            assert int(columns["start_ns"].min()) >= MIN_START_NS
            for text in fact.attribute_texts:
                assert isinstance(json.loads(text, parse_constant=_refused), dict)
                assert b"\\u0000" not in text


def _is_imported(path: Path) -> bool:
    """Say whether a file is imported; refusals name it and say why, and nothing else is raised."""
    recording, why = _outcome(path)
    if recording is None:
        assert why.startswith(f"{path} ")
        assert 5 < len(why) - len(str(path)) < 1_000
        return False
    _imports(recording)
    return True


def _outcome(path: Path) -> tuple[Recording | None, str]:
    try:
        return read_foreign(path), ""
    except ForeignError as error:
        return None, str(error)


def _own_export() -> dict[str, Any]:
    """Return what mlscope exported of two queries and what is in them."""
    told = [
        (1, None, 1, 0, 0, 50, {"note": [1]}),
        (2, 1, 3, 0, 10, 20, None),
        (3, None, 5, 2, 12, 9, None),
    ]
    events = [
        {
            "ph": "X", "name": f"s{span}", "pid": 1, "tid": 1, "ts": start, "dur": ns,
            "args": {
                "span": span, "parent": parent, "level": level, "kind": kind, "query": 0,
                "run_block": 0, "thread": 1, "start_ns": start * 1000, "duration_ns": ns * 1000,
                "correlation": -1, "attributes": json.dumps(more) if more else None,
            },
        }
        for span, parent, level, kind, start, ns, more in told
    ]  # fmt: skip
    head = {"mlscope": "1", "framework": "jax", "device": "cpu", "host_name": "h"}
    return {**head, "baseTimeNanoseconds": 1 << 60, "isCut": False, "traceEvents": events}


def _chrome() -> list[Any]:
    """Return events of an unknown tool: ranges of all kinds, points, names."""
    at = {"pid": 1, "tid": 1}
    return [
        {"args": {"name": "shop"}, "ph": "M", "name": "process_name", "pid": 1},
        {"ph": "X", "name": "request", "ts": 1, "dur": 90, **at},
        {"ph": "B", "name": "run", "ts": 2, **at}, {"ph": "E", "ts": 30, **at},
        {"ph": "b", "cat": "c", "id": 1, "name": "wait", "ts": 3, **at},
        {"ph": "e", "cat": "c", "id": 1, "name": "wait", "ts": 5, **at},
        {"ph": "i", "name": "miss", "ts": 7, **at},
    ]  # fmt: skip


def _device_work() -> dict[str, Any]:
    """Return torch.profiler's events of a launch and its kernel."""
    shared = {"ph": "X", "pid": 1, "dur": 5.5}
    shapes = {
        "Input Dims": [[4, 5], [5, 6]], "Input type": ["float", "float"],
        "Concrete Inputs": ["", ""],
    }  # fmt: skip
    launch, kernel = (
        {"correlation": 7},
        {"correlation": 7, "device": 0, "stream": 7, "grid": [1, 1, 1]},
    )
    return {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "record_shapes": 1,
        "traceEvents": [
            {**shared, "cat": "user_annotation", "name": "query", "tid": 1, "ts": 1, "dur": 99.5},
            {**shared, "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 1.5, "dur": 9,
             "args": shapes},
            {**shared, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": 2,
             "args": launch},
            {**shared, "cat": "kernel", "name": "gemm", "tid": 7, "ts": 9, "args": kernel},
        ],
    }  # fmt: skip


JSONS: dict[str, Callable[[], Any]] = {
    "kineto": lambda: json.loads(KINETO.read_bytes()),
    "device": _device_work,
    "chrome": _chrome,
    "onnxruntime": lambda: json.loads(ORT.read_bytes()),
    "mlscope": _own_export,
}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON value with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


@pytest.mark.parametrize("name", JSONS)
@_MANY
@given(data=st.data())
def test_values_of_other_kinds_are_imported_or_refused(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    told = JSONS[name]()
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(_places(told))
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = copy.deepcopy(data.draw(st.sampled_from(STRANGE)))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(told))
    _is_imported(path)


@pytest.mark.parametrize(
    "field",
    [
        "ts",
        "dur",
        "name",
        "args",
        *(pytest.param(field, marks=pytest.mark.long) for field in ("tid", "pid", "cat", "ph")),
    ],
)
@pytest.mark.parametrize(
    "name", ["chrome", "mlscope", "onnxruntime", pytest.param("device", marks=pytest.mark.long)]
)
def test_each_strange_value_of_each_field_is_imported_or_refused(
    tmp_path: Path, name: str, field: str
) -> None:
    told = JSONS[name]()
    events = told["traceEvents"] if isinstance(told, dict) else told
    path = tmp_path / "trace.json"
    for strange in STRANGE:
        events[-1][field] = strange
        path.write_text(json.dumps(told))
        _is_imported(path)


@pytest.mark.parametrize("file", [KINETO, ORT, NCU, NSYS], ids=lambda path: path.name)
@_MANY
@given(data=st.data())
def test_overwritten_and_cut_files_are_imported_or_refused(
    tmp_path: Path, file: Path, data: st.DataObject
) -> None:
    body = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    end = data.draw(st.integers(0, len(body)) | st.just(len(body)))
    path = tmp_path / "file"
    path.write_bytes(body[:end])
    _is_imported(path)


@_MANY
@given(
    places=st.lists(st.tuples(st.integers(1, 90), st.integers(0, 60)), min_size=1, max_size=3),
    strange=st.sampled_from(
        ("", "nan", "inf", "-5", "1e400", "9" * 5000, "²", "a\0b", '"', "é" * 140_000)
    ),
)
def test_strange_cells_of_reports_are_imported_or_refused(
    tmp_path: Path, places: list[tuple[int, int]], strange: str
) -> None:
    rows = [line.split('","') for line in NCU.read_text().splitlines()]
    for row, column in places:
        cells = rows[row % len(rows)]
        cells[column % len(cells)] = strange
    path = tmp_path / "report.csv"
    path.write_text("\n".join('","'.join(cells) for cells in rows))
    _is_imported(path)


@cache
def _columns() -> tuple[tuple[str, str], ...]:
    with closing(sqlite3.connect(f"{NSYS.resolve().as_uri()}?mode=ro", uri=True)) as base:
        names = [
            each for (each,) in base.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        told = {
            name: base.execute("SELECT name FROM pragma_table_info(?)", (name,)) for name in names
        }
        return tuple((name, column) for name, rows in told.items() for (column,) in rows)


@_MANY
@given(data=st.data())
def test_strange_values_of_databases_are_imported_or_refused(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "report.sqlite"
    shutil.copyfile(NSYS, path)
    values = (None, 0.5, -1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), "x", "a\0b", b"\xff", 1e300)
    with closing(sqlite3.connect(path)) as base:
        for _ in range(data.draw(st.integers(1, 3))):
            table, column = data.draw(st.sampled_from(_columns()))
            row = "(SELECT rowid FROM {0} LIMIT 1 OFFSET ?)" if data.draw(st.booleans()) else "?"
            change = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid >= {row.format(table)}'
            with contextlib.suppress(sqlite3.IntegrityError):
                base.execute(
                    change, (data.draw(st.sampled_from(values)), data.draw(st.integers(0, 9)))
                )
        base.commit()
    _is_imported(path)


def test_a_view_of_a_database_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    endless = "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)"
    shutil.copyfile(NSYS, path)
    with closing(sqlite3.connect(path)) as base:
        base.execute("DROP TABLE IF EXISTS CUDNN_EVENTS")
        base.execute(f"CREATE VIEW CUDNN_EVENTS AS {endless} SELECT start FROM n")
        base.commit()
    assert _is_imported(path)


@pytest.mark.parametrize("file", [KINETO, ORT, NCU, NSYS], ids=lambda path: path.name)
def test_packed_files_say_the_same(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(file.read_bytes()))
    assert read_foreign(path).spans.equals(read_foreign(file).spans)


@pytest.mark.parametrize("cut", [-1, 300, 3, None])
def test_packed_files_that_are_broken_are_refused(tmp_path: Path, cut: int | None) -> None:
    body = gzip.compress(KINETO.read_bytes()) if cut else gzip.compress(b"hello")
    path = tmp_path / "trace.json.gz"
    path.write_bytes(body[:cut])
    assert not _is_imported(path)


def test_what_grows_too_much_when_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 3_000_000))
    monkeypatch.setattr(packed, "FREE_BYTES", 1_000)
    most = packed.MAX_RATIO * path.stat().st_size
    with pytest.raises(
        ForeignFileBroken, match=f"{path} is larger than {most} bytes when unpacked"
    ):
        read_foreign(path)
    monkeypatch.setattr(packed, "MAX_BYTES", 2_000)
    with pytest.raises(ForeignFileBroken, match="larger than 2000 bytes"):
        read_foreign(path)


def test_a_bundle_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.bundle.gz"
    path.write_bytes(gzip.compress(b"MLSCOPE1" + bytes(50)))
    with pytest.raises(ForeignFileUnknown, match="is a bundle, not a trace"):
        read_foreign(path)


@pytest.mark.parametrize("file", [KINETO, ORT], ids=lambda path: path.name)
def test_a_mark_of_utf8_is_skipped(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_foreign(path).spans.equals(read_foreign(file).spans)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(_chrome()).encode())
    assert read_foreign(path).roots.height == 2


def test_what_follows_the_events_is_not_read_as_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"traceEvents": _chrome(), "metadata": {"a": [1]}, "host_name": "h"})
    )
    found = read_foreign(path)
    assert (found.roots.height, found.host) == (2, "h")


def test_ids_of_threads_beyond_31_bits_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    told = _device_work()
    for number, event in enumerate(told["traceEvents"]):
        event["tid"] = (1 << 40) + number
    path.write_text(json.dumps(told))
    found = read_foreign(path).spans
    threads = dict(found.select("name", "thread").rows())
    assert (threads["aten::mm"], threads["cudaLaunchKernel"], threads["gemm"]) == (1, 2, 7)


def test_events_without_a_time_are_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    strange: list[dict[str, Any]] = [
        {"ts": 1e300},
        {"ts": float("nan")},
        {"ts": float("inf")},
        {"dur": -1},
        {"dur": 1e18},
    ]
    whole = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 4, "dur": 2}
    path.write_text(json.dumps([whole, *(whole | each for each in strange)]))
    found = read_foreign(path)
    assert found.roots.select("start_ns", "duration_ns").rows() == [(0, 2_000)]
    assert "5 events without a valid time were left out" in found.notes


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "1 event of another category was"), (2, "2 events of other categories were")],
)
def test_events_of_other_categories_are_counted(tmp_path: Path, count: int, said: str) -> None:
    path = tmp_path / "trace.json"
    told = _device_work()
    other = {"ph": "X", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "cat": "Trace", "name": "record"}
    told["traceEvents"] += [other] * count
    path.write_text(json.dumps(told))
    assert f"{said} left out" in read_foreign(path).notes


def test_one_event_left_out_is_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    whole = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 4, "dur": 2}
    begin = {"ph": "B", "name": "b", "pid": 1, "tid": 1, "ts": 5}
    path.write_text(json.dumps([whole, whole | {"dur": -1}, begin]))
    assert read_foreign(path).notes[1:] == (
        "1 begin without end, or end without begin, was left out",
        "1 event without a valid time was left out",
    )


def test_processes_without_a_name_are_not_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    told = _chrome()
    told[0]["args"]["name"] = ""
    path.write_text(json.dumps(told))
    assert _is_imported(path)


@pytest.mark.parametrize("epoch_ns", [10**30, 1 << 63])
def test_an_epoch_that_is_no_time_is_left_out(tmp_path: Path, epoch_ns: int) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(_own_export() | {"baseTimeNanoseconds": epoch_ns}))
    assert _is_imported(path)
    assert read_foreign(path).epoch_ns == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("level", 9), ("kind", 77), ("span", 1), ("duration_ns", -4), ("start_ns", 1 << 62 | 1),
     ("attributes", "[1]"), ("attributes", '{"a": NaN}'), ("query", -7), ("block", -1),
     ("parent", 3)],
)  # fmt: skip
def test_exports_whose_spans_are_none_are_refused(tmp_path: Path, field: str, value: Any) -> None:
    told = _own_export()
    told["traceEvents"][-1]["args"]["run_block" if field == "block" else field] = value
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(told))
    with pytest.raises(ForeignFileBroken, match=r"is altered|altered export"):
        read_foreign(path)


def test_spans_of_no_query_and_no_block_are_imported(tmp_path: Path) -> None:
    told = JSONS["mlscope"]()
    told["traceEvents"][-1]["args"] |= {"query": -1, "run_block": -1}
    path = tmp_path / "ahead.json"
    path.write_text(json.dumps(told), "utf-8")
    assert (read_foreign(path).spans["block"] < 0).sum() == 1
