"""Commands wait their turn while refusals have no room, and are let go of at the end."""

import asyncio

from mlscope.bus.command_queue import CommandQueue
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus.intake import Intake


async def test_what_waits_for_room_is_let_go_of_at_the_end() -> None:
    never = asyncio.Event()

    async def held(_: ReceivedCommand) -> bytes:
        await never.wait()
        return b""

    async def bury(_: ReceivedCommand, __: str) -> None:
        await never.wait()

    answering = CommandQueue(held, bury, limit_pending=2)
    intake = Intake(answering)
    for n in range(7):
        intake.take(ReceivedCommand("mlscope.v1.request.catalog", b"%d" % n, False), None)
    assert answering.counts.requests == 4
    intake.close()
    await answering.close()
    await asyncio.sleep(0)
    assert answering.counts.requests == 4
