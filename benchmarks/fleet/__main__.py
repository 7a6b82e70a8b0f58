"""A fleet of simulated agents: what it costs the services, how soon it is matched and shown.

`python -m benchmarks.fleet [--agents 100 1000] [--seconds 30] [--tries 40] [--keep]`

A cluster as `mlscope up` starts it, and a process of its own with simulated agents. Each holds a
lease and renews it at every heartbeat, announces what the cluster's own agent announces, on one of
four machines, and accepts every command. For each size of the fleet are printed: how long it takes
until all agents are known, the CPU time of the services for that, their share of a core while the
agents beat and one request a second is matched, and their memory. Then, with the largest fleet: how
long it takes to match a request, as a function, as a command over the bus, and until a request is
accepted; and how long pages take.

Claims: with the smallest fleet the scheduler uses <= 10 % of a core; with the largest one, matching
takes <= 20 ms and a page of the fleet <= 200 ms. Matching is claimed by CPU time: the median of the
function, and of a whole command the scheduler's mean, with what it does for the agents that beat
meanwhile. By the wall clock a command also waits for a core, because agents, broker and services
share this machine: that is printed, and not claimed. Floors in the same run: another command, and a
page without agents.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import httpx
import numpy as np

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from benchmarks.fleet.simulated import simulated
from benchmarks.memory import resident
from benchmarks.timing import cpu_s, keeping
from cli.cluster.state import read_state
from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.client.asking import ask, ask_for, command_of
from mlscope.settings import Settings
from schemas.request import Accepted, Cancel, Evaluate, ListEvaluations, Match, ShowCatalog
from schemas.status import Catalog, Matched
from services.scheduler.placement.matching import match
from services.scheduler.shared_parts import SharedParts

MOST_CORE_PERCENT, MOST_MATCHING_MS, MOST_PAGE_MS = 10.0, 20.0, 200.0
SERVICES = ("scheduler", "registry", "gateway", "nats")
MODEL = "efficientnet-lite0"
REQUESTS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "every agent fits": {},
        "on every agent of a zone": {"spread": "all", "system": {"labels": {"zone": "3"}}},
        "a GPU": {"model": "torchvision-resnet50", "system": {"accelerator": "H200"}},
        "ARM, in a zone": {"system": {"architecture": "arm64", "labels": {"zone": "1"}}},
        "a named agent": {"agents": ["s7"]},
    }
)
PAGES = ("/agents", "/", "/api/catalog?kind=agent")
FLOOR_PAGE = "/scenarios"
_KNOWN_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The cluster in `folder`, a requester's `bus`, the fleet, and how much is measured."""

    folder: Path
    bus: Bus
    fleet: Connection
    seconds: float
    tries: int


def fields_of_request(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request for a short run."""
    scenario = {"name": "online", "parameters": {"queries": 8}}
    return {"model": MODEL, "scenarios": [scenario], **changes}


def cpu_by_service(folder: Path) -> dict[str, float]:
    """Return the CPU time (s) that each service has used so far, with its children."""
    return {name: cpu_s(pid) for name, (pid, _) in resident(folder).items() if name in SERVICES}


async def agents_known(bus: Bus) -> int:
    """Return how many agents the scheduler would take for a request that all of them fit."""
    command = command_of(Match, fields_of_request({}))
    return len((await ask_for(bus, command, Matched)).agents)


async def grown(bench: Bench, size: int) -> None:
    """Have the fleet grow to a `size`, and print what that took."""
    before, began = cpu_by_service(bench.folder), time.monotonic()
    bench.fleet.send(size)
    await asyncio.to_thread(bench.fleet.recv)
    joined_s = time.monotonic() - began
    while await agents_known(bench.bus) <= size:
        assert time.monotonic() - began < _KNOWN_WITHIN_S, "not every agent became known"
        await asyncio.sleep(0.2)
    known_s = time.monotonic() - began
    used = {name: s - before[name] for name, s in cpu_by_service(bench.folder).items()}
    texts = ", ".join(f"{name} {s:.2f}" for name, s in used.items())
    print(f"{size} agents joined in {joined_s:.1f} s, known after {known_s:.1f} s; CPU s: {texts}")


async def beating(bench: Bench) -> dict[str, float]:
    """Return each service's share of a core in percent: agents beat, requests are matched."""
    before, began = cpu_by_service(bench.folder), time.monotonic()
    for second in range(1, round(bench.seconds) + 1):
        await ask(bench.bus, command_of(Match, fields_of_request({})))
        await asyncio.sleep(max(0.0, began + second - time.monotonic()))
    elapsed_s = time.monotonic() - began
    after = cpu_by_service(bench.folder)
    return {name: 100 * (after[name] - before[name]) / elapsed_s for name in after}


async def costs(bench: Bench, size: int) -> float:
    """Print what a fleet of a `size` costs; return the scheduler's share of a core in percent."""
    await grown(bench, size)
    shares = await beating(bench)
    sizes = {name: size_bytes for name, (_, size_bytes) in resident(bench.folder).items()}
    for name, share in shares.items():
        print(f"  {name:10s} {share:6.1f} % of a core   {sizes[name] / 1e6:7.1f} MB")
    return shares["scheduler"]


async def timed_ms(
    tries: int,
    action: Callable[[], Awaitable[object]],
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return how long an action took each time by a `clock` (s), in ms.

    The very first time does not count.
    """
    times = []
    for _ in range(tries + 1):
        began = clock()
        await action()
        times.append((clock() - began) * 1e3)
    return times[1:]


def print_times(label: str, times_ms: list[float]) -> tuple[float, float]:
    """Print and return the median and the 99th percentile of times, in ms."""
    middle, p99 = median(times_ms), float(np.percentile(times_ms, 99, method="higher"))
    print(f"  {label:44s} {middle:8.1f} ms   p99 {p99:8.1f} ms", flush=True)
    return middle, p99


async def matched(bench: Bench) -> bool:
    """Print how long matching takes; tell whether all of it keeps to its budget."""
    catalog, shared = await ask_for(bench.bus, ShowCatalog(), Catalog), SharedParts()
    # As the scheduler keeps it.
    agents = tuple(map(shared.of, catalog.agents))
    catalog = catalog.model_copy(update={"agents": agents})
    command, met = ListEvaluations(limit=1), True
    times_ms = await timed_ms(bench.tries, lambda: ask(bench.bus, command))
    floor, _ = print_times("floor: a list of evaluations", times_ms)
    for name, changes in REQUESTS.items():
        request, question = (
            command_of(Evaluate, fields_of_request(changes)),
            command_of(Match, fields_of_request(changes)),
        )

        async def pure(request: Evaluate = request) -> None:
            match(request, catalog, {})

        async def ask_scheduler(question: Match = question) -> None:
            await ask(bench.bus, question)

        label = f"the function: {name}"
        middle, _ = print_times(label, await timed_ms(bench.tries, pure, time.thread_time))
        met &= claim(label, middle, most=MOST_MATCHING_MS, unit="ms of CPU time")
        before_s = cpu_by_service(bench.folder)["scheduler"]
        times_ms = await timed_ms(bench.tries, ask_scheduler)
        used_s = cpu_by_service(bench.folder)["scheduler"] - before_s
        label = f"the command: {name}"
        middle, _ = print_times(label, times_ms)
        cpu_ms = 1e3 * used_s / (bench.tries + 1)
        print(f"  {'its CPU time in the scheduler':44s} {cpu_ms:8.1f} ms   mean")
        peer = f"by the wall clock {middle:.1f} ms, another command {floor:.1f} ms"
        met &= claim(label, cpu_ms, most=MOST_MATCHING_MS, unit="ms of CPU time", peer=peer)
    return met


async def accepted(bench: Bench) -> None:
    """Print how soon a request is accepted; each is cancelled again."""

    async def evaluated() -> None:
        answer = await ask_for(bench.bus, command_of(Evaluate, fields_of_request({})), Accepted)
        started.append(answer.evaluation)

    started: list[str] = []
    print_times("accepted: every agent fits", await timed_ms(bench.tries, evaluated))
    for evaluation in started:
        await ask(bench.bus, Cancel(evaluation=evaluation))


def pages_of(folder: Path) -> httpx.AsyncClient:
    """Return a client of the gateway, with its token."""
    state = read_state(folder)
    token = Path(state.gateway_token_file).read_text("ascii").strip()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=state.gateway_url, headers=headers, timeout=60)


async def shown(bench: Bench) -> bool:
    """Print how long pages take; tell whether those of the fleet keep to their budget."""
    met = True
    async with pages_of(bench.folder) as web:

        async def get(path: str) -> int:
            response = await web.get(path)
            assert response.is_success, (path, response.status_code)
            return len(response.content)

        floor, _ = print_times(
            f"floor: {FLOOR_PAGE}", await timed_ms(bench.tries, lambda: get(FLOOR_PAGE))
        )
        for path in PAGES:
            size_bytes = await get(path)
            times_ms = await timed_ms(bench.tries, lambda path=path: get(path))  # type: ignore[misc]
            middle, _ = print_times(f"{path}  ({size_bytes / 1e3:,.0f} kB)", times_ms)
            peer = f"{FLOOR_PAGE} {floor:.1f} ms"
            met &= claim(f"{path}", middle, most=MOST_PAGE_MS, unit="ms", peer=peer)
    return met


async def measure(folder: Path, options: argparse.Namespace) -> bool:
    """Measure with the cluster in a `folder`, as the `options` say; tell whether claims are met."""
    url, keys = read_state(folder).nats_url, folder / "keys"
    requester = Settings(nats_url=url, nats_seed_file=keys / "requester.nk")
    async with connect(requester, "requester") as bus:
        own = (await ask_for(bus, ShowCatalog(kind="agent"), Catalog)).agents[0].announcement
        with simulated(url, keys / "agent.nk", own) as fleet:
            bench = Bench(folder, bus, fleet, options.seconds, options.tries)
            first, *further = sorted(options.agents)
            share = await costs(bench, first)
            subject = f"scheduler, {first} agents"
            met = claim(subject, share, most=MOST_CORE_PERCENT, unit="% of a core")
            for size in further:
                await costs(bench, size)
            print(f"{max(options.agents)} agents:")
            met &= await matched(bench)
            await accepted(bench)
            return await shown(bench) and met


def main() -> int:
    """Measure; return 1 if a claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--tries", type=int, default=40)
    parser.add_argument("--keep", action="store_true", help="keep what is printed as a result")
    options = parser.parse_args()
    with keeping("fleet", is_wanted=options.keep), new_folder() as folder, running(folder):
        met = asyncio.run(measure(folder, options))
        print("within the bounds" if met else "OUTSIDE the bounds")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
