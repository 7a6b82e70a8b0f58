"""How soon pages come with many evaluations stored, and how much JavaScript they bring.

`python -m benchmarks.pages [--evaluations 10000] [--tries 15]`

The real gateway on loopback, over a bus in this process on which the scheduler's own index answers:
both share one core, so the times are upper bounds. Printed are the median and the worst time to the
first byte of each page, the first contentful paint in Chromium, and the
gzipped JavaScript that the page loads before anything is clicked. Wanted: first byte within
100 ms, contentful within 500 ms, JavaScript below 60 kB.
"""

import argparse
import asyncio
import gzip
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import httpx
from playwright.async_api import Browser, async_playwright

from benchmarks.claims import claim
from cli.offline.planning import shipped_catalog
from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand, Recorded
from mlscope.evaluation.status import status_of
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Estimate, Headline
from schemas.encoding.codec import decode_body, encode_body
from schemas.evaluation import EvaluationAnalyzed, EvaluationCancelled, EvaluationRequested
from schemas.message import Envelope, Fact
from schemas.request import Evaluate, ListEvaluations, ShowCatalog, ShowEvaluation
from schemas.status import Catalog
from schemas.subjects import REQUEST, subject_of
from services.gateway.service import serve
from services.scheduler.evaluation.index import EvaluationIndex

PAGES = (
    "/",
    "/evaluations",
    "/evaluations?page=150",
    "/evaluations?search=resnet+build%3D7",
    "/evaluations?sort=throughput",
    "/evaluations?search=nothing-like-it",
    "/new",
    "/compare",
    "/models",
    "/models?q=resnet",
    "/datasets",
    "/scenarios",
)
MANIFESTS = Path(__file__).parents[1] / "manifests"
MOST_FIRST_BYTE_MS, MOST_CONTENTFUL_MS, MOST_SCRIPT_BYTES = 100, 500, 60_000
_LOADS = 5
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"
_MODELS = ("resnet50", "bert-base", "efficientnet-lite0", "yolo-v8", "whisper-tiny")


def index_of(count: int) -> EvaluationIndex:
    """Return the scheduler's index with this many evaluations, a tenth of them cancelled."""
    index = EvaluationIndex(pages="/evaluations/", max_ended=count)
    sequence = 0
    for number in range(count):
        name = f"{number:016x}"
        request = Evaluate(
            model=_MODELS[number % len(_MODELS)], labels={"build": str(number % 50), "by": "bench"}
        )
        facts: list[Fact] = [
            EvaluationRequested(evaluation=name, request=request, requested_ns=number * 10**9)
        ]
        if number % 10 == 0:
            facts.append(EvaluationCancelled(evaluation=name, reason="enough"))
        else:
            facts.append(_analyzed(name, number))
        for fact in facts:
            sequence += 1
            envelope = Envelope.around(fact, id=f"{sequence}", cause="", time_ns=sequence)
            index.follow(Recorded(subject_of(fact), sequence, envelope, fact))
    return index


def _analyzed(name: str, number: int) -> EvaluationAnalyzed:
    latency_ns = 5e6 + number % 997 * 1e3
    headline = Headline(
        run="b1-online-model",
        agent="a1",
        scenario="online",
        latency_ns=Estimate(value=latency_ns, low=latency_ns * 0.99, high=latency_ns * 1.01),
        samples_per_s=Estimate(value=1e9 / latency_ns, low=150.0, high=250.0),
    )
    return EvaluationAnalyzed(evaluation=name, tables=("latency",), headlines=(headline,))


async def answer_from(index: EvaluationIndex, bus: Bus) -> None:
    """Answer the commands of the pages on a bus, from the index and the shipped catalog."""
    shipped = shipped_catalog(MANIFESTS)
    by_kind = {
        kind: encode_body(Catalog(**{field: getattr(shipped, field)}))
        for kind, field in (("model", "models"), ("dataset", "datasets"), ("scenario", "scenarios"))
    }
    everything = encode_body(shipped)

    async def listed(command: ReceivedCommand) -> bytes:
        return encode_body(index.listed(decode_body(ListEvaluations, command.body)))

    async def shown(command: ReceivedCommand) -> bytes:
        name = decode_body(ShowEvaluation, command.body).evaluation
        return encode_body(status_of(index.open[name]))

    async def catalog(command: ReceivedCommand) -> bytes:
        kind = decode_body(ShowCatalog, command.body).kind
        return by_kind.get(kind, encode_body(Catalog())) if kind else everything

    for verb, answerer in (("evaluations", listed), ("evaluation", shown), ("catalog", catalog)):
        await bus.answer(f"{REQUEST}.{verb}", answerer, queue=verb)


@asynccontextmanager
async def gateway_over(index: EvaluationIndex) -> AsyncIterator[str]:
    """Lend the address of a gateway whose scheduler is `index`."""
    server = MemoryServer()
    async with connect(server, "scheduler") as scheduler, connect(server, "gateway") as bus:
        await answer_from(index, scheduler)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(bus, Settings(gateway_port=port), stop))
        await asyncio.sleep(0.5)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            stop.set()
            await serving


async def first_bytes_ms(web: httpx.AsyncClient, path: str, tries: int) -> list[float]:
    """Return the times to the first byte of a page, without the very first try."""
    times = []
    for _ in range(tries + 1):
        begun = time.perf_counter()
        async with web.stream("GET", path) as response:
            assert response.status_code == 200, (path, response.status_code)
            async for _ in response.aiter_raw():
                break
        times.append((time.perf_counter() - begun) * 1e3)
    return times[1:]


async def seen_in(browser: Browser, url: str) -> tuple[float, int]:
    """Return the first contentful paint (ms) of a page, and the gzipped bytes of its scripts.

    The paint is the median of loads with an empty cache.
    """
    contentful_ms, script_bytes = [], 0
    for _ in range(_LOADS):
        context = await browser.new_context(bypass_csp=True)
        page = await context.new_page()
        await page.goto(url)
        await page.wait_for_function(f"{_PAINT} !== undefined")
        contentful_ms.append(float(await page.evaluate(f"{_PAINT}.startTime")))
        names = "performance.getEntriesByType('resource').map((entry) => entry.name)"
        scripts = [name for name in await page.evaluate(names) if name.endswith(".js")]
        bodies = [await (await context.request.get(name)).body() for name in scripts]
        script_bytes = sum(len(gzip.compress(body)) for body in bodies)
        await context.close()
    return median(contentful_ms), script_bytes


async def measure(evaluations: int, tries: int) -> bool:
    """Print the figures of every page; tell whether all are within their bounds."""
    begun = time.perf_counter()
    index = index_of(evaluations)
    print(f"{evaluations} evaluations folded in {time.perf_counter() - begun:.1f} s")
    print(f"{'page':<42} {'first byte ms':>14} {'worst':>7} {'contentful ms':>14} {'JS gz':>8}")
    is_within = True
    async with (
        gateway_over(index) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as web,
        async_playwright() as driver,
    ):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = await driver.chromium.launch(executable_path=program, args=flags)
        for path in PAGES:
            times = await first_bytes_ms(web, path, tries)
            contentful_ms, script_bytes = await seen_in(browser, f"{url}{path}")
            middle = median(times)
            print(
                f"{path:<42} {middle:14.1f} {max(times):7.1f} {contentful_ms:14.0f} "
                f"{script_bytes:8d}"
            )
            verdicts = (
                claim(f"{path}: first byte", middle, most=MOST_FIRST_BYTE_MS, unit="ms"),
                claim(f"{path}: contentful", contentful_ms, most=MOST_CONTENTFUL_MS, unit="ms"),
                claim(
                    f"{path}: JS",
                    script_bytes / 1e3,
                    most=MOST_SCRIPT_BYTES / 1e3,
                    unit="kB gzipped",
                ),
            )
            is_within &= all(verdicts)
        await browser.close()
    print("within the bounds" if is_within else "OUTSIDE the bounds")
    return is_within


def main() -> int:
    """Measure; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=10_000)
    parser.add_argument("--tries", type=int, default=15)
    options = parser.parse_args()
    return not asyncio.run(measure(options.evaluations, options.tries))


if __name__ == "__main__":
    sys.exit(main())
