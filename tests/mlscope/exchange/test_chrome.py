"""Chrome's trace events: what is exported is imported as it was."""

import json
from collections import defaultdict
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from mlscope.exchange.chrome import write
from mlscope.exchange.traces import Trace
from mlscope.importing.reading import read_foreign
from mlscope.importing.recording import SPAN_SCHEMA
from schemas.analysis import SpanRow
from schemas.batch import SpanKind
from tests.mlscope.exchange.traces import ON_TWO_DEVICES, RUN, SMALL, TRACES
from tests.thoroughness import examples


def _written(trace: Trace) -> bytes:
    file = BytesIO()
    write(trace, file)
    return file.getvalue()


@settings(deadline=None, max_examples=examples(60))
@given(trace=TRACES.filter(lambda trace: len(trace.spans) > 0))
def test_what_was_exported_is_imported_the_same(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(_written(trace))
        found = read_foreign(path)
    exported = [
        tuple(getattr(span, name) or None if name == "attributes" else getattr(span, name)
              for name in SPAN_SCHEMA)
        for span in trace.spans
    ]  # fmt: skip
    assert found.spans.rows() == exported
    assert (found.tool, found.framework, found.host) == ("mlscope", "pytorch", "gpu-1")
    assert found.epoch_ns == RUN.epoch_ns


def test_what_the_analyzer_found_is_not_imported_as_captured(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(_written(SMALL))
    parents = dict(read_foreign(path).spans.select("span", "parent").rows())
    assert (parents[2], parents[3], parents[5]) == (1, None, None)


def test_children_are_drawn_in_their_parents_and_kernels_on_their_device() -> None:
    events = json.loads(_written(SMALL))["traceEvents"]
    drawn = {each["name"]: each for each in events if each["ph"] == "X"}
    assert drawn["launch"]["ts"] + drawn["launch"]["dur"] == 0.12
    assert drawn["launch"]["args"]["duration_ns"] == 95
    assert (drawn["gemm"]["pid"], drawn["gemm"]["tid"]) == (3, 13)
    arrows = [(each["ph"], each["id"]) for each in events if each.get("cat") == "ac2g"]
    assert arrows == [("s", 7), ("f", 7)]
    (counter,) = [each for each in events if each["ph"] == "C"]
    assert counter["args"] == {"value": 1.5}


def test_streams_of_the_same_number_are_rows_of_their_devices() -> None:
    events = json.loads(_written(ON_TWO_DEVICES))["traceEvents"]
    rows = [(each["pid"], each["tid"]) for each in events if each["ph"] == "X"]
    assert rows == [(2, 7), (3, 7)]


def _query(number: int, start_ns: int, duration_ns: int) -> SpanRow:
    return SMALL.spans[0]._replace(
        span=number, parent=None, start_ns=start_ns, duration_ns=duration_ns, name=f"q{number}"
    )


def test_queries_that_overlap_are_drawn_on_rows_of_their_own() -> None:
    queries = [_query(1, 0, 50), _query(2, 10, 60), _query(3, 20, 20), _query(4, 80, 10)]
    events = json.loads(_written(replace(SMALL, spans=queries)))["traceEvents"]
    tids = {each["name"]: each["tid"] for each in events if each["ph"] == "X"}
    thread = queries[0].thread
    assert (tids["q1"], tids["q3"], tids["q4"]) == (thread, thread, thread)
    assert tids["q2"] != thread
    called = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert called == {thread: f"thread {thread}", tids["q2"]: f"thread {thread} (1)"}


@settings(deadline=None, max_examples=examples(60))
@given(trace=TRACES)
def test_slices_of_a_row_nest_or_follow_one_another(trace: Trace) -> None:
    events = json.loads(_written(trace))["traceEvents"]
    named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    opened: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in events:
        if each["ph"] == "X" and each["args"]["kind"] != SpanKind.SAMPLE:
            row = (each["pid"], each["tid"])
            begin = round(each["ts"] * 1000)
            end = begin + round(each["dur"] * 1000)
            ends = opened[row]
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)
            assert row in named
