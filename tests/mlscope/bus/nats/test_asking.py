"""A health check's question: through any server that still reaches the service."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.errors import NotPermitted
from mlscope.bus.nats import is_answered
from mlscope.bus.nats.bus import NatsBus
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.health import answer_health_checks
from mlscope.bus.records import CommandCounts, ServiceInfo
from tests.contracts.worlds import NatsWorld, OpenSettings
from tests.mlscope.bus.nats.test_connection import GREETING, connected, greeting, until

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


async def test_a_service_answers_while_commands_wait_on_its_connection(world: NatsWorld) -> None:
    settings = OpenSettings(world.server.url)
    connection = Connection(settings, "tester")
    await connection.open(timeout_s=5.0)
    bus = NatsBus(connection)
    instance = await bus.announce(ServiceInfo("tester", "1.0.0", "", {}), dict)
    # A flood of commands is not through yet: what comes behind it is not read.
    reading = connection.client._reading_task
    assert reading is not None
    reading.cancel()
    assert await asyncio.to_thread(
        is_answered, settings, "tester", instance.health_subject, inbox="_INBOX_x", within_s=5.0
    )
    await bus.close()


async def test_health_checks_are_answered_through_the_server_of_all_else() -> None:
    async with greeting(GREETING) as (frozen, one), greeting(GREETING) as (other, two):
        connection = Connection(one, "tester")
        await connection.open(timeout_s=5.0)
        bus = NatsBus(connection)
        await bus.announce(ServiceInfo("tester", "1.0.0", "", {}), dict)
        health = bus._health
        assert health is not None
        for each in (connection, health):
            each.client.options["dont_randomize"] = True
            each.client.set_server_pool([two.nats_url, one.nats_url])
        await connection.leave_server()
        await until(lambda: other.greeted == 2 and health.availability.is_up)
        assert frozen.greeted == 2
        assert any(line.startswith(b"SUB $SRV.PING") for line in other.said)
        await bus.close()


async def test_health_checks_that_cannot_be_answered_leave_no_connection() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings) as main:
        greeter.denied = b"$SRV.PING"
        info = ServiceInfo("tester", "1.0.0", "", {})
        instance = ServiceInstance(info, dict, lambda _: CommandCounts())
        with pytest.raises(NotPermitted):
            await answer_health_checks(main, instance)
        assert greeter.greeted == 2
        await until(lambda: greeter.connections == 1)


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


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        (b"-ERR 'Authorization Violation'\r\n", PermissionError),
        (b"", ConnectionResetError),
    ],
)
async def test_a_server_that_ends_the_question_is_no_answer(
    frames: bytes, error: type[OSError]
) -> None:
    async with ending(frames) as url:
        with pytest.raises(error):
            await asked(url)


async def test_a_ping_of_the_server_is_answered_meanwhile() -> None:
    async with ending(b"PING\r\n", waits_for=b"PONG") as url:
        with pytest.raises(ConnectionResetError):
            await asked(url)


@asynccontextmanager
async def ending(frames: bytes, waits_for: bytes = b"") -> AsyncIterator[str]:
    """Run a server that takes a question, sends `frames`, waits for a line, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        while (line := await reader.readline()) and not line.startswith(b"PUB"):
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.write(frames)
        while waits_for and not (await reader.readline()).startswith(waits_for):
            pass
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
