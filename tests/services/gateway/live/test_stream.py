"""Live events over a real server: nothing lost, nothing twice, the slow told what they missed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer
from services.gateway.live.events import Event, Tick
from services.gateway.live.feeds import Feeds
from services.gateway.live.stream import live_events
from services.gateway.live.viewer import Viewer
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, queries, spans, whole_story

Seen = tuple[str, int, dict[str, object]]


def parsed(block: str) -> Seen | None:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    if "event" not in fields:
        return None
    return fields["event"], int(fields.get("id", 0)), json.loads(fields["data"])


@asynccontextmanager
async def opened(
    running: Running, last_id: int | None = None
) -> AsyncIterator[AsyncIterator[Seen]]:
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    async with (
        httpx.AsyncClient(base_url=running.url, timeout=30) as web,
        web.stream("GET", f"/api/evaluations/{E}/events", headers=headers) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[Seen]:
    text = ""
    async for chunk in response.aiter_text():
        text += chunk
        *blocks, text = text.split("\n\n")
        for block in blocks:
            if event := parsed(block):
                yield event


async def all_of(running: Running, last_id: int | None = None) -> list[Seen]:
    async with opened(running, last_id) as events:
        return [event async for event in events]


async def test_the_story_comes_in_order_and_ends(running: Running, standing: StandIns) -> None:
    story = whole_story()
    await standing.tell(*story)
    events = await all_of(running)
    assert [each[2].get("happened") for each in events[:-1]] == [f.schema_name() for f in story]
    assert [each[1] for each in events[:-1]] == sorted({each[1] for each in events[:-1]})
    assert events[-1][0] == "end"
    assert events[-1][2] == {"state": "analyzed"}


async def test_resuming_anywhere_loses_and_repeats_nothing(
    running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    whole = [each[1] for each in await all_of(running) if each[1]]
    for place, last_id in enumerate(whole):
        resumed = [each[1] for each in await all_of(running, last_id) if each[1]]
        assert resumed == whole[place + 1 :]


async def test_what_happens_is_told_while_it_happens(running: Running, standing: StandIns) -> None:
    await standing.tell(*beginning())
    async with opened(running) as events:
        happened = [(await anext(events))[2]["happened"] for _ in range(2)]
        assert happened == ["evaluation.requested", "evaluation.planned"]
        await standing.tell(queries([5_000_000] * 100), spans(300))
        name, sequence, progress = await anext(events)
        assert (name, sequence) == ("progress", 0)
        assert (progress["answered"], progress["spans"]) == ([100], [300])
        assert abs(progress["p50_ns"][0] / 5e6 - 1) < 0.05  # type: ignore[index]
        await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
        rest = [each async for each in events]
    states = [each[2]["state"] for each in rest if each[0] != "progress"]
    assert list(dict.fromkeys(states)) == ["running", "measured", "analyzed"]
    assert rest[-1][0] == "end"


async def test_a_batch_heard_twice_counts_once(running: Running, standing: StandIns) -> None:
    await standing.tell(*beginning())
    async with opened(running) as events:
        await anext(events)
        for _ in range(2):
            await standing.tell(queries([1000] * 10, sequence=3))
        await standing.tell(queries([1000] * 10, sequence=4))
        answered = 0
        while answered != 20:
            name, _, told = await anext(events)
            answered = told["answered"][0] if name == "progress" else 0  # type: ignore[index]
            assert answered <= 20


def test_a_slow_viewer_loses_progress_only_and_is_told() -> None:
    story = [Event("state", "{}", sequence) for sequence in range(1, 200)]
    viewer = Viewer(story, after=0, limit=10)
    for number in range(1, 31):
        viewer.push(Tick(number, json.dumps({"tick": number})))
    events = viewer.take()
    assert [event.sequence for event in events[:199]] == list(range(1, 200))
    assert events[199] == Event("gap", '{"from":1,"to":20}')
    assert [json.loads(event.data)["tick"] for event in events[200:]] == list(range(21, 31))
    assert viewer.take() == []


async def test_a_slow_client_holds_nobody_up(bus: Bus, standing: StandIns) -> None:
    feeds = Feeds(bus, limit=8)
    await standing.tell(*beginning())
    slow = live_events(feeds, E, after=0)
    await anext(slow)
    quick = [event async for event in _while(standing, live_events(feeds, E, after=0))]
    assert any(b"event: end" in event for event in quick)
    late = [event async for event in slow]
    told = [event for event in late if b"id: " in event]
    assert len(told) == len([event for event in quick if b"id: " in event])
    assert b"event: end" in late[-1]
    assert feeds.viewers == 0


async def _while(standing: StandIns, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield await anext(events)
    await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
    async for event in events:
        yield event


async def test_an_idle_stream_pings(bus: Bus, standing: StandIns) -> None:
    await standing.tell(*beginning())
    events = live_events(Feeds(bus, limit=1), E, after=0, ping_s=0.05)
    seen = [await anext(events) for _ in range(4)]
    assert seen[-1] == b'event: ping\ndata: {"trouble": ""}\n\n'
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_stream_without_a_broker_says_so_at_once_and_when_it_is_back(
    server: MemoryServer, bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    events = live_events(Feeds(bus, limit=1), E, after=0, ping_s=60)
    assert b"event: state" in [await anext(events) for _ in range(2)][-1]
    server.stop()
    async with asyncio.timeout(10):
        assert b'"trouble": "The message broker does not answer' in await anext(events)
        server.start()
        assert b'"trouble": ""' in await anext(events)
    await events.aclose()  # type: ignore[attr-defined]


async def test_streams_are_bounded(running: Running, standing: StandIns) -> None:
    await standing.tell(*beginning())
    async with httpx.AsyncClient(base_url=running.url) as web:
        path = f"/api/evaluations/{E}/events"
        streams = [web.stream("GET", path) for _ in range(4)]
        responses = [await stream.__aenter__() for stream in streams]
        for response in responses:
            await anext(response.aiter_bytes())
        assert (await web.get(path)).status_code == 503
        for stream in streams:
            await stream.__aexit__(None, None, None)


async def test_stopping_ends_open_streams(running: Running, standing: StandIns) -> None:
    await standing.tell(*beginning())
    async with opened(running) as events:
        await anext(events)
        running.stop.set()
        async with asyncio.timeout(60):
            with suppress(httpx.RemoteProtocolError):
                rest = [each[0] async for each in events]
                assert "end" not in rest
            await running.serving
