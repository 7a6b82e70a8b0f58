"""A NATS client watches an evaluation: on subjects of its own, for as long as it asks."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import decode_body, encode_body, unpack
from schemas.request import Refused
from schemas.trace import Watch, Watching
from services.gateway.live.feeds import Feeds
from services.gateway.live.watches import Watches
from tests.services.gateway.live.test_spans import told_spans
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending


@pytest.fixture
async def feeds(bus: Bus) -> Feeds:
    return Feeds(bus, limit=2)


@pytest.fixture
async def watches(bus: Bus, feeds: Feeds, standing: StandIns) -> AsyncIterator[Watches]:
    watches = Watches(bus, feeds)
    yield watches
    await watches.close()


async def _ask(watches: Watches, evaluation: str = E) -> Watching | Refused:
    body = encode_body(Watch(evaluation=evaluation))
    answer = await watches.answer(ReceivedCommand("watch", body, wants_answer=True))
    if "error" in unpack(answer):
        return decode_body(Refused, answer)
    return decode_body(Watching, answer)


async def test_spans_come_with_all_their_names_until_the_end(
    server: MemoryServer, standing: StandIns, watches: Watches
) -> None:
    await standing.tell(*beginning())
    async with connect(server, "watcher") as client:
        watching = await _ask(watches)
        assert isinstance(watching, Watching)
        messages = await client.subscribe(watching.subject).ready()
        for sequence in range(2):
            await standing.tell(told_spans(sequence, 20))
            ids: list[int] = []
            while len(ids) < 20:
                subject, body = await anext(messages)
                if subject.endswith(".spans"):
                    content = json.loads(body)
                    ids += content["id"]
                    assert content["names"] == {"0": "conv"}
                    assert [lane["key"] for lane in content["lanes"]] == ["host/layer/4"]
        await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
        kinds = [subject.rpartition(".")[2]]
        while kinds[-1] != "end":
            subject, _ = await anext(messages)
            kinds.append(subject.rpartition(".")[2])
    assert set(kinds) <= {"spans", "gap", "progress", "end"}


async def test_relaying_ends_unless_it_is_asked_for_again(
    bus: Bus, feeds: Feeds, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    watches = Watches(bus, feeds, lasts_s=0.1)
    await _ask(watches)
    await _ask(watches)
    await asyncio.sleep(0)
    assert feeds.viewers == 1
    async with asyncio.timeout(30):
        while feeds.viewers:  # noqa: ASYNC110 (a feed says nothing when its last viewer leaves)
            await asyncio.sleep(0.05)
    assert isinstance(await _ask(watches), Watching)
    await watches.close()


async def test_what_cannot_be_watched_is_refused(watches: Watches, feeds: Feeds) -> None:
    unknown = await _ask(watches, "nothing")
    assert isinstance(unknown, Refused)
    assert unknown.error == "unknown"
    wrong = ReceivedCommand("watch", b'{"evaluation": "e", "span": 1}', wants_answer=True)
    assert json.loads(await watches.answer(wrong))["field"] == "span"


async def test_watchers_count_among_the_open_streams(watches: Watches, standing: StandIns) -> None:
    await standing.tell(*beginning())
    feeds = watches._feeds
    async with feeds.viewing(E, after=0), feeds.viewing(E, after=0):
        refused = await _ask(watches)
    assert isinstance(refused, Refused)
    assert refused.error == "busy"


async def test_of_watchers_at_once_only_so_many_are_answered_as_have_streams(
    bus: Bus, watches: Watches, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    feeds = watches._feeds
    others = Watches(bus, feeds)
    async with feeds.viewing(E, after=0):
        answers = await asyncio.gather(_ask(watches), _ask(others))
    await others.close()
    assert sorted(type(answer).__name__ for answer in answers) == ["Refused", "Watching"]
