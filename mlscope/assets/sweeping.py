"""Finds chunks in the store of artifacts that killed uploads left: no artifact refers to them."""

import json
from collections.abc import Iterable
from datetime import datetime

from mlscope.bus.nats.connection import Connection

ABANDONED_S = 86_400.0
"""Seconds without a new chunk after which an upload counts as dead: a machine may sleep."""


async def stored_chunks(connection: Connection, bucket: str) -> tuple[set[str], datetime]:
    """Return the ids of all chunks in a store, and the server's time. Raises BusError."""
    prefix = f"$O.{bucket}.C."
    api = connection.managing(f"STREAM.INFO.OBJ_{bucket}")
    info = await connection.call(api, {"subjects_filter": f"{prefix}>"})
    subjects = info["state"].get("subjects") or {}
    return {subject.removeprefix(prefix) for subject in subjects}, _time(info["ts"])


async def abandoned(
    connection: Connection, bucket: str, ids: Iterable[str], before_s: float, now: datetime
) -> list[str]:
    """Return those of `ids` in `bucket` without a new chunk for `before_s` seconds until `now`.

    `now` and the times of chunks are those of the server on `connection`. Raises BusError.
    """
    dead: list[str] = []
    for chunks_id in ids:
        request = json.dumps({"last_by_subj": f"$O.{bucket}.C.{chunks_id}"}).encode()
        message = await connection.request(f"$JS.API.DIRECT.GET.OBJ_{bucket}", request)
        # No time: the chunks were removed meanwhile.
        last = (message.headers or {}).get("Nats-Time-Stamp")
        if last is not None and (now - _time(last)).total_seconds() >= before_s:
            dead.append(chunks_id)
    return dead


def _time(text: str) -> datetime:
    """Parse a time of the server: RFC 3339 with nanoseconds, which Python truncates."""
    return datetime.fromisoformat(text)
