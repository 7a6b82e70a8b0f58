"""Feeds: one an evaluation however many look, gone with the last of them."""

import asyncio

import pytest

from mlscope.bus.bus import Bus
from services.gateway.errors import TooManyViewers
from services.gateway.live.feeds import Feeds
from tests.stories import E, StandIns, whole_story


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


async def test_a_feed_ends_with_its_story(bus: Bus, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    feeds = Feeds(bus, limit=8)
    async with feeds.viewing(E, after=0) as (feed, viewer), asyncio.timeout(30):
        while not feed.is_over:
            await viewer.wait(1.0)
        sequences = [event.sequence for event in feed.story]
        assert len(sequences) == len(whole_story())
        assert sequences == sorted(set(sequences))
