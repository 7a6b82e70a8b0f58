"""The command line against a real nats-server and stand-in services, each with its own key."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.forking.commands import run_mlscope
from tests.stand_ins import StandIns

_SERVICES = ("scheduler", "registry", "agent", "collector", "analyzer")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return stdout as JSON."""
        return json.loads(self.out)


class CommandLine:
    """Runs `mlscope …` as a process."""

    def __init__(self, **environ: str) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MLSCOPE_")}
        self._environ = {**kept, "MLSCOPE_HUB_URL": "off", **environ}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "cli.main",
            *arguments,
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str) -> Ended:
        """Run a command to its end."""
        done = await asyncio.to_thread(run_mlscope, arguments, self._environ)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run(self, *arguments: str) -> Ended:
        """Run a command to its end, outside of any event loop."""
        done = run_mlscope(arguments, self._environ)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """Wait for a command."""
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def interrupted(process: asyncio.subprocess.Process) -> Ended:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return await ended(process)


def key_settings(server: NatsServer, name: str) -> Settings:
    """Return the settings of a connection with a service's key."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """End the logging that a command of a test set up in this process.

    It writes into what the test captured, which is closed when the next test logs.
    """
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    for handler in set(root.handlers).difference(handlers):
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def mlscope(nats_server: NatsServer, tmp_path: Path) -> CommandLine:
    return CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["requester"]),
        MLSCOPE_DATA=str(tmp_path),
    )


@pytest.fixture
async def standing(nats_server: NatsServer) -> AsyncIterator[StandIns]:
    await provision(key_settings(nats_server, "provisioner"))
    async with AsyncExitStack() as stack:
        buses = {
            name: await stack.enter_async_context(connect(key_settings(nats_server, name), name))
            for name in _SERVICES
        }
        standing = StandIns(buses["scheduler"], buses)
        await standing.open()
        yield standing
