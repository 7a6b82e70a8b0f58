"""A stored trace over REST: how long lanes, the whole and tiles of it take, and their bytes.

`python -m benchmarks.trace_windows [--queries 400] [--keep NAME]`

Real PostgreSQL, nats-server, analyzer and gateway, the last two in processes of their own. A
made-up run of 400 queries is 1 M spans, of 4,000 about 10 M. Printed are the first request for the
lanes (the run is read and laid out), the next one, every span as one Arrow stream where they are at
most 2 M, tiles of the whole range for 2,000 pixels, then of a tenth and a hundredth of it, and one
span's details; with the memory of the analyzer. Wanted: 1 M spans whole within 0.5 s, tiles of
10 M within 0.5 s.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from benchmarks.live_trace import fields_of, gateway, gateway_listens, settings_of
from benchmarks.stored_run import EVALUATION, stored
from benchmarks.timing import keeping, peak_bytes
from cli.cluster.ports import free_port
from cli.cluster.servers.nats_server import NatsServer
from cli.cluster.servers.postgres import Postgres
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from services.analyzer.service import serve

PIXELS = 2_000
REPEATS = 5
WHOLE_SPANS = 2_000_000
WANTED_S = 0.5
_SPAWN = multiprocessing.get_context("spawn")


def analyzer(fields: dict[str, Any]) -> None:
    """Answer until the process ends."""
    settings = Settings(**fields)

    async def run() -> None:
        async with connect(settings, "analyzer") as bus:
            await serve(bus, settings, asyncio.Event())

    asyncio.run(run())


async def timed(
    ask: Callable[[], Awaitable[httpx.Response]], repeats: int = REPEATS
) -> tuple[float, httpx.Response]:
    """Return the median time of a request, and its last answer."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        answer = await ask()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), answer


async def measure(port: int, analyzer_pid: int, spans: int) -> bool:
    """Ask for everything, print what it took; whether it is as wanted."""
    print(f"{spans:,} spans stored; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':34} {'s':>7} {'MB':>7} {'rows':>9} {'of spans':>11}")
    run = f"/api/evaluations/{EVALUATION}/runs/r0"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300) as web:

        async def spans_of(**window: int) -> httpx.Response:
            return await web.get(f"{run}/spans", params=window)

        for _ in range(100):  # until the analyzer answers
            if (await web.get("/api/evaluations/none/runs/r0/trace")).status_code != 503:
                break
            await asyncio.sleep(0.2)
        first_s, overview = await timed(lambda: web.get(f"{run}/trace"), 1)
        shown("lanes, the first time", first_s, overview)
        again_s, _ = await timed(lambda: web.get(f"{run}/trace"))
        shown("lanes again", again_s, overview)
        begin, end = overview.json()["range_ns"]
        length = end - begin
        is_good = True
        if spans <= WHOLE_SPANS:
            for title, repeats in (("every span, the first time", 1), ("every span again", 3)):
                whole_s, answer = await timed(spans_of, repeats)
                shown(title, whole_s, answer)
            drawn = {"columns": "lane,depth,start,duration,name,id"}
            drawn_s, answer = await timed(lambda: web.get(f"{run}/spans", params=drawn), 1)
            shown("every span, what is drawn", drawn_s, answer)
            million_s = drawn_s / spans * 1e6
            is_good = claim("a million spans over REST", million_s, most=WANTED_S, unit="s")
        for part in (1, 10, 100):
            window = {"t0": begin + length // 3, "t1": begin + length // 3 + length // part}
            window = window if part > 1 else {"t0": begin, "t1": end}
            window["min_ns"] = (window["t1"] - window["t0"]) // PIXELS
            tiles_s, tiles = await timed(lambda window=window: spans_of(**window), 1)  # type: ignore[misc]
            shown(f"tiles of 1/{part}, {PIXELS} pixels", tiles_s, tiles)
            is_good &= claim(f"tiles of 1/{part} of a trace", tiles_s, most=WANTED_S, unit="s")
        details_s, details = await timed(lambda: web.get(f"{run}/spans/12"))
        shown("one span", details_s, details)
    print(f"analyzer: at most {peak_bytes(analyzer_pid) / 1e9:.2f} GB")
    print(f"wanted: {WANTED_S} s a million spans, {WANTED_S} s for tiles: {is_good}")
    return is_good


def shown(title: str, seconds: float, answer: httpx.Response) -> None:
    """Print one line."""
    answer.raise_for_status()
    rows, spans = (answer.headers.get(f"Mlscope-{name}", "") for name in ("rows", "spans"))
    print(f"{title:34} {seconds:7.3f} {len(answer.content) / 1e6:7.2f} {rows:>9} {spans:>11}")


def main() -> int:
    """Measure and print; 1 where it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--keep", default="", metavar="NAME", help="write results/NAME.txt too")
    options = parser.parse_args()
    with (
        keeping(options.keep, is_wanted=bool(options.keep)),
        new_folder() as folder,
        NatsServer(Path(folder) / "nats") as server,
        Postgres(Path(folder) / "postgres") as postgres,
    ):
        address, port = postgres.admin_url(), free_port()
        spans = stored(address, options.queries)
        asyncio.run(provision(settings_of(server, "provisioner", port)))
        fields = fields_of(server, "analyzer", port) | {"database_url": address}
        processes = [
            _SPAWN.Process(target=analyzer, args=(fields,)),
            _SPAWN.Process(target=gateway, args=(fields_of(server, "gateway", port),)),
        ]
        for process in processes:
            process.start()
        try:
            asyncio.run(gateway_listens(port))
            is_good = asyncio.run(measure(port, processes[0].pid or 0, spans))
        finally:
            for process in processes:
                process.terminate()
                process.join()
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
