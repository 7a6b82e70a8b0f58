"""A connection to servers that misbehave: what a test server says, and what is left behind."""

import asyncio
import gc
import json
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from mlscope.bus.errors import (
    KeyRevoked,
    NoAnswer,
    NoReply,
    NotPermitted,
    PayloadTooLarge,
    ServerRefused,
    Unreachable,
)
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.snapshots import snapshot_stream
from tests.contracts.worlds import OpenSettings

GREETING = b'INFO {"version":"2.12.0","max_payload":1024,"headers":true}\r\n'
NOTHING, NONSENSE = b"", b"HTTP/1.1 400\r\n"


async def until(is_so: Callable[[], bool]) -> None:
    """Return once it is so."""
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not in twenty seconds")


class Greeter:
    """A server that greets each connection as its script says, the last one for ever."""

    def __init__(self, greetings: Sequence[bytes]) -> None:
        self.greeted = 0
        self.said: list[bytes] = []
        self.answer: Mapping[str, object] | None = {}
        self.is_deaf = False
        self.denied = b""
        self._greetings = greetings
        self._writers: list[asyncio.StreamWriter] = []

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say the greeting; go at once unless it was a good one, else answer pings."""
        greeting = self._greetings[min(self.greeted, len(self._greetings) - 1)]
        self.greeted += 1
        self._writers.append(writer)
        writer.write(greeting)
        while greeting.startswith(GREETING) and (line := await reader.readline()):
            self.said.append(line)
            if line.startswith(b"PING") and not self.is_deaf:
                writer.write(b"PONG\r\n")
            elif line.startswith((b"PUB", b"HPUB")):
                self._reply(line.split()[2], writer)
            elif self.denied and line.startswith(b"SUB " + self.denied):
                subject = line.split()[1]
                writer.write(
                    b"-ERR 'Permissions Violation for Subscription to \"%b\"'\r\n" % subject
                )
        writer.close()
        self._writers.remove(writer)

    def _reply(self, inbox: bytes, writer: asyncio.StreamWriter) -> None:
        """Give the answer to a request, to the inbox's one subscription; None: nobody is there."""
        if not inbox.startswith(b"_INBOX") or self.answer == {}:
            return
        if self.answer is None:
            headers = b"NATS/1.0 503\r\n\r\n"
            size = b"%d %d" % (len(headers), len(headers))
            writer.write(b"HMSG %b 1 %b\r\n%b\r\n" % (inbox, size, headers))
        else:
            body = json.dumps(self.answer).encode()
            writer.write(b"MSG %b 1 %d\r\n%b\r\n" % (inbox, len(body), body))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._writers)

    def hang_up(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.close()

    async def gone(self) -> None:
        """Return once every connection has ended."""
        self.hang_up()
        await until(lambda: not self._writers)


@asynccontextmanager
async def greeting(*greetings: bytes) -> AsyncIterator[tuple[Greeter, OpenSettings]]:
    """Run such a server and lend the settings that lead to it."""
    greeter = Greeter(greetings)
    server = await asyncio.start_server(greeter.greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield greeter, OpenSettings(f"nats://127.0.0.1:{port}")
    finally:
        server.close()
        await greeter.gone()


@asynccontextmanager
async def connected(settings: OpenSettings, patience_s: float = 1.0) -> AsyncIterator[Connection]:
    """Open a connection, and close it."""
    connection = Connection(settings, "tester", patience_s=patience_s)
    await connection.open(10.0)
    try:
        yield connection
    finally:
        await connection.close()


async def test_tries_that_fail_leave_no_socket_behind() -> None:
    async with greeting(GREETING, NOTHING, NONSENSE, NOTHING, GREETING) as (greeter, settings):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            async with connected(settings, 20.0) as connection:
                greeter.hang_up()
                await until(lambda: greeter.greeted == 5 and connection.availability.is_up)
            await asyncio.sleep(0)
            gc.collect()
    assert [str(each.message) for each in warned if "unclosed" in str(each.message)] == []


async def test_what_never_greets_is_unreachable() -> None:
    async with greeting(NONSENSE) as (_, settings):
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
            await Connection(settings, "tester").open(0.5)


async def test_who_is_refused_is_told_at_once() -> None:
    refusal = GREETING + b"-ERR 'Authorization Violation'\r\n"
    async with greeting(refusal) as (_, settings):
        with pytest.raises(NotPermitted):
            await Connection(settings, "tester").open(30.0)


async def test_a_key_that_is_refused_for_a_moment_connects() -> None:
    refusal = GREETING + b"-ERR 'Authorization Violation'\r\n"
    async with greeting(refusal, GREETING) as (_, settings), connected(settings) as connection:
        assert connection.availability.is_up


async def test_a_key_that_was_taken_is_revoked_once_it_is_refused_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mlscope.bus.nats.connecting.key_rejection._REVOKED_AFTER_S", 0.5)
    refusal = GREETING + b"-ERR 'Authorization Violation'\r\n"
    async with (
        greeting(GREETING, refusal, GREETING, refusal) as (greeter, settings),
        connected(settings, 20.0) as connection,
    ):
        greeter.hang_up()
        await until(lambda: greeter.greeted == 3 and connection.availability.is_up)
        await asyncio.sleep(0.5)
        hung_up_s = asyncio.get_running_loop().time()
        greeter.hang_up()
        await until(connection.availability.closed.is_set)
        assert asyncio.get_running_loop().time() - hung_up_s >= 0.5
        assert isinstance(connection.end_cause, KeyRevoked)
        with pytest.raises(Unreachable):
            await connection.request("a", b"")


async def test_silence_is_told_from_a_lost_server() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings) as connection:
        with pytest.raises(NoReply):
            await connection.request("a", b"", timeout_s=0.05)
        asking = asyncio.create_task(connection.request("a", b"", timeout_s=30.0))
        await asyncio.sleep(0.05)
        greeter.hang_up()
        with pytest.raises(Unreachable) as raised:
            await asking
        assert not isinstance(raised.value, NoReply)


async def test_a_message_beyond_the_servers_bound_is_not_sent() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings) as connection:
        with pytest.raises(PayloadTooLarge) as raised:
            await connection.send("a", bytes(1025))
        await connection.settled()
    assert (raised.value.size_bytes, raised.value.limit_bytes) == (1025, 1024)
    assert not any(line.startswith(b"PUB a") for line in greeter.said)


async def test_patience_ends_with_what_was_raised() -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise NoAnswer("a")

    async with greeting(GREETING) as (_, settings), connected(settings, 0.3) as connection:
        with pytest.raises(NoAnswer):
            await connection.patiently(attempt)
    assert tries > 1


async def test_a_call_is_repeated_while_the_servers_elect_a_leader() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings, 20.0) as connection:
        greeter.answer = {"error": {"code": 503, "err_code": 10008, "description": "not yet"}}
        calling = asyncio.create_task(connection.call("a", {}))
        await until(lambda: sum(line.startswith(b"PUB a") for line in greeter.said) > 1)
        greeter.answer = {"error": {"code": 404, "err_code": 10059, "description": "none"}}
        with pytest.raises(ServerRefused, match="10059"):
            await calling


async def test_a_server_that_is_cut_off_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlscope.bus.nats.connection._SILENT_S", 0.1)
    async with greeting(GREETING) as (cut, one), greeting(GREETING) as (other, two):
        cut.answer, other.answer = None, {"seq": 1}
        async with connected(OpenSettings(one.nats_url), 20.0) as connection:
            connection.client.set_server_pool([one.nats_url, two.nats_url])
            assert await connection.call("a", {}) == {"seq": 1}
    assert cut.greeted
    assert other.greeted


async def test_a_server_just_connected_to_is_not_left_for_an_older_one() -> None:
    async with greeting(GREETING) as (greeter, settings), connected(settings, 20.0) as connection:
        connection.client.set_server_pool([settings.nats_url, f"{settings.nats_url}/again"])
        long_ago_s = asyncio.get_running_loop().time() - 3600
        left_s = await connection.leave_if_silent(long_ago_s)
        await until(lambda: greeter.greeted == 2 and connection.availability.is_up)
        assert left_s < await connection.leave_if_silent(long_ago_s)
        assert connection.availability.is_up
        assert greeter.greeted == 2


async def test_a_snapshot_is_asked_for_once() -> None:
    """A second request would send a second snapshot between the chunks of the first."""
    async with greeting(GREETING) as (greeter, settings), connected(settings, 20.0) as connection:
        connection.attempt_s = 0.05
        taking = asyncio.create_task(snapshot_stream(connection, "LOG", bytes))
        await asyncio.sleep(0.3)
        asked = [line for line in greeter.said if line.startswith(b"PUB $JS.API.STREAM.SNAPSHOT")]
        assert len(asked) == 1
        taking.cancel()
        await asyncio.wait([taking])


async def test_the_only_server_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlscope.bus.nats.connection._SILENT_S", 0.05)
    async with greeting(GREETING) as (greeter, settings), connected(settings, 0.5) as connection:
        greeter.answer = None
        with pytest.raises(NoAnswer):
            await connection.call("a", {})
    assert greeter.greeted == 1


async def test_a_close_ends_every_wait() -> None:
    failures: list[tuple[str, Exception]] = []
    async with greeting(GREETING) as (_, settings), connected(settings) as connection:
        connection.expect("a", lambda _: None, lambda error: failures.append(("a", error)))
        await connection.close()
        connection.expect("b", lambda _: None, lambda error: failures.append(("b", error)))
    assert {(name, type(error)) for name, error in failures} == {
        ("a", Unreachable),
        ("b", Unreachable),
    }


async def test_a_server_that_is_deaf_at_the_close_is_left() -> None:
    async with greeting(GREETING) as (greeter, settings):
        async with connected(settings) as connection:
            greeter.is_deaf = True
        assert connection.client.is_closed
