"""A stranger: nats-py alone, as README shows it. Nothing of mlscope is imported here."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import nats
from nats.aio.client import Client as Connection

EVALUATE = "mlscope.v1.request.evaluate"


@asynccontextmanager
async def stranger(url: str, seed_file: Path, name: str = "requester") -> AsyncIterator["Stranger"]:
    """Connect with a key and its inbox prefix."""
    refusals: list[str] = []

    async def refused(error: Exception) -> None:
        refusals.append(str(error))

    nc = await nats.connect(
        url, nkeys_seed=str(seed_file), inbox_prefix=f"_INBOX_{name}".encode(), error_cb=refused
    )
    try:
        yield Stranger(nc, refusals)
    finally:
        await nc.close()


class Stranger:
    """A connection, and what the server refused it."""

    def __init__(self, nc: Connection, refusals: list[str]) -> None:
        self.nc, self.refusals = nc, refusals

    async def json(self, subject: str, request: Any) -> dict[str, Any]:
        """Ask in JSON and return the answer, which must be JSON."""
        answer = await self.nc.request(subject, json.dumps(request).encode(), timeout=10)
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def raw(self, subject: str, body: bytes) -> dict[str, Any]:
        """Ask with any bytes and return the answer."""
        data = (await self.nc.request(subject, body, timeout=10)).data
        told: dict[str, Any] = (
            json.loads(data) if data[:1] == b"{" else msgpack.unpackb(data, strict_map_key=False)
        )
        return told

    async def denied(self, count: int) -> str:
        """Return what the server refused, once it has refused so much, or not within seconds."""
        for _ in range(100):
            await self.nc.flush()
            if len(self.refusals) >= count:
                break
            await asyncio.sleep(0.05)
        return " ".join(self.refusals).lower()
