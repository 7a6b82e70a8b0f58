"""Live spans from broker to clients, counted: `python -m benchmarks.live_trace [--seconds 60]`.

A real nats-server and a gateway in a process of its own. An agent publishes batches as recorders
do: 5,000 spans a second in batches of 500 for 60 s. One client reads `?spans=1` over HTTP and
counts what arrives and how late; then 200 clients watch the same evaluation. Printed are spans
published and received, the delay from publishing to receiving, and CPU of the gateway in cores.
Wanted: none lost, at most 300 ms, at most 1 core. `--burst 5` publishes every 5 s at once instead,
as a recorder does that waits for the end of a block.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from benchmarks.timing import cpu_s, keeping
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from mlscope.tracing.batches import Attempt, trace_batch
from services.gateway.service import serve
from tests.stories import E, beginning

RATE, BATCH = 5_000, 500
WATCHERS = 200
WANTED_DELAY_MS, WANTED_CORES = 300.0, 1.0
_SPAWN = multiprocessing.get_context("spawn")
_NAMES = {f"layer {number}: a name as frameworks give them": number for number in range(100)}


@dataclass
class Received:
    """What one client got."""

    spans: int = 0
    bytes: int = 0
    missing: int = 0
    ids: set[int] = field(default_factory=set)
    delays_ms: list[float] = field(default_factory=list)


def fields_of(server: NatsServer, name: str, port: int) -> dict[str, Any]:
    """Return the settings of a connection that are not the defaults."""
    return {
        "nats_url": server.url,
        "nats_seed_file": server.seed_files[name],
        "gateway_port": port,
        "max_live_clients": WATCHERS + 8,
        "data_folder": server.folder,
    }


def settings_of(server: NatsServer, name: str, port: int) -> Settings:
    """Return the settings of a connection."""
    return Settings(**fields_of(server, name, port))


def gateway(fields: dict[str, Any]) -> None:
    """Serve with settings of these `fields` until the process ends."""
    settings = Settings(**fields)

    async def run() -> None:
        async with connect(settings, "gateway") as bus:
            await serve(bus, settings, asyncio.Event())

    asyncio.run(run())


async def publish(bus: Bus, seconds: float, burst_s: float, first: int) -> int:
    """Publish spans at the rate, evenly or in bursts; return how many. Ids begin at `first`.

    The start of each span is when its batch is published, so that a client can tell the delay.
    """
    period_s = burst_s or BATCH / RATE
    batches_a_period = max(round(period_s * RATE / BATCH), 1)
    began, sequence, total = time.monotonic(), first // BATCH, 0
    for period in range(1, round(seconds / period_s) + 1):
        await asyncio.sleep(max(began + period * period_s - time.monotonic(), 0))
        for _ in range(batches_a_period):
            now = time.monotonic_ns()
            rows = [
                (first + total + n, -1, 3, n % 100, now + 1000 * n, 900, n % 4, 0, 0, b"")
                for n in range(BATCH)
            ]
            batch = trace_batch(Attempt(E, "r0", 1, "a1"), sequence, rows, _NAMES)
            await bus.publish(batch, id=f"batch {sequence}")
            sequence, total = sequence + 1, total + BATCH
    return total


async def watch(url: str, received: Received, ready: asyncio.Event, *, keeps_ids: bool) -> None:
    """Read the events of the evaluation; note what arrives, ids only where `keeps_ids`."""
    address = f"{url}/api/evaluations/{E}/events?spans=1"
    async with httpx.AsyncClient(timeout=None) as web, web.stream("GET", address) as response:
        tail = b""
        async for chunk in response.aiter_bytes():
            ready.set()
            received.bytes += len(chunk)
            if not keeps_ids:
                received.spans += chunk.count(b"event: spans")
                continue
            *blocks, tail = (tail + chunk).split(b"\n\n")
            now = time.monotonic_ns()
            for block in blocks:
                kind, _, data = block.partition(b"\ndata: ")
                if kind.endswith(b"event: gap"):
                    received.missing += json.loads(data).get("count", 0) or 1
                if kind.endswith(b"event: spans"):
                    content = json.loads(data)
                    received.spans += len(content["id"])
                    received.ids.update(content["id"])
                    if content["start"]:
                        received.delays_ms.append((now - min(content["start"])) / 1e6)


async def measure(port: int, server: NatsServer, pid: int, options: Any) -> bool:
    """Run both parts against a gateway on `port` with the process id `pid`, and print them."""
    url = f"http://127.0.0.1:{port}"
    async with connect(settings_of(server, "agent", port), "agent") as agent:
        checked, first = Received(), 0
        is_good = True
        for watchers, seconds in ((1, options.seconds), (WATCHERS, options.crowd_seconds)):
            counted = [Received() for _ in range(watchers - 1)]
            checked = Received()
            async with AsyncExitStack() as stack:
                ready = []
                for number, received in enumerate([checked, *counted]):
                    ready.append(asyncio.Event())
                    watching = asyncio.create_task(
                        watch(url, received, ready[-1], keeps_ids=number == 0)
                    )
                    stack.callback(watching.cancel)
                await asyncio.wait_for(asyncio.gather(*(event.wait() for event in ready)), 60)
                checked.missing = 0  # what came before it joined
                busy, began = cpu_s(pid), time.monotonic()
                published = await publish(agent, seconds, options.burst, first)
                wall_s = time.monotonic() - began
                await asyncio.sleep(1.0)
                cores = (cpu_s(pid) - busy) / wall_s
            first += published
            is_good &= printed(watchers, published, wall_s, cores, checked, counted)
    return is_good


def printed(
    watchers: int,
    published: int,
    wall_s: float,
    cores: float,
    checked: Received,
    counted: list[Received],
) -> bool:
    """Print one part; whether it is as wanted."""
    delays = np.quantile(checked.delays_ms or [0.0], [0.5, 0.99, 1.0])
    lost = published - len(checked.ids)
    print(
        f"{watchers:4} watching: {published:,} spans published in {wall_s:.0f} s, "
        f"{checked.spans:,} received, {lost} lost, gaps count {checked.missing}"
    )
    print(
        f"     delay p50 {delays[0]:.0f} ms, p99 {delays[1]:.0f} ms, worst {delays[2]:.0f} ms "
        f"(wanted: {WANTED_DELAY_MS:.0f}); gateway {cores:.2f} cores (wanted: {WANTED_CORES:g}); "
        f"{checked.bytes / published:.0f} bytes a span"
    )
    if counted:
        events = [received.spans for received in counted]
        print(f"     events for each of the others: {min(events)} to {max(events)}")
    claim(f"spans lost, {watchers} watching", lost, most=0, unit="spans")
    claim(f"p99 of delays, {watchers} watching", delays[1], most=WANTED_DELAY_MS, unit="ms")
    claim(f"gateway, {watchers} watching", cores, most=WANTED_CORES, unit="cores")
    return lost == 0 and cores <= WANTED_CORES


async def provisioned(server: NatsServer, port: int) -> None:
    """Make the streams, and tell the beginning of an evaluation."""
    await provision(settings_of(server, "provisioner", port))
    async with connect(settings_of(server, "scheduler", port), "scheduler") as scheduler:
        for number, fact in enumerate(beginning()):
            await scheduler.publish(fact, id=f"fact {number}")


async def gateway_listens(port: int) -> None:
    """Return once the gateway answers."""
    async with httpx.AsyncClient() as web:
        for _ in range(200):
            try:
                await web.get(f"http://127.0.0.1:{port}/healthz")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--crowd-seconds", type=float, default=20.0)
    parser.add_argument("--burst", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    with (
        keeping(options.keep, is_wanted=bool(options.keep)),
        new_folder() as folder,
        NatsServer(Path(folder)) as server,
    ):
        port = free_port()
        asyncio.run(provisioned(server, port))
        process = _SPAWN.Process(target=gateway, args=(fields_of(server, "gateway", port),))
        process.start()
        try:
            asyncio.run(gateway_listens(port))
            print(f"load average {os.getloadavg()[0]:.1f} at the beginning")
            is_good = asyncio.run(measure(port, server, process.pid or 0, options))
        finally:
            process.terminate()
            process.join()
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
