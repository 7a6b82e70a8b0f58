"""A service's loops: they run together, end together, and a failure is raised."""

import asyncio

import pytest

from mlscope.serving import run_until_stopped


class Loop:
    """A loop that runs for ever and notes how it ended."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            self.events.append("cancelled")


async def fail() -> None:
    """Fail at once."""
    raise ValueError("broken")


async def test_loops_run_until_the_service_is_stopped() -> None:
    loop, stop = Loop(), asyncio.Event()
    service = asyncio.create_task(
        run_until_stopped(stop, loop.run(), before_cancel=lambda: loop.events.append("stopping"))
    )
    await asyncio.sleep(0)
    assert not service.done()
    stop.set()
    await service
    assert loop.events == ["stopping", "cancelled"]


async def test_a_loop_that_fails_ends_the_others_and_is_raised() -> None:
    loop = Loop()
    with pytest.raises(ValueError, match="broken"):
        await run_until_stopped(asyncio.Event(), loop.run(), fail())
    assert loop.events == ["cancelled"]


async def test_a_loop_that_returns_ends_the_service() -> None:
    loop = Loop()
    await run_until_stopped(asyncio.Event(), loop.run(), asyncio.sleep(0))
    assert loop.events == ["cancelled"]
