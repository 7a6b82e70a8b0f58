"""A stored trace over HTTP: lanes, windows as Arrow and JSON, one span, counters, downloads."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import closing
from io import BytesIO

import httpx
import polars as pl
import pytest

from mlscope.bus.bus import Bus
from mlscope.exchange.formats import SPAN_FORMATS
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.subjects import command_subject
from schemas.trace import SPAN_COLUMNS, ShowSpan, ShowSpans, ShowTrace, ShowWindow
from services.analyzer.answering.timelines import Timelines
from services.analyzer.answering.traces import Traces
from tests.services.gateway.conftest import web_over
from tests.traced import store_traced_run

_RUN = "/api/evaluations/e1/runs/r0"


@pytest.fixture
async def traced(bus: Bus, server: MemoryServer, database_url: str) -> AsyncIterator[Bus]:
    """Lend a gateway's bus on which the analyzer's own answerers answer."""
    store_traced_run(database_url)
    async with connect(server, "analyzer") as own:
        with (
            closing(Timelines(database_url)) as timelines,
            closing(Traces(own, database_url)) as traces,
        ):
            for command, answerer in (
                (ShowTrace, timelines.trace),
                (ShowWindow, timelines.window),
                (ShowSpan, timelines.span),
                (ShowSpans, traces.spans),
            ):
                await own.answer(command_subject(command), answerer, queue="analyzer")
            yield bus


@pytest.fixture
async def traces(traced: Bus) -> AsyncIterator[httpx.AsyncClient]:
    """Lend a client of a gateway with a traced run."""
    async with web_over(traced) as web:
        yield web


async def test_a_run_has_lanes(traces: httpx.AsyncClient) -> None:
    overview = (await traces.get(f"{_RUN}/trace")).json()
    assert overview["run"] == "r0"
    assert {"load", "host", "device"} <= {lane["group"] for lane in overview["lanes"]}
    assert (await traces.get("/api/evaluations/e1/trace")).json() == overview
    assert (await traces.get(f"{_RUN}/trace?waits=no")).json() == overview
    assert (await traces.get(f"{_RUN}/trace?waits=maybe")).json()["field"] == "waits"


async def test_spans_come_as_an_arrow_stream(traces: httpx.AsyncClient) -> None:
    answer = await traces.get(f"{_RUN}/spans", headers={"Accept-Encoding": "identity"})
    spans = pl.read_ipc_stream(BytesIO(answer.content))
    assert spans.columns == list(SPAN_COLUMNS)
    assert isinstance(spans.schema["name"], pl.Enum)
    assert str(spans.height) == answer.headers["Mlscope-Rows"] == answer.headers["Mlscope-Spans"]
    assert answer.headers["Content-Encoding"] == "identity"


async def test_a_distant_client_gets_gzip_once(traced: Bus) -> None:
    async with web_over(traced) as web:
        web._transport.client = ("192.0.2.7", 50_000)  # type: ignore[attr-defined]
        async with web.stream("GET", f"{_RUN}/spans") as answer:
            body = b"".join([part async for part in answer.aiter_raw()])
    assert answer.headers["Content-Encoding"] == "gzip"
    assert pl.read_ipc_stream(BytesIO(gzip.decompress(body))).height > 0


async def test_a_window_has_only_what_is_asked_for(traces: httpx.AsyncClient) -> None:
    parameters = {"t0": "150.5", "t1": "450", "format": "json", "columns": "name,start,id,count"}
    window = (await traces.get(f"{_RUN}/spans", params=parameters)).json()
    columns = window["columns"]
    assert list(columns) == ["start", "name", "id", "count"]
    starts = [
        start
        for start, name in zip(columns["start"], columns["name"], strict=True)
        if name == "predict"
    ]
    assert starts == [200, 300, 400]


async def test_tiles_count_the_spans_they_stand_for(traces: httpx.AsyncClient) -> None:
    tiles = (
        await traces.get(f"{_RUN}/spans", params={"format": "json", "min_ns": "100000"})
    ).json()
    assert tiles["rows"] < tiles["spans"] == sum(tiles["columns"]["count"])


async def test_spans_of_the_lanes_asked_for_come_alone(traces: httpx.AsyncClient) -> None:
    lanes = (await traces.get(f"{_RUN}/spans", params={"format": "json", "lane": "0,1"})).json()
    assert set(lanes["columns"]["lane"]) == {0, 1}


@pytest.mark.parametrize(
    ("query", "field", "expected"),
    [
        ("t0=soon", "t0", "a number"),
        ("t1=nan", "t1", "a number"),
        ("colums=name", "colums", "t0, t1, lane"),
        ("columns=nam", "columns", "lane, depth"),
        ("format=csv", "format", "arrow, json"),
        ("limit=0", "limit", ""),
        ("limit=3000000", "limit", ""),
        ("lane=-1", "lane", ""),
        ("min_ns=-5", "min_ns", ""),
    ],
)
async def test_a_wrong_parameter_is_named(
    traces: httpx.AsyncClient, query: str, field: str, expected: str
) -> None:
    answer = await traces.get(f"{_RUN}/spans?{query}")
    refused = answer.json()
    assert (answer.status_code, refused["error"]) == (400, "malformed")
    assert refused["field"].startswith(field)
    assert expected in refused["allowed"]


async def test_one_span_has_its_kin(traces: httpx.AsyncClient) -> None:
    span = (await traces.get(f"{_RUN}/spans/2")).json()
    assert (span["span"]["name"], span["launched_by"]["id"]) == ("gemm", 1)
    assert (await traces.get(f"{_RUN}/spans/999")).status_code == 404
    assert (await traces.get(f"{_RUN}/spans/x")).json()["field"] == "span"
    assert (await traces.get("/api/evaluations/e1/runs/r.0/trace")).json()["field"] == "run"
    assert (await traces.get("/api/evaluations/e1/runs/r9/trace")).status_code == 404


async def test_counters_are_series(traces: httpx.AsyncClient) -> None:
    answer = (await traces.get(f"{_RUN}/series")).json()
    assert (answer["run"], answer["series"]) == ("r0", [])


@pytest.mark.parametrize("form", SPAN_FORMATS)
async def test_every_export_of_spans_is_a_download(traces: httpx.AsyncClient, form: str) -> None:
    answer = await traces.get(f"{_RUN}/exports/{form}")
    assert answer.status_code == 200
    named = SPAN_FORMATS[form]
    assert f'filename="e1-r0.{named.suffix}"' in answer.headers["Content-Disposition"]
    assert answer.headers["Content-Type"].startswith(named.media_type)
    assert answer.headers["Mlscope-Left-Out"] == "8"
    assert b"gemm" in answer.content or form == "parquet"
    if named.media_type == "application/json":
        json.loads(answer.content)


@pytest.mark.parametrize("path", ["exports/perfetto", "spans?format=json"])
async def test_what_takes_much_memory_waits_for_its_turn(
    traced: Bus, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("services.gateway.access.turns.MOST_WAITING", 0)
    async with web_over(traced) as web:
        refused = await web.get(f"{_RUN}/{path}")
    assert (refused.status_code, refused.json()["error"]) == (503, "busy")


async def test_an_unknown_export_lists_what_there_is(traces: httpx.AsyncClient) -> None:
    refused = (await traces.get(f"{_RUN}/exports/svg")).json()
    assert (refused["field"], refused["allowed"]) == ("format", ", ".join(SPAN_FORMATS))
