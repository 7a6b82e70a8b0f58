"""Timelines from the database over the bus's own messages: lanes, windows in parts, spans."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from io import BytesIO
from typing import Any

import polars as pl
import psycopg
import pytest

from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.tracing.batches import trace_batch
from schemas.encoding.codec import encode_body, unpack
from schemas.message import Command
from schemas.request import Refused
from schemas.trace import ShowSpan, ShowSpans, ShowTrace, ShowWindow
from services.analyzer.answering import timelines
from services.analyzer.answering.timelines import Timelines
from services.analyzer.answering.traces import Traces
from services.collector import store as collector
from services.collector.saving import prepared_of
from tests.services.collector.builders import REQUESTED_NS, an_attempt
from tests.traced import store_traced_run

EPOCH_NS = 2
"""When the run's clock began, by its agent's wall clock."""


@pytest.fixture
async def answering(database_url: str) -> AsyncIterator[Timelines]:
    """Return what answers from a database with a traced run."""
    store_traced_run(database_url)
    with closing(Timelines(database_url)) as answering:
        yield answering


def _command(command: Command, *, json_text: bool = False) -> ReceivedCommand:
    body = encode_body(command, json_text=json_text)
    return ReceivedCommand(
        subject=f"mlscope.v1.request.{command.verb}", body=body, wants_answer=True
    )


async def _window(answering: Timelines, **fields: Any) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    parts: list[dict[str, Any]] = []
    stream = b""
    while not parts or len(stream) < parts[0]["total_bytes"]:
        request = ShowWindow(evaluation="e1", offset=len(stream), **fields)
        parts.append(unpack(await answering.window(_command(request))))
        stream += parts[-1]["part"]
    return pl.read_ipc_stream(BytesIO(stream)), parts


async def test_a_run_has_lanes_a_range_and_gaps(answering: Timelines) -> None:
    trace = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    assert (trace["run"], trace["spans"], trace["unread"]) == ("r0", trace["spans"], 0)
    groups = [lane["group"] for lane in trace["lanes"]]
    assert groups == sorted(groups, key=["load", "host", "device", "counter"].index)
    assert {"load", "host", "device"} <= set(groups)
    assert sum(lane["spans"] for lane in trace["lanes"]) == trace["spans"]
    (gap,) = trace["gaps"]
    assert (gap["lane"], gap["count"]) == (None, 8)
    assert gap["reason"] == "1 batch of spans not stored"


async def test_a_window_comes_in_parts_that_belong_together(
    answering: Timelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, (head,) = await _window(answering)
    assert whole.height == head["rows"] == head["spans"]
    assert whole.filter(pl.col("name") == "predict").height == 10
    monkeypatch.setattr(timelines, "_PART_BYTES", 100)
    again, parts = await _window(answering)
    assert len(parts) > 3
    assert {part["digest"] for part in parts} == {head["digest"]}
    assert again.equals(whole)


async def test_a_span_has_attributes_and_the_call_that_started_it(answering: Timelines) -> None:
    details = unpack(await answering.span(_command(ShowSpan(evaluation="e1", run="r0", span=2))))
    assert (details["span"]["name"], details["attributes"]) == ("gemm", {"device": 1})
    assert details["launched_by"]["name"] == "cudaLaunchKernel"
    launch = unpack(await answering.span(_command(ShowSpan(evaluation="e1", run="r0", span=1))))
    assert [span["id"] for span in launch["launched"]] == [2]


async def test_clients_that_speak_json_get_base64(answering: Timelines) -> None:
    request = ShowWindow(evaluation="e1", columns=("id",))
    answer = unpack(await answering.window(_command(request, json_text=True)))
    assert answer["part"].startswith("_____")


async def test_spans_that_came_later_are_shown(answering: Timelines, database_url: str) -> None:
    first = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    await _window(answering, run="r0")
    late = [(40, -1, 2, 7, 950, 5, 0, 9, 0, b"")]
    with closing(collector.Store(database_url)) as stored:
        batch = trace_batch(an_attempt(), 1, late, {"predict": 7})
        stored.save([prepared_of(batch, REQUESTED_NS)])
    second = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    assert (second["spans"], second["gaps"]) == (first["spans"] + 1, [])
    whole, _ = await _window(answering, run="r0")
    assert 40 in whole["id"].to_list()


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ShowTrace(evaluation="e2"), "evaluation"),
        (ShowTrace(evaluation="e1", run="r9"), "run"),
        (ShowSpan(evaluation="e1", span=999), "span"),
        (ShowWindow(evaluation="e1", run="r9"), "run"),
    ],
)
async def test_what_is_not_there_is_refused(
    answering: Timelines, request_: Command, field: str
) -> None:
    answerers = {
        ShowTrace: answering.trace,
        ShowSpan: answering.span,
        ShowWindow: answering.window,
    }
    refused = Refused(**unpack(await answerers[type(request_)](_command(request_))))
    assert (refused.error, refused.field) == ("unknown", field)


async def test_a_wrong_field_is_named(answering: Timelines) -> None:
    body = encode_body(ShowTrace(evaluation="e1")).replace(b"run", b"rum")
    refused = Refused(
        **unpack(await answering.trace(ReceivedCommand("s", body, wants_answer=True)))
    )
    assert (refused.error, refused.field) == ("malformed", "rum")


async def test_without_tables_the_database_is_away(database_url: str) -> None:
    with closing(Timelines(database_url)) as answering:
        answer = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    assert answer["error"] == "unavailable"
    with psycopg.connect(database_url) as session:
        assert session.execute("SELECT 1").fetchone() == (1,)


async def test_a_run_is_prepared_before_anybody_asks(answering: Timelines) -> None:
    answering.prepare("e1")
    answering.prepare("e2")
    await asyncio.gather(*answering._background)
    assert answering._traces.get(("e1", "r0")) is not None
    assert answering._traces.get(("e2", "")) is None


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run count as long."""
    for module in ("traces.resolutions", "answering.timelines"):
        monkeypatch.setattr(f"services.analyzer.{module}.OUTLINED_FROM", 1)
    monkeypatch.setattr("services.analyzer.traces.resolutions._OUTLINE_PIXELS", 8)


async def _settled(answering: Timelines) -> None:
    while answering._background:
        await asyncio.gather(*answering._background)


async def _overview(answering: Timelines, **fields: Any) -> dict[str, Any]:
    return unpack(await answering.trace(_command(ShowTrace(evaluation="e1", **fields))))


@pytest.mark.usefixtures("long_runs")
async def test_a_kept_timeline_answers_without_the_spans(
    answering: Timelines, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await _overview(answering)
    wide, _ = await _window(answering, min_ns=10**9)
    whole, _ = await _window(answering)
    await _settled(answering)
    with closing(Timelines(database_url)) as again:
        monkeypatch.setattr(again, "_trace_of_spans", None)
        assert await _overview(again) == made
        assert not again._traces.get(("e1", "r0"))[1].is_whole  # type: ignore[index]
        assert (await _window(again, min_ns=10**9))[0].equals(wide)
        assert (await _window(again))[0].equals(whole)
        await _settled(again)


@pytest.mark.usefixtures("long_runs")
async def test_a_timeline_of_another_format_is_made_again(
    answering: Timelines, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await _overview(answering)
    await _settled(answering)
    monkeypatch.setattr("services.analyzer.storage.timelines.FORMAT", 99)
    with closing(Timelines(database_url)) as again:
        first = await _overview(again, waits=False)
        assert (first["prepared_share"], first["lanes"]) == (0.0, [])
        await _settled(again)
        assert await _overview(again, waits=False) == made
    with psycopg.connect(database_url) as session:
        assert session.execute("SELECT format FROM timeline").fetchall() == [(99,)]


@pytest.mark.usefixtures("long_runs")
async def test_old_timelines_are_deleted(answering: Timelines, database_url: str) -> None:
    answering.prepare("e1")
    await _settled(answering)
    held = answering._traces.get(("e1", "r0"))
    assert held is not None
    with psycopg.connect(database_url) as session:
        session.execute("DELETE FROM timeline_part")
        session.execute("UPDATE timeline SET run_key = -1, made_at = '2026-01-01'")
    answering._bulk.keep(*held, most_bytes=1)
    with psycopg.connect(database_url) as session:
        rows = session.execute("SELECT run_key FROM timeline").fetchall()
        assert rows == [(held[0].version[0],)]


@pytest.mark.parametrize(
    ("offset_ns", "bound_ns", "moved_ns", "caveat"),
    [
        (3_600_000_000_000, 200_000, 3_600_000_000_000, "3,600 s behind it, to within 200 µs"),
        (-5_000_000, 1_000_000, -5_000_000, "5 ms ahead of it, to within 1 ms"),
        (200_000, 100_000, 200_000, ""),
        (900_000, 1_000_000, 0, ""),
    ],
)
async def test_times_of_day_are_the_clusters_where_clocks_are_known_to_differ(
    database_url: str, offset_ns: int, bound_ns: int, moved_ns: int, caveat: str
) -> None:
    store_traced_run(database_url, clock_offset_ns=offset_ns, clock_bound_ns=bound_ns)
    with closing(Timelines(database_url)) as answering:
        trace = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    assert trace["origin_epoch_ns"] == EPOCH_NS + moved_ns
    assert (trace["clock_offset_ns"], trace["clock_bound_ns"]) == (offset_ns, bound_ns)
    assert [note for note in trace["caveats"] if "times of day" in note] == (
        [f"times of day are the cluster's: the agent's clock was {caveat}"] if caveat else []
    )
    async with connect(MemoryServer(), "analyzer") as bus:
        with closing(Traces(bus, database_url)) as traces:
            (run,) = traces.read(ShowSpans(evaluation="e1")).runs
    assert (run.epoch_ns, run.clock_bound_ns) == (EPOCH_NS + moved_ns, bound_ns)


async def test_without_a_measured_offset_times_of_day_are_the_agents(answering: Timelines) -> None:
    trace = unpack(await answering.trace(_command(ShowTrace(evaluation="e1"))))
    assert (trace["origin_epoch_ns"], trace["clock_bound_ns"]) == (EPOCH_NS, None)
