"""Chunks in the store of artifacts that nothing refers to: uploads that were killed left them."""

import json
from collections.abc import Iterable
from datetime import datetime

from mlscope.bus.nats.connection import Connection

ABANDONED_S = 86_400.0
"""After so long without another chunk an upload is taken as dead: a machine may sleep meanwhile."""


async def held_chunks(connection: Connection, bucket: str) -> tuple[set[str], datetime]:
    """Return the ids of all chunks in a store, and the time of its server. Raises BusError."""
    prefix = f"$O.{bucket}.C."
    api = f"$JS.API.STREAM.INFO.OBJ_{bucket}"
    told = await connection.call(api, {"subjects_filter": f"{prefix}>"})
    subjects = told["state"].get("subjects") or {}
    return {subject.removeprefix(prefix) for subject in subjects}, _time(told["ts"])


async def abandoned(
    connection: Connection, bucket: str, ids: Iterable[str], before_s: float, now: datetime
) -> list[str]:
    """Return which ids got no chunk for `before_s`, by the server's clock. Raises BusError."""
    return [
        each
        for each in ids
        if (now - await _last_chunk(connection, bucket, each, now)).total_seconds() >= before_s
    ]


async def _last_chunk(
    connection: Connection, bucket: str, id_of_chunks: str, now: datetime
) -> datetime:
    """Return when the last chunk came; now where there is none any more."""
    asked = json.dumps({"last_by_subj": f"$O.{bucket}.C.{id_of_chunks}"}).encode()
    message = await connection.request(f"$JS.API.DIRECT.GET.OBJ_{bucket}", asked)
    headers = message.headers or {}
    return _time(headers["Nats-Time-Stamp"]) if "Nats-Time-Stamp" in headers else now


def _time(text: str) -> datetime:
    """Read a time of the server's: RFC 3339, with nanoseconds, which Python cuts."""
    return datetime.fromisoformat(text)
