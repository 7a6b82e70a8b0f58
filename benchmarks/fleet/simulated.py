"""Simulated agents in a process of their own: they announce, beat and accept every command."""

import asyncio
import itertools
import multiprocessing
import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from mlscope.bus.bus import Bus
from mlscope.bus.nats import connect
from mlscope.bus.records import ReceivedCommand
from mlscope.settings import Settings
from schemas.agent import Accelerator, AgentAnnounced, Announcement, Runtime
from schemas.encoding.codec import encode_body, is_json
from schemas.level import Level
from schemas.message import derived_id
from schemas.plan import WorkAnswer
from schemas.subjects import agent_command
from services.agent.host.leasing import HeldLease

HEARTBEAT_S = 3.0
"""As agents beat by default."""
ZONES = 4
_GIB = 1 << 30
_AT_ONCE = 32
_SPAWN = multiprocessing.get_context("spawn")
_GPU = Accelerator(name="NVIDIA H200", vendor="nvidia", memory_bytes=141 * _GIB)
_PYTORCH = Runtime(
    framework="pytorch", version="2.9.1", devices=("cpu", "gpu"), deepest_level=Level.FRAMEWORK
)


def announcement_of(number: int, pattern: Announcement) -> Announcement:
    """Return what the agent of a `number` announces: the `pattern`, on one of four machines."""
    machine = number % ZONES
    changes: dict[str, object] = {"hostname": f"host{number}", "cores": 8 << machine}
    runtimes = pattern.runtimes
    if machine == 1:
        changes["architecture"], changes["cpu_model"] = "arm64", "Neoverse-V2"
    if machine == 2:
        changes["accelerators"] = (_GPU,) * 8
        runtimes = (*runtimes, _PYTORCH)
    return pattern.model_copy(
        update={
            "agent": f"s{number}",
            "incarnation": f"i{number}",
            "hardware": pattern.hardware.model_copy(update=changes),
            "runtimes": runtimes,
            "labels": {"zone": str(machine)},
        }
    )


async def accept(command: ReceivedCommand) -> bytes:
    """Accept any command."""
    return encode_body(WorkAnswer(accepted=True), json_text=is_json(command.body))


class Fleet:
    """Simulated agents on one connection."""

    def __init__(self, bus: Bus, pattern: Announcement) -> None:
        """Begin without an agent; all announce what the `pattern` says."""
        self._bus, self._pattern = bus, pattern
        self._beats: list[asyncio.Task[None]] = []
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def grow(self, size: int) -> None:
        """Have agents join, some at once, until there are `size`."""
        await asyncio.gather(*map(self._join, range(len(self._beats), size)))

    async def _join(self, number: int) -> None:
        described = announcement_of(number, self._pattern)
        lease = HeldLease(self._bus, described.agent, described.incarnation)
        async with self._free:
            await lease.claim(lambda _: False, 1.0)
            fact = AgentAnnounced(agent=described.agent, announcement=described)
            await self._bus.publish(fact, id=derived_id(described.incarnation, "announced", 0))
            await self._bus.answer(agent_command(described.agent, "*"), accept, queue=None)
        self._beats.append(asyncio.create_task(beat(lease)))


async def beat(lease: HeldLease) -> None:
    """Renew a lease for ever, at a phase of its own."""
    await asyncio.sleep(random.random() * HEARTBEAT_S)
    for _ in itertools.count():
        await lease.renew(())
        await asyncio.sleep(HEARTBEAT_S)


async def serve(sizes: Connection, nats_url: str, seed: Path, pattern: Announcement) -> None:
    """Keep a fleet like the `pattern` at a broker; `sizes` says how large, and is told when it is.

    `seed` is the file of the agents' key.
    """
    settings = Settings(nats_url=nats_url, nats_seed_file=seed)
    async with connect(settings, "agent") as bus:
        fleet = Fleet(bus, pattern)
        while size := await asyncio.to_thread(sizes.recv):
            await fleet.grow(size)
            sizes.send(size)


def fleet_process(sizes: Connection, nats_url: str, seed: Path, pattern: Announcement) -> None:
    """Be the process of a fleet; the parameters are those of `serve`."""
    asyncio.run(serve(sizes, nats_url, seed, pattern))


@contextmanager
def simulated(nats_url: str, seed: Path, pattern: Announcement) -> Iterator[Connection]:
    """Run a fleet like the `pattern` at a broker, by the key in the file `seed`.

    Send the size that it is to have on the connection; the size comes back once all have joined.
    """
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(
        target=fleet_process, args=(theirs, nats_url, seed, pattern), daemon=True
    )
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()
