"""Commands in the process of the test, over a memory bus: what they print and return.

A conftest or a test takes the fixtures by importing their names.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.arguments import build_parser
from cli.parser import parse
from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient
from mlscope.testing.memory_bus import MemoryServer, connect
from tests.standing import server, standing

__all__ = ["bus", "server", "standing"]


@pytest.fixture
async def bus(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Bus]:
    """Lend a requester's bus, which every command uses."""
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))
    async with connect(server, "requester") as bus:
        monkeypatch.setattr("cli.inputs.connection.AsyncClient", lambda **_: AsyncClient(bus=bus))
        yield bus


def arguments(*words: str) -> argparse.Namespace:
    """Return the arguments of a command line."""
    return parse(build_parser(), words)


async def printed(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Return what was printed on stderr once it has a `text`."""
    said = ""
    async with asyncio.timeout(60):
        while text not in said:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().err
    return said
