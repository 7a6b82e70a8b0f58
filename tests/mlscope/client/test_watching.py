"""Watching one evaluation: every step, over gaps, to the end the scheduler tells."""

import asyncio
from contextlib import aclosing

import pytest

from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient, CommandRefused, NotAnswering
from mlscope.client.watching import Pace, watch
from mlscope.testing.memory_bus import MemoryServer
from schemas.encoding.codec import encode
from schemas.message import Envelope
from schemas.request import Refused
from schemas.subjects import subject_of
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, queries

QUICK = Pace(tick_s=0.02, poll_s=0.05, patience_s=0.2)


async def test_watching_tells_every_step_and_ends(client: AsyncClient, standing: StandIns) -> None:
    await standing.tell(*beginning())
    steps = client.watch(E)
    assert (await anext(steps)).status.state == "planned"
    await standing.tell(*a_run("r0"), queries([1000] * 5), *a_run("r1"), *ending())
    seen = [step async for step in steps]
    happened = [step.happened for step in seen if step.happened]
    assert happened.count("run.recorded") == 2
    assert happened[-1] == "evaluation.analyzed"
    assert seen[-1].ended
    assert seen[-1].readings["r0"].answered == 5


async def test_watching_survives_a_server_that_goes_and_comes(
    server: MemoryServer, bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    steps = watch(bus, E, Pace(tick_s=0.02, poll_s=0.05, patience_s=20))
    await anext(steps)
    server.stop()
    coming = asyncio.create_task(anext(steps))
    await asyncio.sleep(0.1)
    server.start()
    await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
    last = await coming
    async for step in steps:
        last = step
    assert last.status.state == "analyzed"


@pytest.mark.usefixtures("standing")
async def test_what_is_not_there_is_not_watched(bus: Bus) -> None:
    with pytest.raises(CommandRefused):
        await anext(watch(bus, "nosuch", QUICK))


async def test_watching_survives_a_scheduler_that_is_overloaded(
    bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    steps = watch(bus, E, Pace(tick_s=0.02, poll_s=0.05, patience_s=20))
    await anext(steps)
    standing.status_answer = Refused(error="unavailable", message="try again").model_dump()
    asyncio.get_running_loop().call_later(0.2, standing.status_answer.clear)
    ticks = [(await anext(steps)).status.state for _ in range(10)]
    assert ticks == ["planned"] * 10
    await steps.aclose()


async def test_patience_with_a_silent_scheduler_ends(bus: Bus) -> None:
    with pytest.raises(NotAnswering):
        await anext(watch(bus, E, QUICK))


async def test_nothing_new_is_said_by_a_tick(bus: Bus, standing: StandIns) -> None:
    await standing.tell(*beginning())
    steps = watch(bus, E, QUICK)
    first, second = await anext(steps), await anext(steps)
    assert (second.happened, second.status.state) == ("", first.status.state)
    await steps.aclose()
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "_listen" in repr(task)]


async def test_a_fact_under_another_s_subject_is_not_heard(
    server: MemoryServer, bus: Bus, standing: StandIns
) -> None:
    """Who may say what is decided by subjects: this key may speak of queries, not of ends."""
    await standing.tell(*beginning())
    forged = Envelope.around(ending()[-1], id="forged", cause="", time_ns=1)
    async with aclosing(watch(bus, E, Pace(tick_s=20, poll_s=60))) as steps:
        await anext(steps)
        server.send(subject_of(queries([1])), encode(forged))
        await standing.tell(*a_run("r0")[:1])
        assert (await anext(steps)).happened == "evaluation.started"
