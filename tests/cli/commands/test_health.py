"""`mlscope health`: an answer over the bus, and the end of a service that gives none."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import mlscope.bus.nats
from cli import exits
from cli.cluster.servers.nats_server import NatsServer
from cli.commands import serve
from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.nats import NatsBus, connect
from mlscope.health import Announced
from mlscope.settings import Settings
from tests.cli.conftest import CommandLine, ended
from tests.stand_ins import StandIns


async def announced(path: Path) -> Announced:
    """Return what a service's ready file says, once it says it."""
    for _ in range(1200):
        if (said := Announced.read(path)) is not None:
            return said
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} was never made")


async def test_a_hung_service_is_silent_and_ended_at_the_third_question(
    nats_server: NatsServer, standing: StandIns, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    line = CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["registry"]),
        MLSCOPE_READY_FILE=str(ready),
    )
    assert (await line("health", "registry")).out == "registry: starting\n"
    process = await line.start("serve", "registry")
    pid = (await announced(ready)).pid
    question = ("health", "registry", "--end", "--within", "0.5")
    first = await line(*question)
    assert (first.code, first.out) == (exits.OK, "registry: answers\n")
    os.kill(pid, signal.SIGSTOP)
    for _ in range(2):
        silent = await line(*question)
        assert (silent.code, silent.out) == (exits.FAILED, "registry: silent\n")
    assert (await line("health", "registry", "--liveness", "--within", "0.5")) == silent
    assert "killed, so that it is restarted" in (await line(*question)).out
    assert (await ended(process)).code == -signal.SIGKILL


async def test_without_a_broker_no_service_is_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    Announced("x1", os.getpid()).write(ready)
    line = CommandLine(MLSCOPE_NATS_URL="nats://127.0.0.1:9", MLSCOPE_READY_FILE=str(ready))
    for _ in range(4):
        end = await line("health", "registry", "--end")
        assert (end.code, end.out) == (exits.FAILED, "registry: no broker\n")


async def test_without_a_broker_a_service_is_alive(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    line = CommandLine(MLSCOPE_NATS_URL="nats://127.0.0.1:9", MLSCOPE_READY_FILE=str(ready))
    starting = await line("health", "agent", "--liveness")
    assert (starting.code, starting.out) == (exits.OK, "agent: starting\n")
    Announced("x1", os.getpid()).write(ready)
    alone = await line("health", "agent", "--liveness")
    assert (alone.code, alone.out) == (exits.OK, "agent: no broker\n")


async def test_a_service_whose_connection_is_closed_for_good_ends(
    nats_server: NatsServer,
    standing: StandIns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buses: list[NatsBus] = []

    class Noted:
        """The bus of the service, for the test to close."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            self._opened = connect(*arguments, **named)

        async def __aenter__(self) -> Bus:
            bus = await self._opened.__aenter__()
            assert isinstance(bus, NatsBus)
            buses.append(bus)
            return bus

        async def __aexit__(self, *error: Any) -> None:
            await self._opened.__aexit__(*error)

    monkeypatch.setattr(mlscope.bus.nats, "connect", Noted, raising=False)
    settings = Settings(
        nats_url=nats_server.url,
        nats_seed_file=nats_server.seed_files["registry"],
        ready_file=tmp_path / "ready",
    )
    serving = asyncio.create_task(serve.serve_until_stopped("registry", settings))
    await announced(tmp_path / "ready")
    # What the client library does when the server refuses it for good.
    await buses[0]._connection.client.close()
    with pytest.raises(Unreachable, match="for good"):
        await asyncio.wait_for(serving, 20)
