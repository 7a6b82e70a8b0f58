"""A stream as the server's own snapshot: messages, sequences, headers, stamps and consumers (I/O).

The server sends a snapshot in chunks, acknowledged where it asks for that, and ends with an empty
one; it takes one back likewise, for a stream that does not exist.
JetStream API: https://docs.nats.io/reference/reference-protocols/nats_api_reference
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from mlscope.bus.errors import BusError, ServerRefused, Unreachable
from mlscope.bus.nats.connection import Connection, Msg, Subscription

_CHUNK_BYTES = 128 * 1024
_CHUNK_WITHIN_S = 60.0


async def snapshot_stream(
    connection: Connection, stream: str, take: Callable[[bytes], object]
) -> dict[str, Any]:
    """Call `take` with each chunk of the snapshot of a `stream`, and return what restores it.

    It is read over `connection`. Returned are the stream's configuration and state. Raises
    ServerRefused, NoAnswer, Unreachable.
    """
    api = f"$JS.API.STREAM.SNAPSHOT.{stream}"
    chunks: asyncio.Queue[Msg | BusError] = asyncio.Queue()
    token = connection.expect(api, chunks.put_nowait, chunks.put_nowait)
    subscription: Subscription | None = None
    try:
        # A server waits 2 s for a subscription to this very subject, and ends the snapshot when it
        # goes; a wildcard does not count. Below the token, out of the wildcard's reach, each chunk
        # comes once.
        chunks_subject = f"{token}.chunks"
        subscription = await connection.subscribe(chunks_subject, chunks.put_nowait)
        request = {"deliver_subject": chunks_subject, "chunk_size": _CHUNK_BYTES}
        # Asked once: a second request would send a second snapshot to the same subject.
        answer = await connection.request(
            api, json.dumps(request).encode(), timeout_s=_CHUNK_WITHIN_S
        )
        described = json.loads(answer.data)
        if "error" in described:
            raise ServerRefused.of(api, described["error"])
        while True:
            async with asyncio.timeout(_CHUNK_WITHIN_S):
                chunk = await chunks.get()
            if isinstance(chunk, BusError):
                raise chunk
            if not chunk.data:
                break
            take(bytes(chunk.data))
            if chunk.reply:
                await connection.send(chunk.reply, b"")
    except TimeoutError as error:
        raise Unreachable(f"{api}: the snapshot stopped") from error
    finally:
        connection.forget(token)
        if subscription is not None:
            await connection.unsubscribe(subscription)
    status = (chunk.headers or {}).get("Status", "")
    if status not in ("", "204"):
        description = (chunk.headers or {}).get("Description", "")
        raise Unreachable(f"{api}: the snapshot failed: {status} {description}")
    return {"config": described["config"], "state": described["state"]}


async def restore_stream(
    connection: Connection, stream: str, described: Mapping[str, Any], chunks: Iterable[bytes]
) -> None:
    """Make `stream` over `connection` from the `chunks` of a snapshot.

    `described` is what `snapshot_stream` returned of it.

    Raises ServerRefused (also for a stream that exists), Unreachable.
    """
    api = f"$JS.API.STREAM.RESTORE.{stream}"
    answer = await connection.call(api, described)
    chunks_subject = str(answer["deliver_subject"])
    for chunk in chain(chunks, (b"",)):
        reply = await connection.request(chunks_subject, chunk, timeout_s=_CHUNK_WITHIN_S)
        if reply.data and "error" in (answer := json.loads(reply.data)):
            raise ServerRefused.of(api, answer["error"])
