"""Key-value buckets over JetStream: a bucket is a stream that keeps a subject's last message.

No message says that a key expired: markers would need roll-up headers, by which a writer of one
key drops all. A watcher compares its keys with the whole bucket after each reconnect, and once a
second where keys expire.
"""

import asyncio
import logging
import math
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing

from mlscope.bus.errors import Conflict, Unreachable
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.log import StoredMessage, last_on, read_on, tail
from mlscope.bus.nats.storing import EXPECTED, MESSAGE_ID, store
from mlscope.bus.records import Entry
from mlscope.bus.streams import BUCKETS

_log = logging.getLogger(__name__)

OPERATION = "KV-Operation"
MARKER = "Nats-Marker-Reason"
_EXPIRING = frozenset(bucket.name for bucket in BUCKETS if bucket.ttl_s)
_COMPARE_EVERY_S = 1.0


def bucket_stream(bucket: str) -> str:
    """Return the name of a bucket's stream."""
    return f"KV_{bucket}"


def key_subject(bucket: str, key: str) -> str:
    """Return the subject of a key (`>` is every key)."""
    return f"$KV.{bucket}.{key}"


def entry_of(bucket: str, stored: StoredMessage) -> Entry:
    """Return a stored message as an entry; deletions and markers have no value."""
    key = stored.subject.removeprefix(key_subject(bucket, ""))
    is_gone = OPERATION in stored.headers or MARKER in stored.headers
    return Entry(bucket, key, None if is_gone else stored.body, stored.sequence)


class Buckets:
    """The buckets of one connection."""

    def __init__(self, connection: Connection) -> None:
        """Use an open connection."""
        self._connection = connection

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None) -> int:
        """Set `key` in `bucket` to `value`; with `revision`, only if that is its newest one.

        Returns the new revision. Raises Conflict.
        """
        id_of_write = uuid.uuid4().hex
        try:
            return await self._write(bucket, key, value, revision, id_of_write)
        except Conflict:
            newest = await last_on(
                self._connection, bucket_stream(bucket), key_subject(bucket, key)
            )
            if newest is None:
                raise
            if newest.headers.get(MESSAGE_ID) == id_of_write:
                return newest.sequence
            if revision != 0 or entry_of(bucket, newest).value is not None:
                raise
        return await self._write(bucket, key, value, newest.sequence, id_of_write)

    async def _write(
        self, bucket: str, key: str, value: bytes, revision: int | None, id_of_write: str
    ) -> int:
        headers = {MESSAGE_ID: id_of_write}
        if revision is not None:
            headers[EXPECTED] = str(revision)
        subject = key_subject(bucket, key)
        return await store(self._connection, subject, value, headers=headers)

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None if the key does not exist."""
        subject = key_subject(bucket, key)
        stored = await last_on(self._connection, bucket_stream(bucket), subject)
        if stored is None:
            return None
        entry = entry_of(bucket, stored)
        return None if entry.value is None else entry

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key by storing a deletion message."""
        headers = {OPERATION: "DEL", MESSAGE_ID: uuid.uuid4().hex}
        subject = key_subject(bucket, key)
        await store(self._connection, subject, b"", headers=headers)

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every current entry, None once, then every change, without end."""
        watch = _BucketWatch(may_expire=bucket in _EXPIRING)
        self._connection.availability.on_reconnect(watch.reconnected)
        changes = tail(
            self._connection, bucket_stream(bucket), key_subject(bucket, ">"), 0, ticks=True
        )
        try:
            async with aclosing(changes) as messages:
                async for stored in messages:
                    if watch.must_compare(asyncio.get_running_loop().time()):
                        for vanished in await self._vanished(bucket, watch):
                            yield vanished
                    if stored is not None:
                        entry = entry_of(bucket, stored)
                        if watch.is_news(entry):
                            yield entry
                    elif not watch.is_caught_up:
                        watch.is_caught_up = True
                        yield None
        finally:
            self._connection.availability.off_reconnect(watch.reconnected)

    async def changes(self, bucket: str, after: int) -> list[Entry]:
        """Return the keys whose newest revision is above `after`, in the order they were set."""
        entries: list[Entry] = []
        stream, every_key = bucket_stream(bucket), key_subject(bucket, ">")
        remaining = 1
        while remaining:
            messages, remaining = await read_on(self._connection, stream, every_key, after)
            entries += [entry_of(bucket, stored) for stored in messages]
            after = messages[-1].sequence if messages else after
            remaining = remaining if messages else 0
        return entries

    async def _vanished(self, bucket: str, watch: "_BucketWatch") -> list[Entry]:
        """Have `watch` forget, and return, the keys that are no longer in the bucket.

        While the server does not answer, none: the next look compares again.
        """
        try:
            current_keys = {entry.key for entry in await self.changes(bucket, 0)}
        except Unreachable as error:
            _log.warning("bucket %s is not compared for now: %s", bucket, error)
            watch.reconnected()
            return []
        gone_keys = [key for key in watch.revisions if key not in current_keys]
        return [Entry(bucket, key, None, watch.revisions.pop(key)) for key in gone_keys]


class _BucketWatch:
    """The state of one watcher of a bucket: the revisions of the keys it knows."""

    def __init__(self, *, may_expire: bool) -> None:
        """Compare now and then where keys `may_expire`."""
        self.revisions: dict[str, int] = {}
        self.is_caught_up = False
        self._was_away = False
        self._may_expire = may_expire
        self._compared_s = -math.inf

    def reconnected(self) -> None:
        """Note that the watcher may have missed changes."""
        self._was_away = True

    def must_compare(self, now_s: float) -> bool:
        """Tell whether to compare with the whole bucket at `now_s`, and note that it is done."""
        is_due = self._may_expire and now_s >= self._compared_s + _COMPARE_EVERY_S
        is_needed = self._was_away or (is_due and self.is_caught_up)
        if is_needed:
            self._was_away, self._compared_s = False, now_s
        return is_needed

    def is_news(self, entry: Entry) -> bool:
        """Note an entry; a key that was removed before the watch began is no news."""
        if entry.value is not None:
            self.revisions[entry.key] = entry.revision
            return True
        return self.revisions.pop(entry.key, None) is not None or self.is_caught_up
