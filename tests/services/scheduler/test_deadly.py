"""A message that ends the process which handles it becomes a dead letter.

That is after one death with others in hand, and two with it alone.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mlscope.bus.bus import Bus
from schemas.dead import LetterBuried
from schemas.evaluation import EvaluationCancelled
from schemas.subjects import facts_of
from tests.contracts.worlds import NatsWorld, Shape
from tests.places import lent_folder
from tests.services.scheduler import dying


@pytest.fixture
async def world() -> AsyncIterator[NatsWorld]:
    """Run a server which delivers again after half a second."""
    with lent_folder("deadly") as folder:
        world = NatsWorld(folder)
        world.server.start()
        await world.make(Shape(ack_wait_s=0.5))
        yield world
        world.server.stop()


@asynccontextmanager
async def supervised(world: NatsWorld) -> AsyncIterator[list[int]]:
    """Start the scheduler again whenever it ends; lend the list of how it ended."""
    ends: list[int] = []
    command = (sys.executable, "-m", dying.__name__, world.server.url, "deadly")
    processes: list[asyncio.subprocess.Process] = []

    async def keep_up() -> None:
        while True:
            processes.append(await asyncio.create_subprocess_exec(*command))
            ends.append(await processes[-1].wait())

    keeping = asyncio.create_task(keep_up())
    try:
        yield ends
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        processes[-1].kill()
        await processes[-1].wait()


async def letters(bus: Bus) -> list[LetterBuried]:
    """Return the dead letters, once there are some."""
    async with asyncio.timeout(90):
        while not (found := await bus.read(facts_of(LetterBuried))):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return [each.fact for each in found if isinstance(each.fact, LetterBuried)]


async def test_a_message_that_goes_on_killing_is_a_dead_letter_and_its_company_is_not(
    world: NatsWorld,
) -> None:
    """They are delivered together at first, so any of the three may be the cause."""
    async with world.connect() as bus:
        names = ("before", "deadly", "after")
        places = [await bus.publish(EvaluationCancelled(evaluation=n), id=n) for n in names]
        async with supervised(world) as ends:
            (letter,) = await letters(bus)
            async with asyncio.timeout(60):
                while await bus.acknowledged("scheduler") < places[-1]:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert ends == [dying.STATUS] * 3
    assert (letter.sequence, letter.deliveries) == (places[1], 4)
    assert letter.reason == "the service ended twice while it had only this message in hand"
