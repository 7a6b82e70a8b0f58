"""Traces for tests of the timeline: what the server would answer, made of arithmetic."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
from playwright.async_api import Page, Route

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import encode_body
from schemas.subjects import command_subject
from schemas.trace import ShowTrace, ShowWindow, TraceOverview, TraceWindow
from tests.stories import E

_LAYERS = ("conv", "batchnorm", "relu", "conv", "add", "maxpool", "gemm", "softmax")
_HOST, _LAUNCH, _KERNEL, _SAMPLE = 0, 1, 2, 6
LANES: tuple[tuple[str, str, str, str, dict[str, int]], ...] = (
    ("load/query", "load", "query", "queries", {}),
    ("host/model/1", "host", "model", "model · thread 1", {"thread": 1}),
    ("host/layer/1", "host", "layer", "layer · thread 1", {"thread": 1}),
    ("host/system/1", "host", "system", "system · thread 1", {"thread": 1}),
    ("device/0/7", "device", "kernel", "device 0 · stream 7", {"device": 0, "stream": 7}),
    ("counter/power/0", "counter", "W", "power", {"device": 0}),
)
_TYPES = {
    "lane": pl.UInt16,
    "depth": pl.UInt8,
    "start": pl.Float64,
    "duration": pl.Float64,
    "name": pl.String,
    "id": pl.Int64,
    "parent": pl.Int64,
    "query": pl.Int32,
    "kind": pl.UInt8,
    "correlation": pl.Int64,
    "count": pl.UInt32,
    "busy": pl.Float32,
    "value": pl.Float64,
}


@dataclass
class Trace:
    """Spans in the order of time, and the lanes that they are drawn in."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0

    def add(
        self, lane: int, name: str, start: float, duration: float, parent: int = -1, **rest: Any
    ) -> int:
        """Add a span and return its id; `rest` are further columns."""
        span = len(self.rows) + 1
        values: dict[str, Any] = {
            "depth": 0,
            "query": -1,
            "kind": _HOST,
            "correlation": -1,
            "count": 1,
        }
        values |= {"busy": 1.0, "value": 0.0, **rest}
        named: dict[str, Any] = {"lane": lane, "start": start, "duration": duration, "name": name}
        row = values | named | {"id": span, "parent": parent}
        self.rows.append(tuple(row[column] for column in _TYPES))
        return span

    @property
    def frame(self) -> pl.DataFrame:
        """The columns of the spans."""
        return pl.DataFrame(self.rows, schema=_TYPES, orient="row")

    def arrow(self) -> bytes:
        """Return the spans as an Arrow stream."""
        frame = self.frame
        names = frame["name"].unique(maintain_order=True)
        stream = io.BytesIO()
        frame.with_columns(name=pl.col("name").cast(pl.Enum(names))).write_ipc_stream(stream)
        return stream.getvalue()

    def overview(self) -> dict[str, Any]:
        """Return lanes, range and counts as JSON."""
        frame = self.frame
        end = 0.0 if frame.is_empty() else float((frame["start"] + frame["duration"]).max())  # type: ignore[arg-type]
        sizes = dict(frame.group_by("lane").len().iter_rows())
        deepest = dict(frame.group_by("lane").agg(pl.col("depth").max()).iter_rows())
        lanes = [
            {"lane": number, "key": key, "group": group, "level": level, "title": title}
            | place
            | {"depth_max": deepest[number], "spans": sizes[number]}
            for number, (key, group, level, title, place) in enumerate(LANES)
            if number in sizes
        ]
        counts = {"spans": len(self.rows), "dropped": self.dropped, "unread": 0}
        return {"range_ns": [0, math.ceil(end)], "lanes": lanes, "gaps": self.gaps, **counts}


def add_query(trace: Trace, query: int, start: float, layers: int = 24) -> float:
    """Add a query with all its levels to a `trace` and return when it ends.

    It is number `query`, starts at `start` ns, and has `layers` layers of a kernel each.
    """
    layer_ns = 40_000.0 * (1 + 0.2 * (query % 5))
    predict_ns = layers * layer_ns * 1.02
    trace.add(0, f"query {query}", start, 120_000 + predict_ns, query=query)
    trace.add(1, "preprocess", start + 20_000, 60_000, query=query)
    predict = trace.add(1, "predict", start + 90_000, predict_ns, query=query)
    for number in range(layers):
        at = start + 90_000 + number * layer_ns * 1.02
        kind = _LAYERS[number % len(_LAYERS)]
        share = (0.4, 0.95, 0.6)[number % 3]
        length = layer_ns * share
        layer = trace.add(2, f"{kind}_{number}", at, length, predict, query=query)
        inner = trace.add(
            2, f"{kind}_kernel_call", at + 2_000, length / 2, layer, depth=1, query=query
        )
        link = query * 1000 + number
        trace.add(3, "cudaLaunchKernel", at + 3_000, 4_000, inner, kind=_LAUNCH, correlation=link)
        kernel = f"void cudnn::{kind}_implicit_gemm_128x64<float>"
        trace.add(
            4, kernel, at + 9_000, length * 0.7, layer, kind=_KERNEL, correlation=link, query=query
        )
    return start + 120_000 + predict_ns


def inference(queries: int = 40, layers: int = 24) -> Trace:
    """Return a run of so many `queries` of `layers` layers, traced down to the kernel."""
    trace = Trace()
    end = 0.0
    for query in range(queries):
        end = add_query(trace, query, end + 50_000, layers)
    samples = int(end // 1_000_000) + 1
    for sample in range(samples):
        watts = 60 + 30 * (sample % 7)
        trace.add(5, "power", sample * 1e6, 0, kind=_SAMPLE, value=float(watts))
    return trace


async def answer_over(bus: Bus, trace: Trace) -> None:
    """Answer over a `bus` what is asked of the analyzer, with a `trace` of run r0."""
    stream = trace.arrow()
    whose = {"evaluation": E, "run": "r0"}
    overview = TraceOverview.model_validate({**trace.overview(), **whose, "attempt": 1})
    counts = {"spans": len(trace.rows), "rows": len(trace.rows), "min_ns": 0, "offset": 0}
    window = TraceWindow(**whose, **counts, total_bytes=len(stream), digest="0" * 16, part=stream)

    async def lanes(asked: ReceivedCommand) -> bytes:
        return encode_body(overview)

    async def spans(asked: ReceivedCommand) -> bytes:
        return encode_body(window)

    await bus.answer(command_subject(ShowTrace), lanes, queue="analyzer")
    await bus.answer(command_subject(ShowWindow), spans, queue="analyzer")


async def serve(page: Page, trace: Trace, details: dict[str, Any] | None = None) -> None:
    """Answer what a `page` asks of the trace's server; `details` go with each span."""

    async def answer(route: Route) -> None:
        path = route.request.url.partition("?")[0]
        if path.endswith("/trace"):
            await route.fulfill(body=json.dumps(trace.overview()), content_type="application/json")
        elif path.endswith("/spans"):
            await route.fulfill(
                body=trace.arrow(), content_type="application/vnd.apache.arrow.stream"
            )
        else:
            await route.fulfill(body=json.dumps(details or {}), content_type="application/json")

    await page.route("**/api/evaluations/*/runs/**", answer)


async def serve_json(page: Page, traces: Mapping[str, Trace]) -> None:
    """Answer what a `page` asks for as JSON of `traces`, by evaluation: run r0."""

    async def answer(route: Route) -> None:
        evaluation = route.request.url.partition("/api/evaluations/")[2].partition("/")[0]
        trace = traces[evaluation]
        if "/spans?" in route.request.url:
            asked = parse_qs(urlsplit(route.request.url).query)
            lanes = [int(lane) for lane in asked["lane"][0].split(",")]
            frame = trace.frame.filter(pl.col("lane").is_in(lanes))
            await route.fulfill(json={"columns": frame.to_dict(as_series=False)})
        else:
            await route.fulfill(json={**trace.overview(), "run": "r0"})

    await page.route("**/api/evaluations/*/trace", answer)
    await page.route("**/api/evaluations/*/runs/**", answer)


def recursion(levels: int = 10) -> Trace:
    """Return calls of so many `levels` inside each other, some with unusual names."""
    trace = Trace()
    parent = -1
    for level in range(levels):
        name = (
            ("n" * 10_000, "畳み込み層 · свёртка · التفاف")[level] if level < 2 else f"call {level}"
        )
        start, length = level * 1e4, 1e6 - level * 2e4
        parent = trace.add(2, name, start, length, parent, depth=level)
    return trace
