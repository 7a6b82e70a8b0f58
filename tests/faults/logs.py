"""What a trial reads of the brokers: who leads a stream, and when the newest decision was said."""

import asyncio

from mlscope.bus.errors import BusError
from mlscope.bus.nats import connect
from mlscope.bus.nats.connection import Connection
from mlscope.bus.streams import BUCKETS, STORES, STREAMS
from schemas.subjects import decisions_of
from tests.faults.worlds import World

KEPT = (
    *(stream.name for stream in STREAMS),
    *(f"KV_{bucket.name}" for bucket in BUCKETS),
    *(f"OBJ_{store.name}" for store in STORES),
)
"""Every stream of the brokers."""
SILENT_NS = 3_000_000_000
"""A leader hears the brokers that keep copies every second."""


def brokers_are_whole(world: World) -> bool:
    """Tell whether each stream has a leader that hears every broker with a copy.

    A broker that was cut off forces elections, for up to 10 s, when it is back. What was written to
    it over a connection from before the cut is lost until that is given up, after 10 s.
    """

    async def ask() -> bool:
        connection = Connection(world.settings("provisioner"), "provisioner", patience_s=2.0)
        try:
            await connection.open(2.0)
            for name in KEPT:
                info = await connection.call(f"$JS.API.STREAM.INFO.{name}", {})
                servers = info.get("cluster") or {}
                copies = servers.get("replicas") or []
                if not servers.get("leader") or not all(
                    copy["current"] and copy["active"] < SILENT_NS for copy in copies
                ):
                    return False
        except BusError:
            return False
        finally:
            await connection.close()
        return True

    return asyncio.run(ask())


def leader_of(world: World, stream: str) -> str:
    """Return the broker that leads a stream, once there is one."""

    async def ask() -> str:
        connection = Connection(world.settings("provisioner"), "provisioner")
        await connection.open(10.0)
        try:
            for _ in range(300):
                info = await connection.call(f"$JS.API.STREAM.INFO.{stream}", {})
                if leader := info.get("cluster", {}).get("leader", ""):
                    return str(leader)
                await asyncio.sleep(0.1)
        finally:
            await connection.close()
        raise AssertionError(f"{stream} has no leader")

    return asyncio.run(ask())


def newest_time_ns(world: World, evaluation: str) -> int:
    """Return when the newest decision on an evaluation was made, by its own words, in epoch ns."""

    async def read() -> int:
        async with connect(world.settings("scheduler"), "scheduler") as bus:
            log = await bus.read(decisions_of(evaluation))
        return log[-1].envelope.time_ns

    return asyncio.run(read())
