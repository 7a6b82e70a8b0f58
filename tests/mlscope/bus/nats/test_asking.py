"""A health check's question: through any server that still reaches the service."""

import asyncio
import socket

import pytest

from mlscope.bus.nats import is_answered
from tests.contracts.worlds import OpenSettings
from tests.mlscope.bus.nats.test_connection import GREETING, greeting

NOBODY = "nats://127.0.0.1:9"


async def asked(*urls: str) -> bool:
    """Ask through these servers."""
    settings = OpenSettings(",".join(urls))
    return await asyncio.to_thread(
        is_answered, settings, "tester", "ping", inbox="_INBOX_x", within_s=0.4
    )


async def test_one_server_of_several_is_enough() -> None:
    async with greeting(GREETING) as (cut, one), greeting(GREETING) as (other, two):
        cut.answer, other.answer = {}, {"pong": 1}
        assert await asked(NOBODY, one.nats_url, two.nats_url)
        assert cut.greeted
        other.answer = {}
        assert not await asked(NOBODY, one.nats_url, two.nats_url)


async def test_a_frozen_server_takes_no_more_than_its_share() -> None:
    """A server that is stopped still accepts connections, in the kernel, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        place = f"nats://127.0.0.1:{frozen.getsockname()[1]}"
        async with asyncio.timeout(4), greeting(GREETING) as (other, two):
            other.answer = {"pong": 1}
            assert await asked(place, two.nats_url)


async def test_without_any_server_nothing_is_known() -> None:
    with pytest.raises(OSError, match="9"):
        await asked(NOBODY)
