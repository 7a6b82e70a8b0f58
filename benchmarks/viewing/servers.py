"""Broker, database, analyzer and gateway as they are shipped, each in a process of its own."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from typing import Any

import httpx

from benchmarks.cluster import new_folder
from benchmarks.stored_run import stored
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import Postgres
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from mlscope.tracing.batches import Attempt, trace_batch
from services.analyzer.service import serve as serve_analyzer
from services.gateway.service import serve as serve_gateway
from tests.stories import E, beginning

RATE, BATCH = 5_000, 500
_NAMES = {f"layer {number}: a name as frameworks give them": number for number in range(100)}
_SPAWN = multiprocessing.get_context("spawn")
_READY_S = 60


@dataclass(frozen=True)
class Servers:
    """Where the gateway listens, and what an agent needs to publish."""

    url: str
    agent: dict[str, Any]
    #: spans of the stored run
    spans: int
    #: the address of the database
    database_url: str
    analyzer: "AnalyzerProcess"


class AnalyzerProcess:
    """The analyzer, which can be started again so that it holds nothing in memory."""

    def __init__(self, fields: dict[str, Any]) -> None:
        """Take its settings' `fields`; `restart` starts it."""
        self._fields = fields
        self._process: SpawnProcess | None = None

    def restart(self) -> None:
        """End the process, if any, and start another one."""
        self.stop()
        self._process = _SPAWN.Process(target=_analyzer, args=(self._fields,), daemon=True)
        self._process.start()

    def stop(self) -> None:
        """End the process and wait for it."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()


def _gateway(fields: dict[str, Any]) -> None:
    settings = Settings(**fields)

    async def run() -> None:
        async with connect(settings, "gateway") as bus:
            await serve_gateway(bus, settings, asyncio.Event())

    asyncio.run(run())


def _analyzer(fields: dict[str, Any]) -> None:
    settings = Settings(**fields)

    async def run() -> None:
        async with connect(settings, "analyzer") as bus:
            await serve_analyzer(bus, settings, asyncio.Event())

    asyncio.run(run())


async def _provisioned(fields: dict[str, Any], seeds: dict[str, Any]) -> None:
    """Make the streams, and tell the beginning of an evaluation."""
    await provision(Settings(**fields, nats_seed_file=seeds["provisioner"]))
    scheduler_settings = Settings(**fields, nats_seed_file=seeds["scheduler"])
    async with connect(scheduler_settings, "scheduler") as scheduler:
        for number, fact in enumerate(beginning()):
            await scheduler.publish(fact, id=f"fact {number}")


@contextmanager
def serving(queries: int) -> Iterator[Servers]:
    """Run all servers, with a run of so many `queries` stored, for the length of the block."""
    with ExitStack() as stack:
        folder = stack.enter_context(new_folder())
        postgres = stack.enter_context(Postgres(folder / "postgres", durable=False))
        spans = stored(postgres.admin_url(), queries) if queries else 0
        broker = stack.enter_context(NatsServer(folder / "nats"))
        port = free_port()
        fields = {
            "nats_url": broker.url,
            "database_url": postgres.admin_url(),
            "gateway_port": port,
            "data_folder": folder,
        }
        asyncio.run(_provisioned(fields, dict(broker.seed_files)))
        own = {**fields, "nats_seed_file": broker.seed_files["gateway"]}
        process = _SPAWN.Process(target=_gateway, args=(own,), daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(process.terminate)
        analyzer = AnalyzerProcess({**fields, "nats_seed_file": broker.seed_files["analyzer"]})
        stack.callback(analyzer.stop)
        analyzer.restart()
        url = f"http://127.0.0.1:{port}"
        _wait_for(url)
        agent = {**fields, "nats_seed_file": broker.seed_files["agent"]}
        yield Servers(url, agent, spans, postgres.admin_url(), analyzer)


def _wait_for(url: str) -> None:
    for _ in range(_READY_S * 10):
        try:
            httpx.get(f"{url}/healthz").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no gateway at {url} after {_READY_S} s")


async def publish(servers: Servers, seconds: float) -> int:
    """Publish spans as a recorder does, 5,000 a second in batches of 500; return how many.

    Each span starts when its batch is published, on the monotonic clock.
    """
    total = 0
    async with connect(Settings(**servers.agent), "agent") as agent:
        began = time.monotonic()
        for sequence in range(round(seconds * RATE / BATCH)):
            await asyncio.sleep(max(began + sequence * BATCH / RATE - time.monotonic(), 0))
            now = time.monotonic_ns()
            rows = [
                (1 + total + n, -1, 3, n % 100, now + 150_000 * n, 140_000, n % 4, 0, 0, b"")
                for n in range(BATCH)
            ]
            batch = trace_batch(Attempt(E, "r0", 1, "a1"), sequence, rows, _NAMES)
            await agent.publish(batch, id=f"batch {sequence}")
            total += BATCH
    return total
