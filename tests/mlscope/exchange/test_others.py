"""speedscope, OTLP, Parquet and folded stacks: what they say of one small trace, and of any."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

import polars as pl
from hypothesis import given, settings

from mlscope.exchange import folded, otlp, parquet, speedscope
from mlscope.exchange.traces import DEVICES, Trace
from schemas.batch import SpanKind
from tests.mlscope.exchange.traces import ON_TWO_DEVICES, RUN, SMALL, TRACES
from tests.thoroughness import examples


def _written(write: Callable[[Trace, IO[bytes]], None], trace: Trace) -> bytes:
    file = BytesIO()
    write(trace, file)
    return file.getvalue()


def test_folded_stacks_hold_time_spent_in_a_span_and_in_none_below() -> None:
    lines = _written(folded.write, SMALL).decode().splitlines()
    assert lines == [
        "device;query;predict;conv,1;gemm 300",
        "host;query 100",
        "host;query;predict 800",
        "host;query;predict;conv,1 5",
        "host;query;predict;conv,1;launch 95",
    ]


def test_otlp_has_a_trace_a_query_and_links_kernels_to_launches() -> None:
    told = json.loads(_written(otlp.write, SMALL))
    (resource,) = told["resourceSpans"]
    spans = {each["name"]: each for each in resource["scopeSpans"][0]["spans"]}
    assert spans["predict"]["parentSpanId"] == spans["query"]["spanId"]
    assert spans["gemm"]["traceId"] == spans["query"]["traceId"] != spans["here"]["traceId"]
    assert spans["gemm"]["links"][0]["spanId"] == spans["launch"]["spanId"]
    assert spans["query"]["startTimeUnixNano"] == str(RUN.epoch_ns)
    assert int(spans["query"]["endTimeUnixNano"]) == RUN.epoch_ns + 1000
    assert all(len(s["traceId"]) == 32 and len(s["spanId"]) == 16 for s in spans.values())
    assert "nvml.power" not in spans


def test_a_trace_of_a_query_is_bounded_by_its_deepest_spans(monkeypatch: Any) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS_PER_TRACE", 3)
    told = json.loads(_written(otlp.write, SMALL))
    names = [s["name"] for s in told["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert names == ["query", "predict", "here", "conv;1"]


def test_parquet_holds_every_column() -> None:
    body = _written(parquet.write, SMALL)
    assert pl.read_parquet(BytesIO(body)).rows() == [tuple(span) for span in SMALL.spans]
    assert json.loads(pl.read_parquet_metadata(BytesIO(body))["run"])["run"] == RUN.run


def test_speedscopes_profiles_are_of_threads_and_of_each_devices_streams() -> None:
    names = [
        profile["name"]
        for trace in (SMALL, ON_TWO_DEVICES)
        for profile in json.loads(_written(speedscope.write, trace))["profiles"]
    ]
    assert names == ["host 1", "device 1 stream 13", "device 0 stream 7", "device 1 stream 7"]


@settings(deadline=None, max_examples=examples(60))
@given(trace=TRACES)
def test_speedscopes_profiles_open_and_close_frames_in_order(trace: Trace) -> None:
    told = json.loads(_written(speedscope.write, trace))
    opened = 0
    for profile in told["profiles"]:
        stack: list[int] = []
        times = [profile["startValue"], *(e["at"] for e in profile["events"]), profile["endValue"]]
        assert times == sorted(times)
        for event in profile["events"]:
            if event["type"] == "O":
                stack.append(event["frame"])
                opened += 1
            else:
                assert stack.pop() == event["frame"]
        assert not stack
    assert opened == sum(span.kind != SpanKind.SAMPLE for span in trace.spans)


@settings(deadline=None, max_examples=examples(60))
@given(trace=TRACES)
def test_folded_device_time_is_that_of_device_spans(trace: Trace) -> None:
    lines = _written(folded.write, trace).decode().split("\n")
    device = sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("device;"))
    assert device == sum(span.duration_ns for span in trace.spans if span.kind in DEVICES)
