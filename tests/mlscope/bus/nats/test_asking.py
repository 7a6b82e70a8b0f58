"""A health check's question: through any server that still reaches the service."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mlscope.bus.access.rights import ping
from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.errors import Unreachable
from mlscope.bus.nats import is_answered
from mlscope.bus.nats.bus import NatsBus
from mlscope.bus.nats.connection import Connection
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from tests.contracts.worlds import NatsWorld, OpenSettings
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


@pytest.fixture
async def answering(world: NatsWorld) -> AsyncIterator[tuple[NatsBus, ServiceInstance, Connection]]:
    """Lend a service's bus, its instance, and the connection over which commands arrive."""

    async def echo(command: ReceivedCommand) -> bytes:
        return command.body

    connection = Connection(OpenSettings(world.server.url), "tester")
    await connection.open(timeout_s=5.0)
    bus = NatsBus(connection)
    await bus.answer("mlscope.v1.request.echo", echo, queue="tester")
    instance = await bus.announce(ServiceInfo("tester", "1.0.0", "", {}), dict)
    inbound = bus._commands._inbound
    assert inbound is not None
    yield bus, instance, inbound
    await bus.close()


async def test_a_service_answers_its_health_check_while_commands_wait(
    world: NatsWorld, answering: tuple[NatsBus, ServiceInstance, Connection]
) -> None:
    bus, instance, inbound = answering
    reading = inbound.client._reading_task
    assert reading is not None
    # A flood of commands is not through yet: what comes behind it is not read.
    reading.cancel()
    settings, subject = OpenSettings(world.server.url), ping("tester", instance.instance)
    assert await asyncio.to_thread(
        is_answered, settings, "tester", subject, inbox="_INBOX_x", within_s=5.0
    )
    assert await bus.get("catalog", "a") is None


async def test_a_service_that_hears_no_commands_is_not_healthy(
    world: NatsWorld, answering: tuple[NatsBus, ServiceInstance, Connection]
) -> None:
    bus, instance, inbound = answering
    inbound.availability.lost()
    settings, subject = OpenSettings(world.server.url), ping("tester", instance.instance)
    assert not await asyncio.to_thread(
        is_answered, settings, "tester", subject, inbox="_INBOX_x", within_s=0.3
    )
    await inbound.client.close()
    async with asyncio.timeout(5):
        assert isinstance(await bus.wait_closed(), Unreachable), "it ends, and is started again"


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
