"""Feeds: one an evaluation however many look, gone with the last of them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from mlscope.bus.bus import Bus
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body
from schemas.evaluation import EvaluationCancelled
from schemas.live.resources import ResourcesUsed
from schemas.message import Fact
from schemas.people import THE_USER, Asker
from schemas.subjects import resources_subject
from services.gateway.errors import TooManyViewers
from services.gateway.live import feeds as feeds_module
from services.gateway.live.feeds import Feeds
from services.gateway.live.viewer import Viewer
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, queries, whole_story


async def until(viewer: Viewer, holds: Callable[[], bool]) -> None:
    """Wait until something holds of a viewer's feed, 30 s at most."""
    async with asyncio.timeout(30):
        while not holds():
            await viewer.wait(1.0)


async def test_viewers_of_an_evaluation_share_its_feed(bus: Bus, standing: StandIns) -> None:
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (one, _), feeds.viewing(E, after=0) as (other, _):
        assert one is other
        async with feeds.viewing("other", after=0) as (third, _):
            assert third is not one
            assert feeds.viewers == 3
    assert feeds.viewers == 0


async def test_the_last_to_leave_ends_the_feed(bus: Bus, standing: StandIns) -> None:
    feeds, before = Feeds(bus, limit=8), asyncio.all_tasks()
    async with feeds.viewing(E, after=0) as (one, _):
        pass
    assert asyncio.all_tasks() <= before
    async with feeds.viewing(E, after=0) as (again, _):
        assert again is not one


async def test_a_full_house_refuses_the_next(bus: Bus, standing: StandIns) -> None:
    feeds = Feeds(bus, limit=1)
    async with feeds.viewing(E, after=0):
        with pytest.raises(TooManyViewers, match="1 live streams"):
            feeds.check_limit()
    feeds.check_limit()
    feeds.close()
    with pytest.raises(TooManyViewers):
        feeds.check_limit()


async def test_one_person_leaves_streams_for_others(bus: Bus, standing: StandIns) -> None:
    feeds, eve, ada = Feeds(bus, limit=4), Asker("eve", "viewer"), Asker("ada", "viewer")
    async with feeds.viewing(E, after=0, asker=eve), feeds.viewing_overview(digest="", asker=eve):
        with pytest.raises(TooManyViewers):
            feeds.check_limit(eve)
        for asker in (ada, THE_USER):
            feeds.check_limit(asker)
    feeds.check_limit(eve)


async def test_a_feed_ends_with_its_story(bus: Bus, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.is_over)
        sequences = [event.sequence for event in feed.story]
        assert len(sequences) == len(whole_story())
        assert sequences == sorted(set(sequences))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(a_run("r0"), (), id="whole run"),
        pytest.param(a_run("r0")[:1], a_run("r0")[2:], id="cut off"),
    ],
)
async def test_a_feed_of_a_cancelled_evaluation_ends_with_the_tables(
    bus: Bus, standing: StandIns, before: Sequence[Fact], after: Sequence[Fact]
) -> None:
    await standing.tell(*beginning(), *before)
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.scene.caught_up)
        await standing.tell(EvaluationCancelled(evaluation=E, reason="enough"))
        await until(viewer, lambda: feed.scene.status.state == "cancelled")
        assert not feed.is_over
        await standing.tell(*after, *ending(runs=1))
        await until(viewer, lambda: feed.is_over)
    assert feed.scene.status.tables == ("latency",)


async def test_a_feed_waits_until_a_silent_agent_is_given_up(
    bus: Bus, standing: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def skip(skipped_s: float) -> None:
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + skipped_s)
        monkeypatch.setattr("services.gateway.live.feeds.time", clock)

    await standing.tell(*beginning(), a_run("r0")[0])
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.scene.caught_up)
        await standing.tell(EvaluationCancelled(evaluation=E, reason="enough"))
        await until(viewer, lambda: feed.scene.status.state == "cancelled")
        skip(Settings.read({}).batch_deadline_s)
        assert not feed.is_over
        skip(3600)
        assert feed.is_over


async def test_a_feed_that_begins_after_the_cancellation_is_over_at_once(
    bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning(), *a_run("r0"), EvaluationCancelled(evaluation=E, reason=""))
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.scene.caught_up)
        assert feed.is_over


async def test_what_a_run_uses_comes_with_its_progress(
    bus: Bus, server: MemoryServer, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    fields = {"evaluation": E, "run": "r0", "attempt": 1}
    used = ResourcesUsed(**fields, agent="a1", cpu_cores=1.5, power_w=99)
    forged = used.model_copy(update={"cpu_cores": 9.0})
    feeds = Feeds(bus, limit=8)
    async with (
        connect(server, "agent") as agent,
        feeds.viewing(E, after=0) as (feed, _),
        asyncio.timeout(30),
    ):
        await asyncio.sleep(0.2)
        await agent.publish(queries([5, 7]), id="q0")
        while (tick := feed.progress()) is None or '"cpu_cores":[1.5]' not in tick.data:
            other = resources_subject(forged.model_copy(update={"agent": "a2"}))
            await agent.publish_live(resources_subject(used), encode_body(used))
            await agent.publish_live(other, encode_body(forged))
            await asyncio.sleep(0.05)
        assert '"gpu_share":[null],"power_w":[99.0]' in tick.data


async def test_what_a_run_uses_is_told_while_no_query_ends(
    bus: Bus, server: MemoryServer, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    used = ResourcesUsed(evaluation=E, run="r0", attempt=1, agent="a1", cpu_cores=1.5)
    feeds = Feeds(bus, limit=8)
    async with connect(server, "agent") as agent, feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.scene.caught_up)
        await agent.publish(queries([5, 7]), id="q0")
        await until(viewer, lambda: told_of(viewer, '"answered":[2]'))
        await agent.publish_live(resources_subject(used), encode_body(used))
        await until(viewer, lambda: told_of(viewer, '"cpu_cores":[1.5]'))


@pytest.mark.parametrize(("speaker", "answered"), [("a2", 1), ("a1", 3), ("scheduler", 3)])
async def test_only_the_agent_that_has_a_run_is_heard(
    bus: Bus, server: MemoryServer, standing: StandIns, speaker: str, answered: int
) -> None:
    """The broker lets each agent speak of every run, under its own name."""
    await standing.tell(*beginning())
    feeds = Feeds(bus, limit=8)
    async with connect(server, "agent") as agent, feeds.viewing(E, after=0) as (feed, viewer):
        await until(viewer, lambda: feed.scene.caught_up)
        forged = queries([5, 7], sequence=1).model_copy(update={"agent": speaker})
        await agent.publish(forged, id="q1")
        await agent.publish(queries([5]), id="q0")
        await until(viewer, lambda: told_of(viewer, f'"answered":[{answered}]'))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "5", -1, 10**30, None, [1]])
def test_only_a_number_of_spans_is_counted(value: object) -> None:
    with pytest.raises(ValueError):
        feeds_module._count(value)


def told_of(viewer: Viewer, text: str) -> bool:
    """Take what waits for a `viewer`; return whether progress with this `text` is among it."""
    return any(event.name == "progress" and text in str(event.data) for event in viewer.take())
