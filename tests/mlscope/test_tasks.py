"""Tasks end before what started them goes on."""

import asyncio

from mlscope.tasks import background_task, end_tasks


async def test_tasks_have_ended_also_those_that_take_their_time_or_fail() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("slow")

    async def failing() -> None:
        raise ValueError

    tasks = [asyncio.create_task(slow()), asyncio.create_task(failing())]
    await asyncio.sleep(0)
    await end_tasks(task for task in tasks)
    assert ended == ["slow"]
    assert all(task.done() for task in tasks)


async def test_a_background_task_lasts_as_long_as_its_context() -> None:
    beats: list[int] = []

    async def beat() -> None:
        while True:
            beats.append(len(beats))
            await asyncio.sleep(0)

    async with background_task(beat()):
        await asyncio.sleep(0.01)
    count = len(beats)
    await asyncio.sleep(0.01)
    assert count == len(beats) > 0
