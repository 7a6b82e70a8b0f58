"""The gateway's process: it listens before it announces itself, and stops within a bound."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, NoAnswer
from mlscope.listening import listen
from mlscope.settings import InvalidSetting, Settings
from services.gateway import readiness
from services.gateway.service import serve
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns


async def test_it_answers_discovery_and_says_how_many_look(running: Running, bus: Bus) -> None:
    stats = await bus.ask("$SRV.STATS.gateway", b"")
    assert b'"viewers":0' in stats.replace(b" ", b"")


async def test_a_taken_port_is_an_error_and_nothing_is_announced(bus: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(gateway_port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await serve(bus, settings, asyncio.Event())
    with pytest.raises(BusError):
        await bus.ask("$SRV.PING.gateway", b"", timeout_s=0.1)


async def test_stopped_it_lets_go_of_its_port(running: Running) -> None:
    running.stop.set()
    await running.serving
    async with httpx.AsyncClient(base_url=running.url) as web:
        with pytest.raises(httpx.ConnectError):
            await web.get("/healthz")
    socket.create_server(("127.0.0.1", running.port)).close()


async def test_who_asks_while_no_gateway_runs_is_served_by_the_next(
    bus: Bus, standing: StandIns
) -> None:
    """The socket is its supervisor's, which keeps it while one gateway follows another."""
    with listen("127.0.0.1", 0) as kept:
        port = kept.getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
            for _gateway in range(2):
                asking = asyncio.create_task(web.get("/healthz"))
                await asyncio.sleep(0.1)
                assert not asking.done()
                stop, descriptor = asyncio.Event(), os.dup(kept.fileno())
                serving = asyncio.create_task(serve(bus, Settings(gateway_fd=descriptor), stop))
                assert (await asking).status_code == 200
                assert not os.get_inheritable(descriptor)
                stop.set()
                await serving


@pytest.mark.parametrize(
    "made", [socket.socket, lambda: socket.socket(type=socket.SOCK_DGRAM), socket.socketpair, None]
)
async def test_only_a_socket_that_listens_is_taken(
    bus: Bus, made: Callable[[], socket.socket | tuple[socket.socket, ...]] | None
) -> None:
    with contextlib.ExitStack() as opened:
        # The highest that a setting may name is open in no test.
        descriptor = 1 << 20
        if made is not None:
            sockets = made()
            for each in sockets if isinstance(sockets, tuple) else (sockets,):
                descriptor = opened.enter_context(each).fileno()
        with pytest.raises(InvalidSetting, match=f"MLSCOPE_GATEWAY_FD={descriptor}: .* listens"):
            await serve(bus, Settings(gateway_fd=descriptor), asyncio.Event())


async def test_a_body_beyond_the_one_limit_is_refused_by_limit_and_fix(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as web:
        response = await web.post("/api/evaluations", json={"model": "x" * 100_000})
    told = response.json()
    assert (response.status_code, told["error"], told["field"]) == (413, "invalid", "body")
    assert told["allowed"] == "100000 bytes"
    assert "MLSCOPE_MAX_REQUEST_BYTES" in told["message"]


async def test_it_tells_nothing_of_its_server(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as web:
        response = await web.get("/healthz")
    assert response.json() == {"ok": True}
    assert "server" not in response.headers


async def test_it_is_not_healthy_while_it_is_deaf(
    running: Running, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_answer(subject: str, *_: object, **__: object) -> bytes:
        raise NoAnswer(subject)

    monkeypatch.setattr(readiness, "_FRESH_S", 0.0)
    async with httpx.AsyncClient(base_url=running.url) as web:
        assert (await web.get("/healthz")).status_code == 200
        monkeypatch.setattr(bus, "ask", no_answer)
        response = await web.get("/healthz")
        assert (response.status_code, response.json()) == (503, {"ok": False})
        monkeypatch.undo()
        await asyncio.sleep(1.1)
        assert (await web.get("/healthz")).status_code == 200
