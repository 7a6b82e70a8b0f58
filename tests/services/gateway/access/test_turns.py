"""Large answers are made one after the other, and one person's leave room for others'."""

import asyncio

import pytest

from services.gateway.access.turns import MOST_WAITING, Turns
from services.gateway.errors import TooManyWaiting


async def test_one_is_made_at_a_time() -> None:
    answers, events = Turns("exports"), list[str]()

    async def make(name: str) -> None:
        async with answers.turn(""):
            events.append(f"begin {name}")
            await asyncio.sleep(0)
            events.append(f"end {name}")

    await asyncio.gather(make("a"), make("b"))
    assert events == ["begin a", "end a", "begin b", "end b"]


async def test_too_many_are_refused_and_one_persons_before_others() -> None:
    answers, done = Turns("exports"), asyncio.Event()

    async def make(person: str) -> None:
        async with answers.turn(person):
            await done.wait()

    making = [asyncio.create_task(make("ann")) for _ in range(MOST_WAITING // 2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaiting):
        await make("ann")
    making += [asyncio.create_task(make("")) for _ in range(MOST_WAITING // 2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaiting, match="try again later"):
        await make("")
    done.set()
    await asyncio.gather(*making, return_exceptions=True)
    await make("ann")
