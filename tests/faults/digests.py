"""Compares what live services say of their state with what the log leads to, folded from empty."""

import asyncio
import json
from pathlib import Path

from cli.cluster.state import read_state
from mlscope.bus import nats
from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.settings import Settings
from schemas.subjects import ROOT
from services.registry.state import RegistryState, digest, evolve
from services.scheduler.evaluation.index import digest_of_log

WITHIN_S = 20.0


def settings_of(cluster: Path, key: str) -> Settings:
    """Return settings that connect with one of the cluster's keys."""
    return Settings.read(
        {
            "MLSCOPE_NATS_URL": read_state(cluster).nats_url,
            "MLSCOPE_NATS_SEED_FILE": str(cluster / "keys" / f"{key}.nk"),
        }
    )


async def folded(scheduler: Bus, registry: Bus) -> dict[str, str]:
    """Return the digest of each log, read anew."""
    state = RegistryState()
    for subject in (f"{ROOT}.manifest.>", f"{ROOT}.agent.>"):
        for recorded in await registry.read(subject):
            state = evolve(state, recorded)
    log = await scheduler.read(f"{ROOT}.*.>")
    return {"scheduler": digest_of_log(log), "registry": digest(state)}


async def reported(requester: Bus) -> dict[str, str]:
    """Return the digest each service tells by NATS's own discovery."""
    told = {}
    for service in ("scheduler", "registry"):
        answer = await requester.ask(f"$SRV.STATS.{service}", b"", timeout_s=2.0)
        endpoints = json.loads(answer)
        told[service] = endpoints.get("data", endpoints["endpoints"][0].get("data"))["digest"]
    return told


async def differing(cluster: Path) -> list[str]:
    """Return the services whose digest is not the log's; a service may lag a while."""
    names = ("scheduler", "registry", "requester")
    async with (
        nats.connect(settings_of(cluster, names[0]), names[0]) as scheduler,
        nats.connect(settings_of(cluster, names[1]), names[1]) as registry,
        nats.connect(settings_of(cluster, names[2]), names[2]) as requester,
        asyncio.timeout(WITHIN_S),
    ):
        different = list(names)
        for _ in range(int(WITHIN_S / 0.2)):
            await asyncio.sleep(0.2)
            try:
                told = await reported(requester)
            except BusError:  # the service is being started again
                continue
            true = await folded(scheduler, registry)
            different = [name for name, each in true.items() if told[name] != each]
            if not different:
                break
        return different
