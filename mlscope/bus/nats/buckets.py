"""Key-value buckets over JetStream: a bucket is a stream that keeps the last message of a subject.

A key whose lease ran out is told by the marker the server leaves (2.11); a watcher that was away
for longer than markers last compares with the whole bucket once it is back.
"""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing

from mlscope.bus.bus import Entry
from mlscope.bus.errors import Conflict
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import EXPECTED, MESSAGE_ID, Stored, last_on, read_on, store, tail

OPERATION = "KV-Operation"
MARKER = "Nats-Marker-Reason"


def bucket_stream(bucket: str) -> str:
    """Return the name of a bucket's stream."""
    return f"KV_{bucket}"


def key_subject(bucket: str, key: str) -> str:
    """Return the subject of a key (`>` is every key)."""
    return f"$KV.{bucket}.{key}"


def entry_of(bucket: str, stored: Stored) -> Entry:
    """Return a stored message as an entry: deletions and markers have no value."""
    key = stored.subject.removeprefix(key_subject(bucket, ""))
    is_gone = OPERATION in stored.headers or MARKER in stored.headers
    return Entry(bucket, key, None if is_gone else stored.body, stored.sequence)


class Buckets:
    """The buckets of one connection."""

    def __init__(self, connection: Connection) -> None:
        """Use `connection`."""
        self._connection = connection

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None) -> int:
        """Set a key; with `revision` only if that is its newest. Raises Conflict."""
        id_of_write = uuid.uuid4().hex
        try:
            return await self._write(bucket, key, value, revision, id_of_write)
        except Conflict:
            found = await last_on(self._connection, bucket_stream(bucket), key_subject(bucket, key))
            if found is None:
                raise
            if found.headers.get(MESSAGE_ID) == id_of_write:
                return found.sequence
            if revision != 0 or entry_of(bucket, found).value is not None:
                raise
        return await self._write(bucket, key, value, found.sequence, id_of_write)

    async def _write(
        self, bucket: str, key: str, value: bytes, revision: int | None, id_of_write: str
    ) -> int:
        headers = {MESSAGE_ID: id_of_write}
        if revision is not None:
            headers[EXPECTED] = str(revision)
        subject = key_subject(bucket, key)
        return await store(self._connection, subject, value, headers=headers)

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None."""
        subject = key_subject(bucket, key)
        stored = await last_on(self._connection, bucket_stream(bucket), subject)
        if stored is None:
            return None
        entry = entry_of(bucket, stored)
        return None if entry.value is None else entry

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key: a message that says so."""
        headers = {OPERATION: "DEL", MESSAGE_ID: uuid.uuid4().hex}
        subject = key_subject(bucket, key)
        await store(self._connection, subject, b"", headers=headers)

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every key as it is now, None once, then every change."""
        watched = _Watched(bucket)
        self._connection.on_reconnect(watched.reconnected)
        changes = tail(
            self._connection, bucket_stream(bucket), key_subject(bucket, ">"), 0, ticks=True
        )
        try:
            async with aclosing(changes) as every:
                async for stored in every:
                    for news in await self._news(watched, stored):
                        yield news
        finally:
            self._connection.off_reconnect(watched.reconnected)

    async def _news(self, watched: "_Watched", stored: Stored | None) -> list[Entry | None]:
        news: list[Entry | None] = []
        if watched.was_away:
            watched.was_away = False
            news += await self._gone(watched.bucket, watched.known)
        if stored is not None:
            entry = entry_of(watched.bucket, stored)
            news += [entry] if watched.is_news(entry) else []
        elif not watched.is_caught_up:
            watched.is_caught_up = True
            news.append(None)
        return news

    async def changes(self, bucket: str, after: int) -> list[Entry]:
        """Return the keys whose newest revision is beyond `after`, in the order they were set."""
        entries: list[Entry] = []
        stream, every_key = bucket_stream(bucket), key_subject(bucket, ">")
        more = 1
        while more:
            found, more = await read_on(self._connection, stream, every_key, after)
            entries += [entry_of(bucket, stored) for stored in found]
            after = found[-1].sequence if found else after
            more = more if found else 0
        return entries

    async def _gone(self, bucket: str, known: dict[str, int]) -> list[Entry]:
        """Forget and return known keys that the bucket no longer holds in any form."""
        held = {entry.key for entry in await self.changes(bucket, 0)}
        gone = [key for key in known if key not in held]
        return [Entry(bucket, key, None, known.pop(key)) for key in gone]


class _Watched:
    """What one watcher of a bucket was told so far."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.known: dict[str, int] = {}
        self.is_caught_up = False
        self.was_away = False

    def reconnected(self) -> None:
        """Note that changes may have been missed."""
        self.was_away = True

    def is_news(self, entry: Entry) -> bool:
        """Note an entry; what was gone before the watch began is no news."""
        if entry.value is not None:
            self.known[entry.key] = entry.revision
            return True
        return self.known.pop(entry.key, None) is not None or self.is_caught_up
