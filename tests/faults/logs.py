"""What a trial reads of the brokers: who leads a stream, and when the newest decision was said."""

import asyncio

from mlscope.bus.nats import connect
from mlscope.bus.nats.connection import Connection
from schemas.subjects import decisions_of
from tests.faults.worlds import World


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
