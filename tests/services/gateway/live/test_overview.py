"""The stream of all evaluations: what changed, progress, and nothing that piles up."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer
from schemas.encoding.codec import encode_body
from schemas.message import Command, Message
from schemas.people import Asker
from schemas.request import ListEvaluations, ShowCatalog
from schemas.status import Catalog, EvaluationList
from schemas.subjects import asked_subject
from services.gateway.errors import TooManyViewers
from services.gateway.live.events import Event
from services.gateway.live.feeds import Feeds
from services.gateway.live.overview import OverviewViewer
from services.gateway.live.stream import overview_events
from services.gateway.routes import build_app
from tests.stand_ins import StandIns, stand_ins
from tests.stories import E, a_run, beginning, ending, queries


async def following(events: AsyncIterator[bytes], name: str) -> tuple[str, dict[str, object]]:
    """Return id and data of the next event called `name`."""
    async for block in events:
        lines = dict(line.split(": ", 1) for line in block.decode().splitlines() if ": " in line)
        if lines.get("event") == name:
            return lines.get("id", ""), json.loads(lines["data"])
    raise AssertionError(f"the stream ended without {name}")


async def test_a_page_is_told_when_it_is_another_one_and_the_progress(
    bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    events = overview_events(Feeds(bus, limit=1), digest="")
    first, data = await following(events, "changed")
    assert data == {"digest": first}
    started, *rest = a_run("r0")
    await standing.tell(started, queries([5_000_000] * 40))
    second, _ = await following(events, "changed")
    assert second != first
    await standing.tell(queries([5_000_000] * 10, sequence=1))
    _, progress = await following(events, "progress")
    assert (progress["evaluation"], progress["run"]) == ([E], ["r0"])
    assert progress["answered"] in ([40], [50])
    await standing.tell(*rest, *a_run("r1"), *ending())
    third, _ = await following(events, "changed")
    assert third not in (first, second)
    await events.aclose()  # type: ignore[attr-defined]


async def test_made_up_runs_and_batches_that_cannot_be_read_change_nothing(
    bus: Bus, standing: StandIns
) -> None:
    feeds = Feeds(bus, limit=1)
    await standing.tell(*beginning())
    events = overview_events(feeds, digest="")
    await following(events, "changed")
    good = queries([5_000_000] * 40)
    strange = [
        good.model_copy(update={"status": b""}),
        good.model_copy(update={"sequence": 2, "agent": "stranger"}),
        *(good.model_copy(update={"run": f"made-up-{number}"}) for number in range(3)),
    ]
    await standing.tell(*strange, good.model_copy(update={"sequence": 1}))
    _, progress = await following(events, "progress")
    assert (progress["run"], progress["answered"]) == (["r0"], [40])
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_person_is_told_of_what_that_person_may_see(bus: Bus, standing: StandIns) -> None:
    """The scheduler shows nothing of it to Bob; the stream has no trace of it either."""
    bob = Asker("bob", "viewer")
    answers: dict[type[Command], Message] = {
        ListEvaluations: EvaluationList(evaluations=(), total=0),
        ShowCatalog: Catalog(),
    }
    for command, answer in answers.items():

        async def shown(_: ReceivedCommand, body: bytes = encode_body(answer)) -> bytes:
            return body

        await bus.answer(asked_subject(bob, command.verb), shown, queue=None)
    feeds = Feeds(bus, limit=2)
    of_bob = overview_events(feeds, digest="", ping_s=0.01, asker=bob)
    digest, _ = await following(of_bob, "changed")
    of_owner = overview_events(feeds, digest="")
    await standing.tell(*beginning())
    await following(of_owner, "changed")
    started, *_ = a_run("r0")
    await standing.tell(started, queries([5_000_000] * 40))
    _, progress = await following(of_owner, "progress")
    assert progress["evaluation"] == [E]
    for _ in range(100):
        block = (await anext(of_bob)).decode()
        assert E not in block
        assert block.startswith("event: ping")
    assert feeds.viewers == 2
    for events in (of_bob, of_owner):
        await events.aclose()  # type: ignore[attr-defined]
    assert (feeds.viewers, digest != "") == (0, True)


async def test_who_resumes_with_the_page_s_digest_is_told_nothing_old(
    bus: Bus, standing: StandIns
) -> None:
    feeds = Feeds(bus, limit=2)
    watching = overview_events(feeds, digest="")
    digest, _ = await following(watching, "changed")
    same = overview_events(feeds, digest=digest, ping_s=0.01)
    ping = b'event: ping\ndata: {"trouble": ""}\n\n'
    assert [await anext(same), await anext(same)] == [b"retry: 1000\n\n", ping]
    with pytest.raises(TooManyViewers):
        await anext(overview_events(feeds, digest=""))
    await same.aclose()  # type: ignore[attr-defined]
    other = overview_events(feeds, digest="old")
    assert (await following(other, "changed"))[0] == digest
    await other.aclose()  # type: ignore[attr-defined]
    await watching.aclose()  # type: ignore[attr-defined]
    assert feeds.viewers == 0


async def test_without_a_scheduler_it_says_so(bus: Bus) -> None:
    events = overview_events(Feeds(bus, limit=1), digest="")
    _, data = await following(events, "ping")
    assert "no service answers" in str(data["trouble"])
    await events.aclose()  # type: ignore[attr-defined]


async def test_viewers_who_ask_again_at_once_share_one_page(bus: Bus, standing: StandIns) -> None:
    feeds = Feeds(bus, limit=1)
    app = build_app(bus, feeds, most_bytes=1000)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        events = overview_events(feeds, digest="")
        await following(events, "changed")
        first = (await web.get("/")).text
        asked = len(standing.listed)
        for _ in range(20):
            assert (await web.get("/")).text == first
        assert len(standing.listed) == asked
        await standing.tell(*beginning())
        digest, _ = await following(events, "changed")
        assert f'data-digest="{digest}"' in (await web.get("/")).text
        await events.aclose()  # type: ignore[attr-defined]
        assert (await web.get("/")).status_code == 200
        assert len(standing.listed) > asked


async def test_when_the_scheduler_is_back_viewers_are_told(server: MemoryServer, bus: Bus) -> None:
    feeds = Feeds(bus, limit=1)
    events = overview_events(feeds, digest="")
    await following(events, "ping")
    assert feeds.overview is None
    async with stand_ins(server) as standing:
        await standing.tell(*beginning())
        digest, _ = await following(events, "changed")
        assert feeds.overview is not None
        assert feeds.overview.digest == digest
        await events.aclose()


def test_a_slow_viewer_gets_the_newest_of_each_kind() -> None:
    viewer = OverviewViewer()
    for number in range(1000):
        viewer.push(Event("progress", str(number)))
    viewer.push(Event("changed", "x"))
    assert [(event.name, event.data) for event in viewer.take()] == [
        ("progress", "999"),
        ("changed", "x"),
    ]
    assert viewer.take() == []
