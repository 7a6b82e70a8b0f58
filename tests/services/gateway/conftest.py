"""A gateway over a memory bus: in process, and as a real server on a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.people import People
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from services.gateway.charts.drawing import Pictures
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app
from services.gateway.sample_pictures import SamplePictures
from services.gateway.sent.files import SentFiles
from services.gateway.service import serve
from tests.stand_ins import StandIns
from tests.standing import server, standing

__all__ = ["server", "standing"]


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "gateway") as bus:
        yield bus


@asynccontextmanager
async def web_over(
    bus: Bus,
    token: str | None = None,
    people: People | None = None,
    *,
    manifests_folder: Path | None = None,
    pictures_folder: Path | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    """Lend a client of a gateway in this process."""
    most_bytes = Settings().max_request_bytes
    app = build_app(bus, Feeds(bus, limit=8), most_bytes=most_bytes, token=token, people=people)
    app.state.pictures = Pictures(pictures_folder)
    app.state.sample_pictures = SamplePictures(manifests_folder)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        yield web
    await app.state.pictures.close()


@pytest.fixture(scope="session")
def pictures_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where pictures are stored: the process that draws takes half a second to start."""
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture
async def web(
    bus: Bus, standing: StandIns, pictures_folder: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with web_over(bus, pictures_folder=pictures_folder) as web:
        yield web


@dataclass
class Running:
    """A gateway's server: its address, and what stops it."""

    port: int
    stop: asyncio.Event
    serving: "asyncio.Task[None]"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving_gateway(
    bus: Bus, sent_files: SentFiles | None = None, *, gateway_token_file: Path | None = None
) -> AsyncIterator[Running]:
    """Run a gateway's server on a free port until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stop = asyncio.Event()
    settings = Settings(
        gateway_port=port,
        gateway_token_file=gateway_token_file,
        max_live_clients=4,
        max_request_bytes=100_000,
    )
    serving = asyncio.create_task(serve(bus, settings, stop, sent_files))
    running = Running(port, stop, serving)
    async with httpx.AsyncClient(base_url=running.url) as web:
        for _ in range(200):
            try:
                await web.get("/healthz")
                break
            except httpx.TransportError:
                await asyncio.sleep(0.02)
    yield running
    stop.set()
    await serving


@pytest.fixture
async def running(bus: Bus, standing: StandIns) -> AsyncIterator[Running]:
    async with serving_gateway(bus) as running:
        yield running


@pytest.fixture
async def guarded(bus: Bus, tmp_path: Path) -> AsyncIterator[Running]:
    """Lend a gateway that asks for the token `correct horse`."""
    token_file = tmp_path / "token"
    token_file.write_text("correct horse")
    async with serving_gateway(bus, gateway_token_file=token_file) as running:
        yield running
