"""The feed of what a worker uses harms no order: neither its end, nor its cancellation."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import cast

import pytest

from mlscope.bus.bus import Bus
from services.agent.host.execution import Execution
from services.agent.host.resource_feed import publishing_resources
from services.agent.machine.resource_use import ResourceMeter, ResourceUse


class Meter:
    """A meter that cannot read, and notes that it is closed."""

    is_closed = False

    def read(self) -> ResourceUse:
        """Fail as for a process that is gone."""
        raise ProcessLookupError("the worker is gone")

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def fed(meter: Meter, period_s: float) -> AbstractAsyncContextManager[None]:
    """Return the feed of a meter; it comes to neither bus nor execution."""
    nobody, nothing = cast("Bus", None), cast("Execution", None)
    return publishing_resources(nobody, nothing, cast("ResourceMeter", meter), period_s)


async def test_a_cancellation_while_the_feed_ends_is_not_taken_for_its_own() -> None:
    """Else an agent that stops just then waits for its next order, for ever."""
    meter, is_leaving = Meter(), asyncio.Event()

    async def order() -> str:
        async with fed(meter, 60.0):
            is_leaving.set()
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(order())
    await is_leaving.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_feed_that_fails_breaks_no_order(caplog: pytest.LogCaptureFixture) -> None:
    meter = Meter()
    with caplog.at_level(logging.WARNING):
        async with fed(meter, 0.0):
            await asyncio.sleep(0.2)
    assert meter.is_closed
    assert "the worker is gone" in caplog.text
