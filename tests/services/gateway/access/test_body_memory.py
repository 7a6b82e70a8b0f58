"""Bodies of requests take bounded memory, and one person no more than half of it."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from mlscope.bus.bus import Bus
from services.gateway.access.body_memory import LARGEST_BODIES, BodyMemory
from services.gateway.errors import TooManyBodies
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app


def test_bodies_share_a_bound_until_their_requests_are_answered() -> None:
    memory = BodyMemory(100)
    with memory.of_request("") as take:
        take(60)
        take(40)
        with memory.of_request("ann") as take_more, pytest.raises(TooManyBodies, match="100 bytes"):
            take_more(1)
    with memory.of_request("ann") as take:
        take(1)


def test_one_person_has_half_of_it_whatever_the_number_of_requests() -> None:
    memory = BodyMemory(100)
    with memory.of_request("ann") as first, memory.of_request("ann") as second:
        first(30)
        with pytest.raises(TooManyBodies):
            second(21)
        second(20)
        with memory.of_request("bob") as others:
            others(50)
    with memory.of_request("ann") as take:
        take(50)


async def test_slow_bodies_leave_the_gateway_its_memory(bus: Bus) -> None:
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=100)
    begun, done = asyncio.Semaphore(0), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{" + b" " * 99
        begun.release()
        await done.wait()

    headers = {"Content-Type": "application/json"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        post = web.post
        slow_ones = [
            asyncio.create_task(post("/api/match", content=slow(), headers=headers))
            for _ in range(LARGEST_BODIES)
        ]
        for _ in slow_ones:
            await begun.acquire()
        refused = await post("/api/match", content=b"{}", headers=headers)
        done.set()
        answers = await asyncio.gather(*slow_ones)
        assert (refused.status_code, refused.json()["error"]) == (503, "busy")
        assert {answer.status_code for answer in answers} == {400}
        assert (await post("/api/match", content=b"{}", headers=headers)).status_code == 400
